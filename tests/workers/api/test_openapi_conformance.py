"""Every operation does what the OpenAPI document says: all checks of schemathesis, over all of it.

Cases are those that its generator enumerates of a schema (each limit, each wrong type, each method
that a path has not), so many of each operation, and others that are drawn.
"""

from itertools import islice
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import given, settings
from hypothesis import strategies as st
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.generation.meta import CoverageScenario

from kernel.ledger import schema
from tests import openapi_doc
from tests.workers.api.answer_shapes import line_problems
from tests.workers.api.door import SESSION, URL, rows
from tests.workers.api.kept import KeptDoor, typed
from workers.api.operation_stream import MEDIA_TYPE

load_all_checks()
SCHEMA = schemathesis.openapi.from_dict(openapi_doc.document())
OPERATIONS = {operation.ok().label: operation.ok() for operation in SCHEMA.get_all_operations()}
POSITIVE, NEGATIVE = schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE
FURTHER = CoverageScenario.OBJECT_UNEXPECTED_PROPERTIES
CASES_MAX = 20
"""Cases of one operation, of all that are enumerated; forty times as many at night."""

_OF_RECORD = "what it names must be on the record, and stand as it has to"
_EITHER = "one of two fields is given, and not both"
UNCHECKED = {
    "positive_data_acceptance": {
        "GET /v1/reviews/open": "an outcome goes on after a number, other kinds after a text",
        "GET /v1/sessions": "words are looked for in the sessions of now",
        "GET /v1/tree": "the log may have fewer rows",
        "GET /v1/tree/inclusion/{ec_sequence_number}": "the log may have fewer rows",
        "GET /v1/tree/operations/{operation_id}": "the log may have fewer rows",
        "GET /v1/tree/consistency/{old_tree_size}": "the log may have fewer rows",
        "POST /v1/audit/replay": _EITHER,
        "POST /v1/bulk-operations": "a priority and a queue are given where the verb needs them",
        "POST /v1/checkpoint/handovers": "keys and signatures must be those of the log",
        "POST /v1/queues/{queue}/pause": "each queue has priorities of its own",
        "POST /v1/queues/{queue}/resume": "each queue has priorities of its own",
        "POST /v1/queues/{queue}/requests": "each queue has contents of its own",
        "POST /v1/reviews/batches": "items of a batch are told apart, and refer to others",
        "POST /v1/reviews/decisions": _OF_RECORD,
        "POST /v1/reviews/dismissals": _OF_RECORD,
        "POST /v1/sessions": "a gateway keeps tombstones in one place, which its operator chooses",
        "POST /v1/sessions/{session_id}/eliminate": "an integer of a justification has 53 bits",
        "POST /v1/sessions/{session_id}/envelopes": "the kernel's checks judge it (V1 to V12)",
        "POST /v1/sessions/{session_id}/operations": "an integer of metadata has 53 bits",
        "POST /v1/sessions/{session_id}/simulations": _EITHER,
        "POST /v1/sessions/{session_id}/succeed": _EITHER,
        "POST /v1/sessions/{session_id}/syntheses": _OF_RECORD,
        "POST /v1/sources/{name}": "further attributes of an event are texts, integers, booleans",
    },
    "negative_data_rejection": {
        "POST /v1/sessions/{session_id}/operations:bulk": "a wrong line has an answer of its own",
    },
}
"""Which check is switched off for which operation, and why."""


