"""A body is counted before it is read, says no key twice, and is read as Python reads JSON."""

import gc
import json
import math
import re
import threading
import time
import tracemalloc
from collections.abc import Iterator
from typing import Annotated, Any

import anyio
import pytest
from fastapi.exceptions import RequestValidationError
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from starlette.exceptions import HTTPException

from kernel.belief.limits import MAX_HYPOTHESES
from kernel.model.envelope import MAX_ENVELOPE_BYTES
from kernel.model.problems import PROBLEMS_LISTED_MAX, first_problem
from kernel.values.json_text import SteppedDecoder, unique_keys
from tests import openapi_doc
from tests.kernel.build import FakeHost
from tests.workers.api.door import ANY_JSON, SESSION, Door, error_of, log_length, running_door
from workers.api import json_bodies
from workers.api.app import MODULES
from workers.api.body_limits import (
    BULK,
    INTENTS,
    MAX_BODY_BYTES,
    STREAM,
    UNIVERSE,
    BodyLimits,
    limits_of,
)
from workers.api.errors import ApiError
from workers.api.json_bodies import (
    LARGEST_AT_ONCE,
    LARGEST_BYTES,
    READ_AT_ONCE_BYTES,
    read_json,
)
from workers.api.json_routes import JsonRoute

_NAMES = {"session_id": SESSION, "queue": "binding-evaluation"}
_decode = SteppedDecoder(object_pairs_hook=unique_keys).decode_in_steps
PATHS = (
    *(
        re.sub(r"{(\w+)}", lambda name: _NAMES.get(name[1], "x"), path)
        for path, methods in openapi_doc.document()["paths"].items()
        if "application/json" in methods.get("post", {}).get("requestBody", {}).get("content", {})
    ),
    "/internal/recomputed",
    "/internal/work",
    "/internal/retry-policy",
    "/internal/crons/chain-audit",
)
REPEATED = (
    '{"a":1,"a":1}',
    '{"a":1,"\\u0061":2}',
    '{"x":[[{"y":{"\\ud83d\\ude00":0,"\\uD83D\\uDE00":1}}]]}',
    '{"":1,"":2}',
    '[{"b":{"c":1,"d":2,"c":3}}]',
    '{"\\ud800":1,"\\ud800":1}',
)


def read(content: bytes, limits: BodyLimits) -> Any:
    return anyio.run(read_json, content, limits)


def same(first: Any, other: Any) -> bool:
    return json.dumps(first) == json.dumps(other)


@given(ANY_JSON, st.sampled_from([None, 1, "\t"]), st.booleans())
@example(["a"] * 5000, None, True)
@example([["a", 'b"\\', ""] * 3000, "c"], 1, False)
@example({"a": ["x"] * 4096}, None, True)
@example({"a": ["x"] * 4097}, None, True)
@example([math.nan, math.inf], None, True)
def test_what_is_read_entry_by_entry_is_what_python_reads(value, indent, ascii_only):
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert same(_decode(f" {text}\n"), json.loads(text))


@given(ANY_JSON, st.data())
@example(["a"] * 3, st.data())
def test_what_is_no_json_is_no_json_in_either_reader(value, data):
    text = json.dumps(value)
    if not isinstance(data, st.DataObject):
        return
    place = data.draw(st.integers(0, len(text)))
    broken = data.draw(
        st.sampled_from(
            [text[:place], text[:place] + "," + text[place:], text[:place] + "]" + text[place:]]
        )
    )
    try:
        expected = json.loads(broken)
    except json.JSONDecodeError:
        with pytest.raises(json.JSONDecodeError):
            _decode(broken)
    else:
        assert same(_decode(broken), expected)


@pytest.mark.parametrize("text", REPEATED)
@pytest.mark.parametrize("size", [0, READ_AT_ONCE_BYTES])
def test_a_key_said_twice_is_refused_at_any_depth_and_however_written(text, size):
    with pytest.raises(ApiError, match="twice") as refused:
        read((text + " " * size).encode(), BULK)
    assert refused.value.code == "json_key_repeated"


@given(ANY_JSON, st.text("abc", max_size=2), ANY_JSON)
def test_whatever_else_a_body_holds_a_key_said_twice_is_refused(value, key, other):
    inner = "".join(json.dumps([value])[1:-1])
    written = "".join(f"\\u{ord(character):04x}" for character in key)
    text = f'{{"v":[{inner},{{"{key}":1,"{written}":{json.dumps(other)}}}]}}'
    for size in (0, READ_AT_ONCE_BYTES):
        with pytest.raises(ApiError):
            read((text + " " * size).encode(), BULK)


@pytest.mark.anyio
@pytest.mark.parametrize("path", PATHS)
async def test_no_door_takes_a_key_said_twice(door: Door, path: str):
    headers = {"Content-Type": "application/json"}
    for text in REPEATED[:2]:
        response = await door.http.post(path, content=text, headers=headers)
        error_of(response, 422, "json_key_repeated")
    assert log_length(door.ledger) == 0


@pytest.mark.anyio
async def test_the_largest_bodies_are_read_two_at_a_time(monkeypatch):
    together, most, lock = 0, 0, threading.Lock()

    def read(content, limits):
        nonlocal together, most
        with lock:
            together += 1
            most = max(most, together)
        time.sleep(0.02)
        with lock:
            together -= 1

    monkeypatch.setattr(json_bodies, "read_whole", read)
    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(read_json, b" " * (LARGEST_BYTES + 1), BULK)
    assert most == LARGEST_AT_ONCE


