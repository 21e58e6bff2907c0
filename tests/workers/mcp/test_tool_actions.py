"""Whose each tool is: every role against every tool, and the same action as the route's."""

import re

import pytest

from kernel.records.access.actions import ACTIONS, ROLES, Grant, is_allowed
from workers.mcp.tools import TOOLS
from workers.questions.catalogue import QUESTIONS

# Written down from what the roles are for, and not from the table of actions; the first row that
# fits counts.
MAY: tuple[tuple[str, str], ...] = (
    (r"audit_session_(start|end)|thought_record|merkle_finalize", "producer"),
    (r"query|describe_schema", "auditor"),
    (r"diagnose|get_queues|get_implications", "operator reviewer auditor"),
    (r"get_request", "producer worker reviewer auditor"),
    (r"list_dead_letters|list_failures", "producer operator reviewer auditor"),
    (r"list_thoughts|list_rounds|audit_verify_chain|merkle_root|merkle_verify",
     "producer reviewer auditor"),
    (r".*", "reviewer auditor"),
)  # fmt: skip


def allowed_roles(tool: str) -> set[str]:
    row = next(roles for pattern, roles in MAY if re.fullmatch(pattern, tool))
    return {*row.split(), "owner"}


@pytest.mark.parametrize("role", ROLES)
def test_each_role_calls_the_tools_that_are_its_own_and_no_others(role: str):
    grants = [Grant("service:s", role)]
    called = {name for name, tool in TOOLS.items() if is_allowed(grants, tool.action, {})}
    assert called == {name for name in TOOLS if role in allowed_roles(name)}


def test_each_tool_names_an_action_and_that_of_its_question():
    by_hand = {"get_queues", "get_request"}
    for name, tool in TOOLS.items():
        assert tool.action in ACTIONS
        if name in QUESTIONS and name not in by_hand:
            assert tool.action == QUESTIONS[name].action, name
