"""A stream of intents: a line in, a line out, each by itself, and so many between them at most."""

import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest

from actors.errors import CommitFailed
from kernel.ledger import schema
from kernel.transaction.kernel import Kernel
from kernel.transaction.refusal_runs import EACH_RECEIPTS, EACH_S, RefusalRuns
from tests.kernel.build import FakeHost, findings
from tests.workers.api.door import (
    SESSION,
    URL,
    Door,
    client_of,
    error_of,
    eventually,
    log_length,
    rows,
    running_door,
    source,
    understanding,
)
from workers.api import operation_stream
from workers.api.body_limits import BYTES_IN_FLIGHT_MAX, LINE, LINES_IN_FLIGHT_MAX, STREAM
from workers.api.middleware import request_guard
from workers.client import session_operations
from workers.client.errors import GatewayError
from workers.client.gateway_http import RETRY_AFTER_S_MAX
from workers.client.session_operations import SessionOperations
from workers.client.typed.gateway import GatewayClient

pytestmark = pytest.mark.anyio

PATH = f"/v1/sessions/{SESSION}/operations:bulk"
HEAD: dict[str, Any] = {
    "type": "http",
    "method": "POST",
    "path": PATH,
    "raw_path": PATH.encode(),
    "query_string": b"",
    "headers": [(b"host", b"127.0.0.1"), (b"transfer-encoding", b"chunked")],
}
NOT_UTF8 = b'{"intent_kind": "\xff"}'
BAD_LINES = {
    b"": "INVALID_REQUEST",
    b"not json": "INVALID_REQUEST",
    b"[]": "INVALID_REQUEST",
    b'{"intent_kind": "rule_the_world"}': "INVALID_REQUEST",
    b'{"intent_kind": "create_source", "intent_kind": "create_claim"}': "json_key_repeated",
    NOT_UTF8: "body_not_utf8",
    b'{"a": %b}' % (b"[" * 2000): "INVALID_REQUEST",
    b'"%b"' % (b"x" * LINE.body_bytes): "request_too_large",
    b"[%b]" % (b"[]," * LINE.containers): "request_too_large",
}


def lines_of(*intents: Any) -> bytes:
    return b"".join(
        (intent if isinstance(intent, bytes) else json.dumps(intent).encode()) + b"\n"
        for intent in intents
    )


def answers_in(content: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in content.splitlines()]


async def post(door: Door, *intents: Any, path: str = PATH) -> httpx.Response:
    return await door.http.post(path, content=lines_of(*intents))


async def bulk(door: Door, *intents: Any) -> list[dict[str, Any]]:
    response = await post(door, *intents)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/x-ndjson"
    return answers_in(response.content)