@pytest.mark.anyio
async def test_a_body_is_utf_8():
    async with running_door(host=FakeHost().host) as door:
        for content in (b'"\xff"', '{"a":1}'.encode("utf-16"), b'{"a":"\xed\xa0\x80"}'):
            headers = {"Content-Type": "application/json"}
            response = await door.http.post("/v1/sessions", content=content, headers=headers)
            error_of(response, 422, "body_not_utf8")


@pytest.mark.parametrize(
    ("limits", "content", "actual"),
    [
        (BULK, b"[" + b"[]," * BULK.containers + b"[]]", BULK.containers + 2),
        (BULK, b'{"a":[' + b"{}," * BULK.containers + b"{}]}", BULK.containers + 3),
        (BULK, b"[" + b"0," * BULK.values + b"0]", BULK.values + 1),
        (BodyLimits(body_bytes=10), b" " * 11, 11),
    ],
)
def test_a_body_that_holds_too_much_is_not_read(monkeypatch, limits, content, actual):
    for decode in ("decode", "decode_in_steps"):
        monkeypatch.setattr(SteppedDecoder, decode, None)
    with pytest.raises(ApiError) as refused:
        read(content, limits)
    assert refused.value.code == "request_too_large"
    assert refused.value.details is not None
    assert refused.value.details["actual"] == actual


@pytest.mark.parametrize("mark", [",", "[", "{", '\\"[,', "\\\\"])
def test_what_a_text_holds_is_text(mark):
    text = mark * (BULK.values + 10)
    assert read(f'{{"a":"{text}"}}'.encode(), BULK) == {"a": json.loads(f'"{text}"')}
    with pytest.raises(ApiError):
        read(f'{{"a":"{text}","b":[{"[]," * BULK.containers}0]}}'.encode(), BULK)


def test_each_route_has_its_limits():
    assert limits_of("/v1/sessions") == limits_of(f"/v1/sessions/{SESSION}/eliminate") == UNIVERSE
    assert limits_of("/internal/work") == limits_of("/v1/sessions/s/operations") == INTENTS
    assert limits_of("/v1/queues/q/requests") == BULK
    assert limits_of(f"/v1/sessions/{SESSION}/envelopes").body_bytes == 2 * MAX_ENVELOPE_BYTES
    assert max(limits_of(path).body_bytes for path in PATHS) == MAX_BODY_BYTES
    assert limits_of(f"/v1/sessions/{SESSION}/operations:bulk") == STREAM
    largest = json.dumps({"hypotheses": ["x"] * MAX_HYPOTHESES}, separators=(",", ":"))
    assert len(read(largest.encode(), UNIVERSE)["hypotheses"]) == MAX_HYPOTHESES


@pytest.mark.parametrize("text", [b'{"a":{%s}}', b"{%s}", b'[[[[[{"a":[{%s}]}]]]]]'])
@pytest.mark.parametrize("size", [0, READ_AT_ONCE_BYTES])
def test_an_object_has_so_many_members(text: bytes, size: int):
    few = ",".join(f'"{n}":0' for n in range(3)).encode()
    limits = BodyLimits(members=3)
    assert read(text % few + b" " * size, limits)
    with pytest.raises(ApiError, match="members") as refused:
        read(text % (few + b',"3":0') + b" " * size, limits)
    assert (refused.value.code, refused.value.details) == (
        "request_too_large",
        {"limit": 3, "actual": 4},
    )


def lists_of(schema: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each list in what pydantic made of a model, with its place."""
    for key, part in schema.items() if isinstance(schema, dict) else enumerate(schema):
        if key in ("json_schema_input_schema", "serialization", "python_schema"):
            continue  # What documents the input, writes an answer, or takes any JSON.
        if isinstance(part, dict | list | tuple):
            yield from lists_of(part, f"{place}.{key}")
    if isinstance(schema, dict):
        varies = schema.get("variadic_item_index") is not None
        if schema.get("type") in ("list", "set", "frozenset") or varies:
            yield place, schema


@pytest.mark.parametrize(
    "field",
    [
        pytest.param(route.body_field, id=route.path)
        for module in MODULES
        for route in module.router.routes
        if isinstance(route, JsonRoute) and route.body_field is not None
    ],
)
def test_no_list_of_a_body_is_read_on_behind_its_first_wrong_entry(field: Any):
    adapter = TypeAdapter(Annotated[field.field_info.annotation, field.field_info])
    for place, schema in lists_of(adapter.core_schema):
        assert schema.get("fail_fast"), place


def test_a_document_with_many_problems_is_refused_without_a_list_of_them():
    adapter = TypeAdapter(list[int])
    with pytest.raises(ValidationError) as many:
        adapter.validate_python(["x"] * (PROBLEMS_LISTED_MAX + 1))
    assert first_problem(many.value, "payload") == ("payload", "1001 of its values do not fit")
    with pytest.raises(ValidationError) as few:
        adapter.validate_python(["x"] * PROBLEMS_LISTED_MAX)
    assert first_problem(few.value, "payload")[0] == "payload.0"


UNREADABLE = {
    "no JSON": b"x",
    "a text without an end": b'"',
    "a key twice": b'{"a":1,"a":2,"b":"%b"}',
    "too deep": b"[" * 2_000,
    "not UTF-8": b'"\xff"',
}


@pytest.mark.anyio
@pytest.mark.parametrize("begin", UNREADABLE.values(), ids=UNREADABLE)
async def test_what_cannot_be_read_leaves_nothing_of_it_in_memory(begin):
    size, times = 1 << 19, 24

    async def refused() -> None:
        content = (begin % (b"y" * size) if b"%b" in begin else begin).ljust(size, b"y")
        with pytest.raises((ApiError, RequestValidationError, HTTPException)):
            await read_json(content, BULK)

    await refused()
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        for _ in range(times):
            await refused()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert kept < 3 * size, "without one collection of garbage"
