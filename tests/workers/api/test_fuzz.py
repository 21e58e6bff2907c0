"""Whatever is sent: a typed answer, nothing half-applied, and a record that verifies."""

from collections.abc import Iterator
from typing import Any, cast

import pytest
import requests
import schemathesis
from fastapi import APIRouter
from hypothesis import given, settings
from hypothesis import strategies as st
from schemathesis.checks import load_all_checks
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.kernel.build import FakeHost
from tests.workers.api.door import SESSION, URL
from tests.workers.api.kept import KeptDoor, kept_door, typed
from workers.api.app import build_app

DOCUMENT = build_app(cast(Any, None), APIRouter(), any_host=False, host=FakeHost().host).openapi()
OPERATIONS = {
    one.ok().label: one.ok()
    for one in schemathesis.openapi.from_dict(DOCUMENT).get_all_operations()
}
CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]

KNOWN = {
    "session_id": st.just(SESSION),
    "operation_id": st.integers(1, 4).map(lambda number: f"known:{number}"),
    "node_id": st.sampled_from(["s-1", "u-1", "c-1"]),
}
"""Names that lead somewhere, so that more than the door is looked at."""


POSITIVE, NEGATIVE = schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE


def _modes() -> list[tuple[str, schemathesis.GenerationMode]]:
    """Each route as the document has it, and as it has it not, where there is something to say."""
    asking = [label for label, one in OPERATIONS.items() if one.body or [*one.iter_parameters()]]
    return [(label, POSITIVE) for label in OPERATIONS] + [(label, NEGATIVE) for label in asking]


@pytest.fixture(scope="module")
def kept() -> Iterator[KeptDoor]:
    load_all_checks()
    with kept_door() as kept:
        yield kept


@pytest.mark.parametrize(("label", "mode"), _modes())
def test_every_route_answers_as_the_document_says(kept: KeptDoor, label, mode):
    operation = OPERATIONS[label]

    @settings(max_examples=max(5, settings().max_examples // 5))
    @given(st.data())
    def answers(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy(mode))
        for name in set(KNOWN) & set(case.path_parameters):
            if data.draw(st.booleans()):
                case.path_parameters[name] = data.draw(KNOWN[name])
        sent = requests.Request(**case.as_transport_kwargs(base_url=URL)).prepare()
        response = kept.send(
            sent.method, sent.url, content=sent.body or b"", headers=dict(sent.headers)
        )
        typed(response)
        case.validate_response(response, checks=CHECKS)

    answers()