class Caller:
    """A connection on which one side writes while the other reads."""

    def __init__(self, door: Door) -> None:
        self._app = door.app
        self._to_app, self._from_caller = anyio.create_memory_object_stream[Any](10_000)
        self.status = 0
        self.content = b""
        self.taking = anyio.Event()
        """Answers are taken off the connection from when it is set."""

        self.taking.set()
        self.read = 0
        """Pieces of the body that were read."""

        self.ended = anyio.Event()

    def send(self, content: bytes, *, more_body: bool = True) -> None:
        piece = {"type": "http.request", "body": content, "more_body": more_body}
        self._to_app.send_nowait(piece)

    def leave(self) -> None:
        self._to_app.send_nowait({"type": "http.disconnect"})

    async def run(self) -> None:
        with self._to_app, self._from_caller:
            await self._app(HEAD, self._receive, self._take)
        self.ended.set()

    async def answers(self, count: int) -> list[dict[str, Any]]:
        await eventually(lambda: self.content.count(b"\n") >= count)
        return answers_in(self.content)

    async def _receive(self) -> Any:
        message = await self._from_caller.receive()
        self.read += 1
        return message

    async def _take(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            return
        await self.taking.wait()
        self.content += message["body"]


@pytest.fixture
async def caller(door: Door) -> AsyncIterator[Caller]:
    await door.declare()
    caller = Caller(door)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(caller.run)
        yield caller
        tasks.cancel_scope.cancel()


async def settled() -> None:
    for _ in range(200):
        await anyio.lowlevel.checkpoint()


async def test_each_line_has_its_result_in_order_and_is_on_the_record(door: Door):
    await door.declare()
    intents = [source(f"s-{number}") for number in range(600)]
    answers = await bulk(door, *intents, understanding("u-1", "s-0", "s-599"))
    assert [answer["line"] for answer in answers] == list(range(1, 602))
    results = [answer["result"] for answer in answers]
    assert {result["validation_result"] for result in results} == {"accepted"}
    log = rows(door.ledger, schema.kernel_event_log)
    recorded = {row["operation_id"]: str(row["ec_sequence_number"]) for row in log}
    for result in results:
        assert recorded[result["operation_id"]] == result["ec_sequence_number"]
    sequences = [int(result["ec_sequence_number"]) for result in results]
    assert sequences == sorted(sequences)


async def test_a_line_is_answered_as_the_same_intent_is_in_a_body(door: Door):
    await door.declare()
    intents = [source("s-1"), source("s-1", text="Another."), understanding("u-1", "nowhere")]
    results = [answer["result"] for answer in await bulk(door, *intents)]
    again = await door.operate(*intents)
    assert again[0] == results[0] | {"duplicate": True}
    assert [result["validation_result"] for result in results[1:]] == ["rejected", "invalid"]
    for result, repeated in zip(results[1:], again[1:], strict=True):
        assert result["reason_code"] == repeated["reason_code"]
        assert set(result) == set(repeated)


@pytest.mark.parametrize("bad", BAD_LINES, ids=lambda bad: bad[:24].decode("latin-1"))
async def test_a_bad_line_has_its_own_error_and_the_rest_goes_on(door: Door, bad: bytes):
    await door.declare()
    answers = await bulk(door, source("s-1"), bad, source("s-2"))
    assert [answer["line"] for answer in answers] == [1, 2, 3]
    assert answers[1]["error"]["code"] == BAD_LINES[bad]
    assert set(answers[1]) == {"line", "error"}
    assert [answers[index]["result"]["validation_result"] for index in (0, 2)] == ["accepted"] * 2


async def test_a_bad_field_of_a_line_is_named(door: Door):
    await door.declare()
    [answer] = await bulk(door, source("s-1", text=5))
    [problem] = answer["error"]["details"]["problems"]
    assert problem["field"] == "body.create_source.text"


async def test_lines_may_end_with_a_carriage_return_and_the_last_one_with_nothing(door: Door):
    await door.declare()
    content = b"\r\n".join(json.dumps(source(f"s-{number}")).encode() for number in range(3))
    answers = answers_in((await door.http.post(PATH, content=content)).content)
    assert [answer["result"]["validation_result"] for answer in answers] == ["accepted"] * 3
    assert answers_in((await door.http.post(PATH, content=b"")).content) == []


async def test_a_line_is_answered_before_the_next_is_sent(caller: Caller):
    for number in range(1, 4):
        line = lines_of(source(f"s-{number}"))
        caller.send(line[:30])
        caller.send(line[30:])
        answers = await caller.answers(number)
        assert answers[-1]["line"] == number
        assert answers[-1]["result"]["validation_result"] == "accepted"
    caller.send(b"", more_body=False)
    await caller.ended.wait()
    assert len(answers_in(caller.content)) == 3


async def test_no_more_is_read_than_may_be_without_an_answer(door: Door, caller: Caller):
    caller.taking = anyio.Event()
    pieces = 2 * LINES_IN_FLIGHT_MAX
    for number in range(pieces):
        caller.send(lines_of(source(f"s-{number}")), more_body=number + 1 < pieces)
    await eventually(lambda: caller.read > LINES_IN_FLIGHT_MAX)
    await settled()
    assert caller.read == LINES_IN_FLIGHT_MAX + 1
    assert log_length(door.ledger) < LINES_IN_FLIGHT_MAX
    caller.taking.set()
    answers = await caller.answers(pieces)
    assert [answer["line"] for answer in answers] == list(range(1, pieces + 1))


async def test_long_lines_are_read_ahead_as_far_as_their_bytes_go(caller: Caller):
    caller.taking = anyio.Event()
    line = lines_of(b'"%b"' % (b"x" * (LINE.body_bytes - 100)))
    for _ in range(10):
        caller.send(line)
    await eventually(lambda: caller.read > BYTES_IN_FLIGHT_MAX // len(line))
    await settled()
    assert caller.read == BYTES_IN_FLIGHT_MAX // len(line) + 1


async def test_who_takes_no_answer_before_all_is_sent_is_read_to_the_end(caller: Caller):
    """A client that writes first and reads then must not wait for itself."""
    caller.taking = anyio.Event()
    most = session_operations.LINES_MAX
    for number in range(most):
        caller.send(lines_of(source(f"s-{number}")), more_body=number + 1 < most)
    await eventually(lambda: caller.read == most)
    assert session_operations.BODY_BYTES_MAX <= BYTES_IN_FLIGHT_MAX


async def test_a_caller_that_goes_leaves_nothing_half_happened(door: Door, caller: Caller):
    caller.send(lines_of(source("s-1")))
    await caller.answers(1)
    caller.send(lines_of(source("s-2"))[:-20])
    caller.leave()
    await caller.ended.wait()
    assert {row["node_id"] for row in rows(door.ledger, schema.nodes)} == {"s-1"}
    assert findings(door.ledger) == ()


async def test_an_unknown_session_is_an_ordinary_refusal(door: Door):
    response = await post(door, source("s-1"))
    error_of(response, 404, "SESSION_NOT_FOUND")
    response = await post(door, source("s-1"), path="/v1/sessions/nobody/operations:bulk")
    error_of(response, 422, "INVALID_REQUEST")


async def test_what_no_line_is_to_blame_for_ends_the_stream_and_the_rest_may_be_sent_again(
    door: Door, caller: Caller, monkeypatch
):
    caller.send(lines_of(source("s-1")))
    await caller.answers(1)

    async def failing(*_: Any) -> Any:
        raise CommitFailed("nothing was committed; ask again")

    with monkeypatch.context() as failed:
        failed.setattr(door.services.sessions, "ask", failing)
        caller.send(lines_of(b"bad", source("s-2"), source("s-3")))
        await caller.ended.wait()
    last = answers_in(caller.content)[-1]
    assert set(last) == {"error", "status", "retry_after_s"}
    assert (last["error"]["code"], last["status"]) == ("commit_failed", 503)
    assert [row["node_id"] for row in rows(door.ledger, schema.nodes)] == ["s-1"]
    again = await bulk(door, source("s-2"), source("s-3"))
    assert [answer["result"]["duplicate"] for answer in again] == [False, False]


async def test_an_unforeseen_failure_breaks_the_stream_off(door: Door, caller: Caller, monkeypatch):
    caller.send(lines_of(source("s-1")))
    await caller.answers(1)

    async def failing(*_: Any) -> Any:
        raise RuntimeError("unforeseen")

    monkeypatch.setattr(door.services.sessions, "ask", failing)
    response = await post(door, source("s-2"))
    error_of(response, 500, "internal")


async def test_a_stream_has_so_many_lines_at_most(door: Door, monkeypatch):
    monkeypatch.setattr(operation_stream, "STREAM_LINES_MAX", 3)
    await door.declare()
    answers = await bulk(door, *(source(f"s-{number}") for number in range(5)))
    assert [answer.get("line") for answer in answers] == [1, 2, 3, None]
    assert (answers[-1]["error"]["code"], answers[-1]["status"]) == ("request_too_large", 413)


async def test_a_stream_has_so_many_bytes_at_most(door: Door):
    await door.declare()
    headers = {"Content-Length": str(STREAM.body_bytes + 1)}
    response = await door.http.post(PATH, content=b"", headers=headers)
    error_of(response, 413, "request_too_large")


@pytest.mark.parametrize(("piece_s", "whole_s"), [(0.2, 600.0), (30.0, 0.3)])
async def test_a_stream_that_is_too_slow_ends(
    door: Door, caller: Caller, monkeypatch, piece_s, whole_s
):
    """Whether a piece of it does not come, or the whole takes too long."""
    monkeypatch.setattr(request_guard, "BODY_S_MAX", piece_s)
    limits = STREAM.__class__(stream_s=whole_s)
    monkeypatch.setattr(request_guard, "limits_of", lambda _: limits)
    slow = Caller(door)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(slow.run)
        slow.send(lines_of(source("s-1")))
        await slow.ended.wait()
    first, last = answers_in(slow.content)
    assert first["result"]["validation_result"] == "accepted"
    assert (last["error"]["code"], last["status"]) == ("body_too_slow", 408)


async def test_a_gateway_that_stops_answers_what_it_has_read_and_ends_its_streams(
    door: Door, caller: Caller
):
    caller.send(lines_of(source("s-1")))
    await caller.answers(1)
    door.services.streams.stop()
    await caller.ended.wait()
    last = answers_in(caller.content)[-1]
    assert (last["error"]["code"], last["status"]) == ("gateway_stopping", 503)
    error_of(await post(door, source("s-2")), 503, "gateway_stopping")
    assert log_length(door.ledger) == 2


@pytest.fixture
async def bounded(anyio_backend: str) -> AsyncIterator[Door]:
    host = FakeHost().host
    kernel = Kernel(refusals=RefusalRuns())
    async with running_door(host=host, kernel=kernel) as door:
        await door.declare()
        await bulk(door, source("s-1"), *refused("first", EACH_RECEIPTS))
        yield door


def refused(key: str, count: int) -> list[dict[str, Any]]:
    return [source("s-1", "x", intent_key=f"{key}-{number}") for number in range(count)]


async def test_a_stream_of_nothing_but_refusals_ends_where_they_are_only_counted(bounded: Door):
    answer, last = await bulk(bounded, *refused("another", 1))
    assert answer["result"]["receipt_id"] is None
    assert (last["error"]["code"], last["retry_after_s"]) == ("refusals_too_many", EACH_S)
    mixed = await bulk(bounded, *refused("mixed", 1), source("s-2"))
    assert [answer["line"] for answer in mixed] == [1, 2]


async def test_the_client_sends_the_rest_when_the_last_line_allows_it(bounded: Door):
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    operations = submitting(bounded, sleep=sleep)
    count = operation_stream.LINES_AT_ONCE_MAX + 1
    outcomes = [outcome async for outcome in operations.submit(refused("again", count))]
    assert [outcome.result["validation_result"] for outcome in outcomes if outcome.result] == [
        "rejected"
    ] * count
    assert pauses
    assert min(pauses) >= RETRY_AFTER_S_MAX


async def test_streams_have_places_of_their_own(door: Door, caller: Caller):
    caller.send(lines_of(source("s-1")))
    await caller.answers(1)
    places = door.services.admission.places
    assert (places["streams"].taken, places["producers"].taken) == (1, 0)
    assert places["streams"].body_bytes == STREAM.held_bytes
    caller.send(b"", more_body=False)
    await caller.ended.wait()
    await eventually(lambda: places["streams"].taken == 0)


def submitting(door: Door, **options: Any) -> SessionOperations:
    return SessionOperations(client_of(door.app, **options), SESSION)


async def test_the_client_yields_an_outcome_for_each_intent(door: Door):
    await door.declare()
    intents = [source(f"s-{number}") for number in range(session_operations.LINES_MAX + 9)]
    intents.insert(5, {"intent_kind": "rule_the_world"})
    outcomes = [outcome async for outcome in submitting(door).submit(intents)]
    assert [index for index, outcome in enumerate(outcomes) if outcome.result is None] == [5]
    assert outcomes[5].error is not None
    assert outcomes[5].error.code == "INVALID_REQUEST"
    accepted = [outcome.result for outcome in outcomes if outcome.result is not None]
    assert {result["validation_result"] for result in accepted} == {"accepted"}
    assert len(outcomes) == len(intents)


class CutOff(httpx.AsyncBaseTransport):
    """Cuts the first answers off after so many bytes each."""

    def __init__(self, door: Door, *sizes: int) -> None:
        self._inner = httpx.ASGITransport(app=door.app)
        self.sizes = list(sizes)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._inner.handle_async_request(request)
        if not self.sizes:
            return response
        content = await response.aread()
        stream = BrokenStream(content[: self.sizes.pop(0)])
        return httpx.Response(response.status_code, stream=stream)


class BrokenStream(httpx.AsyncByteStream):
    def __init__(self, content: bytes) -> None:
        self._content = content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._content
        raise httpx.RemoteProtocolError("cut off")


async def test_the_client_goes_on_after_the_last_answer_that_it_has(door: Door):
    await door.declare()

    async def sleep(_: float) -> None:
        await anyio.lowlevel.checkpoint()

    transport = CutOff(door, 1, 2000, 5000)
    client = GatewayClient(URL, transport=transport, sleep=sleep)
    operations = SessionOperations(client, SESSION)
    intents = [source(f"s-{number}") for number in range(50)]
    results = [outcome.result async for outcome in operations.submit(intents)]
    nodes = rows(door.ledger, schema.nodes)
    assert len(nodes) == len(results) == 50
    assert not transport.sizes
    operation_ids = [result["operation_id"] for result in results if result is not None]
    assert len(set(operation_ids)) == 50
    assert findings(door.ledger) == ()


async def test_the_client_says_why_a_session_takes_nothing(door: Door):
    with pytest.raises(GatewayError) as caught:
        [outcome async for outcome in submitting(door).submit([source("s-1")])]
    assert caught.value.code == "SESSION_NOT_FOUND"
