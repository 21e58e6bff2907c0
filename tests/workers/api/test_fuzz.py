"""Whatever is sent: a typed answer, nothing half-applied, and a record that verifies."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import given, settings
from hypothesis import strategies as st
from schemathesis.checks import load_all_checks
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from kernel.ledger import schema
from tests import openapi_doc
from tests.fuzz.hostile import broken_at
from tests.kernel.build import adapt, changed, everything, places
from tests.workers.api.door import (
    ANY_JSON,
    ONTOLOGY,
    SESSION,
    TOKEN,
    URL,
    rows,
    source,
    understanding,
)
from tests.workers.api.kept import KeptDoor, kept_door, rows_of, typed
from workers.api.body_limits import MAX_BODY_BYTES
from workers.api.operation_stream import MEDIA_TYPE

DOCUMENT = openapi_doc.document()
OPERATIONS = {
    operation.ok().label: operation.ok()
    for operation in schemathesis.openapi.from_dict(DOCUMENT).get_all_operations()
}
CHECKS = [
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
]


@schemathesis.serializer(MEDIA_TYPE)
def one_line(_: Any, value: Any) -> bytes:
    """A stream of one line, whose schema is that of the stream."""
    return json.dumps(value).encode() + b"\n"


KNOWN = {"session_id": [SESSION], "node_id": ["s-1", "u-1", "c-1"]}
"""Names that lead somewhere, so that more than the door is looked at."""


POSITIVE, NEGATIVE = schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE


def _modes() -> list[tuple[str, schemathesis.GenerationMode]]:
    """Each route as the document has it, and as it has it not, where there is something to say."""
    asking = [
        label
        for label, operation in OPERATIONS.items()
        if operation.body or [*operation.iter_parameters()]
    ]
    return [(label, POSITIVE) for label in OPERATIONS] + [(label, NEGATIVE) for label in asking]


@pytest.fixture(scope="module")
def kept() -> Iterator[KeptDoor]:
    load_all_checks()
    with kept_door() as kept:
        yield kept


@pytest.mark.parametrize(("label", "mode"), _modes())
def test_every_route_answers_as_the_document_says(kept: KeptDoor, label, mode):
    operation = OPERATIONS[label]
    log = rows(kept.ledger, schema.kernel_event_log)
    known = KNOWN | {"operation_id": [row["operation_id"] for row in log]}

    @settings(max_examples=max(5, settings().max_examples // 5))
    @given(st.data())
    def answers(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy(mode))
        # A line that is wrong has an answer of its own in a stream.
        checks = CHECKS[:-1] if label.endswith(":bulk") else CHECKS
        if any(isinstance(value, list) and len(value) < 2 for value in (case.query or {}).values()):
            # In a URL a list of one is what its entry is.
            checks = CHECKS[:-1]
        for name in sorted(set(known) & set(case.path_parameters)):
            if data.draw(st.booleans()):
                case.path_parameters[name] = data.draw(st.sampled_from(known[name]))
                # What was wrong with it may have been the name that was.
                checks = CHECKS[:-1]
        sent = requests.Request(**case.as_transport_kwargs(base_url=URL)).prepare()
        headers = dict(sent.headers)
        response = kept.send(sent.method, sent.url, content=sent.body or b"", headers=headers)
        typed(response)
        case.validate_response(response, checks=checks)

    answers()


MAX_DEPTH_TRIED = 1500
ENVELOPES = f"/v1/sessions/{SESSION}/envelopes"
KEY = "the-name-of-this-asking"
"""Each body that is posted has another, or it would be answered as the first one was."""

ENVELOPE = adapt("u-1", note={"a": [1]}) | {"operation_id": KEY, "idempotency_key": KEY}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/sessions": {
        "ontology": ONTOLOGY,
        "hypotheses": ["a", "b"],
        "metadata": {"m": 1},
        "stability_window": 1,
    },
    f"/v1/sessions/{SESSION}/eliminate": {
        "source_id": "s",
        "observation_id": KEY,
        "eliminated": ["a"],
        "justification": {"j": 1},
    },
    f"/v1/sessions/{SESSION}/obligations": {"obligation_id": KEY, "min_total_eliminations": 2},
    f"/v1/sessions/{SESSION}/obligations/{KEY}/exit": {"context": {"c": 1}},
    f"/v1/sessions/{SESSION}/conclusions": {"conclusion_id": KEY, "context": {"c": 1}},
    f"/v1/sessions/{SESSION}/terminate": {"context": {"c": 1}},
    f"/v1/sessions/{SESSION}/operations": {
        "intents": [
            source(KEY, metadata={"m": {"n": 1}}),
            understanding(f"u:{KEY}", "s-1"),
            {
                "intent_kind": "field_adapt",
                "intent_key": KEY,
                "node_id": "u-1",
                "fields": {"note": {"a": [1]}},
            },
        ]
    },
    f"/v1/sessions/{SESSION}/syntheses": {
        "intent_kind": "synthesize_cu_by_model",
        "intent_key": KEY,
        "node_id": KEY,
        "corpus_id": "corpus:test",
        "query": "denied",
        "source_refs": ["s-1"],
    },
    f"/v1/sessions/{SESSION}/simulations": {"envelope": ENVELOPE},
    ENVELOPES: ENVELOPE,
    "/v1/rollbacks": {"tier": 1, "operation_id": "op"},
    "/v1/rollbacks/dry-run": {"tier": 2, "epoch_id": "e"},
    "/v1/audit/replay": {"from_sequence": 1, "to_sequence": 4},
    "/v1/queues/binding-evaluation/requests": {
        "requests": [
            {
                "request_key": KEY,
                "content": {"binding_id": "b", "source_event_id": "e", "more": {"m": [1]}},
                "priority": None,
                "delay_s": 1,
            }
        ]
    },
    "/v1/queues/binding-evaluation/outcomes": {"request_ids": [KEY], "wait_s": 0.01},
    "/v1/queues/binding-evaluation/requests/nobody/cancel": {"reason": "why"},
    "/v1/queues/binding-evaluation/pause": {"priority": "critical"},
    "/v1/queues/binding-evaluation/resume": {"priority": "critical"},
    "/v1/queues/binding-evaluation/requeue": {"request_ids": [KEY]},
    "/internal/recomputed": {
        "results": [
            {
                "session_id": SESSION,
                "intent": {
                    "intent_kind": "recalculate_authority",
                    "intent_key": KEY,
                    "target_cu_id": "u-1",
                    "as_of_sequence": 3,
                    "cu_authority": 0.5,
                    "inputs": {"count": 0, "digest": "0" * 64, "excerpt": []},
                },
            }
        ]
    },
    "/internal/dead-letters": {"item_key": "u-1", "request_ids": ["r"], "error_signature": "e"},
}
"""A body that each writing route can read, for what is spoiled to get as far as it can."""

PLACEHOLDER = "\ue000"
TOKENS = st.sampled_from(
    [
        *("NaN", "Infinity", "-Infinity", "-0", "1e999", "-1e-999", "9" * 400, "9" * 5000, "1E400"),
        *('"\\ud800"', '"\\udc00\\ud800"', '"\\u0000"', '"\\x"', '"', "nul", "tru", "01", "+1"),
        *("{}", "[]", '{"a":1,"a":2}', '{"a":{},"a":[]}', '{"":""}', "[,]", "{,}", "/**/", "'a'"),
        *("null", "true", "-1", "0", "1.5", "1e17", str(2**53), str(2**63), str(2**64), '"5"'),
    ]
)
"""JSON that few readers agree about, JSON that is none, and values of other types."""


def nested(depth: int, kind: str) -> str:
    opened, closed = {"list": ("[", "]"), "object": ('{"a":', "}"), "open": ("[", "")}[kind]
    return opened * depth + "1" + closed * depth


NESTED = st.builds(
    nested,
    st.sampled_from([20, 31, 32, 33, 64, 127, 200, 256, 500, 900, 980, MAX_DEPTH_TRIED]),
    st.sampled_from(["list", "object", "open"]),
)
LONG = st.builds(
    lambda count, item: f"[{','.join([item] * count)}]",
    st.sampled_from([63, 64, 65, 255, 256, 257, 258, 1000, 10_001]),
    st.sampled_from(["1", '"a"', "{}", "null", "[]"]),
)
LONG_TEXT = st.sampled_from([400, 401, 512, 513, 2048, 65_536, 65_537, 1 << 20]).map(
    lambda length: f'"{"x" * length}"'
)
SPOILT = st.one_of(TOKENS, TOKENS, NESTED, LONG, LONG_TEXT, ANY_JSON.map(json.dumps))


@st.composite
def contents(draw: st.DrawFn, body: dict[str, Any]) -> bytes:
    """The body with something about it spoiled: one value, one name told twice, or its bytes."""
    place = draw(st.sampled_from([*places(body)]))
    how = draw(st.sampled_from(["value", "value", "twice", "whole", "bytes", "as it is"]))
    if how == "whole":
        return draw(SPOILT).encode()
    text = json.dumps(body)
    if how == "value":
        marked = json.dumps(changed(body, {place: PLACEHOLDER}))
        text = marked.replace(json.dumps(PLACEHOLDER), draw(SPOILT))
    elif how == "twice":
        text = f'{{"{place.partition(".")[0]}":{draw(SPOILT)},{text[1:]}'
    content = text.encode()
    return draw(broken(content)) if how == "bytes" else content


@st.composite
def broken(draw: st.DrawFn, content: bytes) -> bytes:
    cut = draw(st.integers(0, len(content)))
    return draw(st.sampled_from(broken_at(content, cut)))


HEADERS = st.sampled_from(
    [
        *[{"Content-Type": "application/json"}] * 12,
        {"Content-Type": "application/json; charset=utf-16"},
        {"Content-Type": "application/vnd.rotulus+json"},
        {"Content-Type": "text/plain"},
        {"Content-Type": "multipart/form-data; boundary=x"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": ";;"},
        {"Content-Type": "\xff"},
        {"Content-Encoding": "gzip", "Content-Type": "application/json"},
    ]
)
SENDER = {"Authorization": f"Bearer {TOKEN}"}
STATE = {str(table.name) for table in schema.STATE_TABLES}
ASKING = ("/simulations",)
"""Routes where having asked is an operation of its own, and nothing comes of it."""


def answered_whole(kept: KeptDoor, path: str, content: bytes, headers: dict[str, str]) -> bool:
    """Post; a refusal left nothing but a receipt. Returns whether it was taken."""
    before, receipts = rows_of(kept.ledger), kept.receipts()
    raw = {name: value.encode("latin-1") for name, value in (SENDER | headers).items()}
    response = kept.send("POST", path, content=content, headers=raw)
    code, after = typed(response), rows_of(kept.ledger)
    differing = {name for name in after if after[name] != before[name]}
    if path.endswith(ASKING):
        assert not differing & STATE
        return code is None
    if code is None:
        return True
    assert response.status_code != 503, response.text
    assert kept.receipts() - receipts in (0, 1)
    assert differing == set()
    return False


@pytest.fixture(scope="module")
def quiet() -> Iterator[KeptDoor]:
    with kept_door() as kept:
        yield kept


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("size", [MAX_BODY_BYTES + 1, 10 << 20])
def test_a_body_larger_than_the_limit_is_refused_unread(quiet: KeptDoor, path, size):
    content = json.dumps(BODIES[path]).encode().ljust(size)
    before = everything(quiet.ledger)
    response = quiet.send("POST", path, content=content, headers=SENDER)
    assert typed(response) == "request_too_large"
    assert response.status_code == 413
    assert everything(quiet.ledger) == before


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("filling", ['"%s"', "[%s]", '{"x":"%s"}'])
def test_a_body_of_nothing_but_the_limit_is_refused_whole(quiet: KeptDoor, path, filling):
    """Just small enough to be read: one text, one list or one field as long as a body may be."""
    room = MAX_BODY_BYTES - len(filling)
    inside = "1," * (room // 2 - 1) + "1" if filling == "[%s]" else "x" * room
    headers = {"Content-Type": "application/json"}
    assert not answered_whole(quiet, path, (filling % inside).encode(), headers)


def test_a_long_refusal_is_a_short_answer(quiet: KeptDoor):
    """A refusal names what is wrong, and does not send back what was sent."""
    for path in BODIES:
        body = dict.fromkeys((f"{'x' * 5000}{number}" for number in range(100)), "x" * 5000)
        response = quiet.send("POST", path, json=body, headers=SENDER)
        assert typed(response)
        assert len(response.content) < 64 * 1024, path


@pytest.mark.parametrize("path", BODIES)
def test_any_bytes_are_answered_and_a_refusal_leaves_a_receipt_at_most(path):
    with kept_door() as kept:
        taken = []

        @settings(max_examples=settings().max_examples * (2 if path == ENVELOPES else 1))
        @given(contents(BODIES[path]), HEADERS)
        def post(content: bytes, headers: dict[str, str]) -> None:
            fresh = content.replace(KEY.encode(), f"{KEY}:{len(taken)}".encode())
            taken.append(answered_whole(kept, path, fresh, headers))

        post()
        assert not all(taken)


def test_the_document_has_one_error_for_every_route():
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            errors = {
                status: response["content"]["application/json"]["schema"]["$ref"]
                for status, response in operation["responses"].items()
                if not status.startswith("2") and (path, status) != ("/readyz", "503")
            }
            body = "#/components/schemas/ErrorBody"
            assert errors == {"4XX": body, "5XX": body}, (method, path)


def test_no_route_for_a_person_or_a_worker_is_in_the_document():
    paths = list(DOCUMENT["paths"])
    assert not [path for path in paths if path.startswith("/internal") or path in ("/", "/events")]
