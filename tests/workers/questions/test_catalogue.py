"""Every reading at every door is a question, or stands here with the reason why it is none."""

from collections.abc import Mapping
from typing import Any

import pytest
from fastapi.routing import APIRoute

from kernel.records.access.actions import ACTIONS
from tests.workers.cli.command import commands
from workers.api.app import MODULES
from workers.api.routes.questions import QuestionRoute
from workers.cli.main import COMMANDS
from workers.mcp.tools import BY_HAND, NO_TOOLS, TOOLS
from workers.questions.catalogue import QUESTIONS
from workers.questions.question import GatewayQuestion

BYTES = "its answer is no JSON: a signed note, hashes"
PROCESS = "the process answers for itself, and reads no record for it"
WAITS = "waits: for an outcome, for witnesses"

ROUTES: Mapping[str, str] = {
    "/v1/sessions/{session_id}": "is answered by what `Prefer` says",
    "/v1/queues/{queue}/requests/{request_id:path}/outcome": WAITS,
    "/v1/tree/inclusion/{ec_sequence_number}": WAITS,
    "/v1/authority/backfill": "counts page by page, each in a snapshot of its own",
    "/v1/archive": PROCESS,
    "/v1/access/caller": "says who asks, of whom the record knows nothing",
    "/healthz": PROCESS,
    "/readyz": PROCESS,
    "/checkpoint": BYTES,
    "/tile/{path:path}": BYTES,
}

WRITES = "writes"
GATEWAY = "adds what a gateway knows, where there is one"
TOOLS_OF_NO_QUESTION: Mapping[str, str] = {
    "diagnose": GATEWAY,
    "get_queues": GATEWAY,
    "get_request": GATEWAY,
    "audit_verify_chain": "verifies, and writes where it is told to record that",
    "merkle_verify": "verifies the proof that it is answered with",
    "query": "runs SQL on the tables",
    "describe_schema": "describes the tables, which are the program's",
    **dict.fromkeys(
        ("audit_session_start", "thought_record", "merkle_finalize", "audit_session_end"), WRITES
    ),
}

COMMANDS_OF_NO_QUESTION: Mapping[str, tuple[str, ...]] = {
    WRITES: (
        *("enqueue", "ingest", "submit", "migrate", "migrate-log", "play"),
        *("session declare", "session eliminate", "session obligation", "session exit"),
        *("session conclude", "session terminate", "session succeed"),
        *("binding create", "binding standing", "binding update"),
        *("binding disable", "binding enable"),
        *("review batch", "review retry", "review decide", "review dismiss", "review take"),
        *("pipeline run", "pipeline resume"),
        *("authority recompute", "authority tick", "authority backfill"),
        *("queues pause", "queues resume", "queues requeue", "queues dismiss", "queues cancel"),
        *("queues bulk cancel", "queues bulk requeue", "queues bulk dismiss"),
        *("queues prioritize", "queues bulk prioritize", "queues bulk stop"),
        *("queues put-back", "implications resume", "round open", "round seal"),
        *("landscape seal", "landscape import", "landscape purge"),
        *("thought start", "thought record", "thought verify", "thought finalize", "thought end"),
        *("rollback operation", "rollback epoch", "rollback rebuild", "rollback confirm"),
        *("erase thought", "erase model-answer", "hold set", "hold lift"),
        *("ledger accept-head", "quarantine lift", "archive run", "tree rebuild"),
        *("access grant", "access withdraw", "keys create", "keys rotate", "keys revoke"),
        *("backup", "restore"),
    ),
    "serves, until it is stopped": (
        *("demo", "up", "dev", "gateway", "worker", "tee", "witness run", "mcp"),
    ),
    "makes or judges files, and reads no record for an answer": (
        *(
            "new",
            "exhibit",
            "witness key",
            "thought key",
            "dockets report",
            "pipeline graph",
            "settings",
            "docs",
            "completion",
            "man",
        ),
        *("checkpoint key", "checkpoint publish", "checkpoint hand-over", "checkpoint stamp"),
        *("checkpoint verify-stamp", "checkpoint verify"),
        *("prove operation", "prove thought", "prove run", "prove elimination", "prove manifest"),
        *("prove request", "prove consistency", "landscape export", "export"),
    ),
    "verifies what it is answered, or computes it anew": (
        *("verify", "archive verify", "audit replay", "audit undoings", "session replay"),
        *("tree head", "tree inclusion", "tree consistency", "thought prove"),
    ),
    "acts on what a gateway answers, or shows it beside other things": (
        *("session show", "session audit", "session watch", "simulate"),
        *("queues", "queues set-aside", "implications", "access at", "access caller"),
    ),
    "puts questions and what is beside the record together": (
        *("status", "top", "doctor", "health", "archive status", "ledger lost"),
        *("audit manifest", "landscape report", "explain"),
    ),
}


