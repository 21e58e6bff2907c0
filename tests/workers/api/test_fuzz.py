"""Whatever is sent: a typed answer, nothing half-applied, and a record that verifies."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.ledger import schema
from tests.fuzz.hostile import broken_at
from tests.kernel.build import changed, everything, places
from tests.workers.api.bodies import BODIES, ENVELOPES, KEY, SENDER
from tests.workers.api.door import ANY_JSON
from tests.workers.api.kept import KeptDoor, kept_door, rows_of, typed
from workers.api.body_limits import MAX_BODY_BYTES

MAX_DEPTH_TRIED = 1500
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