@schemathesis.serializer(MEDIA_TYPE)
def stream(_: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


@schemathesis.deserializer(MEDIA_TYPE)
def text(_: Any, response: Any) -> str:
    return response.content.decode()


KNOWN = {"session_id": [SESSION], "node_id": ["s-1", "u-1", "c-1"]}
"""Names that lead somewhere, so that more than the door is looked at."""


def _modes() -> list[tuple[str, schemathesis.GenerationMode]]:
    """Each route as the document has it, and as it has it not, where there is something to say."""
    asking = [
        label
        for label, operation in OPERATIONS.items()
        if operation.body or [*operation.iter_parameters()]
    ]
    return [(label, POSITIVE) for label in OPERATIONS] + [(label, NEGATIVE) for label in asking]


def send(kept: KeptDoor, case: schemathesis.Case, *unchecked: str) -> None:
    """Send a case and hold its answer by every check but those named here and in the table."""
    label = case.operation.label
    if case.meta.generation.mode is POSITIVE and isinstance(case.body, dict):
        # What a path names may be repeated in the body, as the same.
        for name in set(case.body) & set(case.path_parameters):
            del case.body[name]
    sent = requests.Request(**case.as_transport_kwargs(base_url=URL)).prepare()
    response = kept.send(
        sent.method, sent.url, content=sent.body or b"", headers=dict(sent.headers)
    )
    typed(response)
    off = {name for name, labels in UNCHECKED.items() if label in labels} | set(unchecked)
    if getattr(case.meta.phase.data, "scenario", None) is FURTHER:
        # OpenAPI forbids no further parameters of a query.
        off.add("negative_data_rejection")
    checks = [check for check in CHECKS.get_all() if check.__name__ not in off]
    case.validate_response(response, checks=checks)
    if response.headers.get("content-type") == MEDIA_TYPE:
        assert line_problems("AnswerLine", response.text) == []


@pytest.mark.parametrize("label", OPERATIONS)
def test_every_case_of_an_operation_is_answered_as_the_document_says(kept: KeptDoor, label):
    operation = OPERATIONS[label]
    cases = [
        *SCHEMA.iter_coverage_cases(
            operation,
            generation_modes=[POSITIVE, NEGATIVE],
            generation_config=SCHEMA.config.generation,
        )
    ]
    step = max(1, len(cases) * 50 // (CASES_MAX * settings().max_examples))
    for case in islice(cases, 0, None, step):
        send(kept, case)


@pytest.mark.parametrize(("label", "mode"), _modes())
def test_every_operation_answers_as_the_document_says(kept: KeptDoor, label, mode):
    operation = OPERATIONS[label]
    log = rows(kept.ledger, schema.kernel_event_log)
    known = KNOWN | {"operation_id": [row["operation_id"] for row in log]}

    @settings(max_examples=max(2, settings().max_examples // 10))
    @given(st.data())
    def answers(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy(mode))
        unchecked = []
        for name in sorted(set(known) & set(case.path_parameters)):
            if data.draw(st.booleans()):
                case.path_parameters[name] = data.draw(st.sampled_from(known[name]))
                # What was wrong with it may have been the name that was.
                unchecked = ["negative_data_rejection"]
        send(kept, case, *unchecked)

    answers()


def test_each_check_that_is_switched_off_is_one_of_an_operation():
    assert set(UNCHECKED) <= {check.__name__ for check in CHECKS.get_all()}
    assert {label for labels in UNCHECKED.values() for label in labels} <= set(OPERATIONS)


def test_the_document_has_nothing_that_only_a_sequence_of_requests_would_check():
    """What schemathesis' checks of sequences, of credentials and of headers look for.

    Nothing is deleted (use_after_free), no answer links to what it created
    (ensure_resource_availability), no credential is asked for (ignored_auth,
    object_level_authorization), no header is required (missing_required_header). Who adds one of
    these adds the sequence that checks it.
    """
    operations = [
        (method, operation)
        for methods in openapi_doc.document()["paths"].values()
        for method, operation in methods.items()
    ]
    for method, operation in operations:
        assert method in ("get", "post")
        assert "security" not in operation
        assert not [answer for answer in operation["responses"].values() if "links" in answer]
        for parameter in operation.get("parameters", ()):
            assert not (parameter["in"] == "header" and parameter.get("required"))
    assert "securitySchemes" not in openapi_doc.document()["components"]