def routes() -> list[APIRoute]:
    listed = [route for module in MODULES for route in module.router.routes]
    return [route for route in listed if isinstance(route, APIRoute) and "GET" in route.methods]


def test_every_get_route_is_a_question_or_says_why_not():
    others = {route.path for route in routes() if not isinstance(route, QuestionRoute)}
    assert others == ROUTES.keys()


def test_every_tool_is_a_question_or_says_why_not():
    made = {
        name
        for name, question in QUESTIONS.items()
        if not issubclass(question, GatewayQuestion) and name not in NO_TOOLS | BY_HAND.keys()
    }
    assert TOOLS.keys() - made == BY_HAND.keys() == TOOLS_OF_NO_QUESTION.keys()
    writing = {name for name, tool in TOOLS.items() if tool.writes}
    assert writing == {name for name, why in TOOLS_OF_NO_QUESTION.items() if why == WRITES}
    assert QUESTIONS.keys() >= NO_TOOLS
    assert NO_TOOLS.isdisjoint(BY_HAND)


def test_every_command_is_a_question_or_says_why_not():
    texts = {question.description() for question in QUESTIONS.values()}
    others = {
        " ".join(words)
        for name in COMMANDS
        for words, command in commands(name)
        if command.help not in texts and getattr(command, "invoke_without_command", True)
    }
    listed = [words for group in COMMANDS_OF_NO_QUESTION.values() for words in group]
    assert len(listed) == len({*listed})
    assert others == {*listed}


def test_a_question_is_asked_somewhere():
    paths = {name for name, question in QUESTIONS.items() if question.paths}
    texts = {command.help for name in COMMANDS for _, command in commands(name)}
    asked_by_command = {name for name, each in QUESTIONS.items() if each.description() in texts}
    assert paths | (TOOLS.keys() - BY_HAND.keys()) | asked_by_command >= QUESTIONS.keys()


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_has_the_action_that_it_needs(name):
    question = QUESTIONS[name]
    assert question.action in ACTIONS
    assert question.description()


SHAPES_OF: Mapping[str, int] = {
    "session_id": 3,
    "after": 6,
    "limit": 4,
    "state": 3,
    "status": 2,
}
"""Fields that are not the same wherever they stand: how many forms they have.

Sessions are of beliefs, live or on the record, or of thoughts; places are numbers or names; states
are those of a kind.
"""


def shape_of(schema: Mapping[str, Any]) -> str:
    """The form of a field without its words, and whether or not it may be left out."""
    stated = [part for part in schema.get("anyOf", [schema]) if part.get("type") != "null"]
    words = {"title", "default", "description"}
    forms = [{name: part[name] for name in sorted(part) if name not in words} for part in stated]
    return str(forms)


def test_a_field_has_one_form_whatever_it_is_asked_of():
    shapes: dict[str, set[str]] = {}
    for question in QUESTIONS.values():
        for name, schema in question.model_json_schema()["properties"].items():
            shapes.setdefault(name, set()).add(shape_of(schema))
    assert {name: len(forms) for name, forms in shapes.items() if len(forms) > 1} == SHAPES_OF


def test_an_order_is_stated_by_one_field_and_the_oldest_come_first():
    for name, question in QUESTIONS.items():
        named = {field for field in question.model_fields if "order" in field or "newest" in field}
        assert named <= {"order"}, name
        if named:
            assert question.model_fields["order"].default == "oldest"
            schema = question.model_json_schema()["properties"]["order"]
            assert schema["enum"] == ["oldest", "newest"]


def test_a_page_says_in_one_way_where_it_goes_on():
    for name, question in QUESTIONS.items():
        if "after" in question.model_fields:
            assert question.rows, name
            assert "limit" in question.model_fields, name
