"""Whatever answers at the gateway's address, a client's caller gets an error with a code."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.workers.client.scripted_gateway import WORK, ScriptedGateway, outcomes, taken
from workers.client.answers import BoundedAnswers, UnreadableAnswer
from workers.client.errors import GatewayError

pytestmark = pytest.mark.anyio

ANSWERS = {
    "nothing": b"",
    "a page": b"<html>It works!</html>",
    "half a document": b'{"requests": [{"request_id": "r"',
    "bytes that are no text": b"\xff\xfe\x00",
    "nesting without end": b"[" * 200_000,
    "a number without end": b'{"requests": ' + b"9" * 10_000 + b"}",
    "null": b"null",
    "a number": b"1",
    "a list": b"[]",
    "another document": b'{"hello": "world"}',
    "none of what was asked": b'{"requests": [], "outcomes": []}',
    "more than was asked": json.dumps(
        {"requests": [{"request_id": "r", "duplicate": False}] * 2, "outcomes": [{}] * 2}
    ).encode(),
    "entries of another kind": b'{"requests": [7], "outcomes": [7], "request": 7, "results": [7]}',
    "another's outcome": b'{"outcomes": [{"request_id": "other", "state": "completed"}]}',
}
CALLS = {
    "enqueue": lambda rotulus: rotulus.enqueue(WORK),
    "enqueue_many": lambda rotulus: rotulus.enqueue_many([WORK]),
    "result": lambda rotulus: rotulus.job("binding-evaluation", "r").result(timeout=20),
    "status": lambda rotulus: rotulus.job("binding-evaluation", "r").status(),
    "cancel": lambda rotulus: rotulus.job("binding-evaluation", "r").cancel("why"),
    "recompute": lambda rotulus: rotulus.recompute("node"),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("answer", ANSWERS)
async def test_an_answer_that_is_no_gateways_is_an_error_with_a_code(call: str, answer: str):
    async with ScriptedGateway(httpx.Response(200, content=ANSWERS[answer])).client() as rotulus:
        with pytest.raises(GatewayError) as refused:
            await CALLS[call](rotulus)
    assert refused.value.code == "gateway_failed"


@pytest.mark.parametrize(
    "error",
    [
        {"code": ["a"], "message": {"a": 1}, "details": {"index": "first", "field": ["x"]}},
        {"code": "x", "message": "y", "details": [1]},
        {"code": "x", "message": "y", "details": "words"},
        [],
        "words",
    ],
)
async def test_a_refusal_of_any_form_is_an_error_with_a_code(error: Any):
    gateway = ScriptedGateway(httpx.Response(422, json={"error": error}))
    async with gateway.client() as rotulus:
        for ask in (rotulus.enqueue(WORK), rotulus.enqueue_many([WORK])):
            with pytest.raises(GatewayError) as refused:
                await ask
            assert isinstance(refused.value.code, str)
            assert isinstance(refused.value.field, str)


async def test_a_redirect_is_not_followed():
    gateway = ScriptedGateway(httpx.Response(307, headers={"Location": "http://elsewhere/"}))
    async with gateway.client() as rotulus:
        with pytest.raises(GatewayError, match="307"):
            await rotulus.enqueue(WORK)
    assert [request.url.host for request in gateway.requests] == ["g"]


async def test_an_encoded_answer_is_refused_unread_and_none_is_asked_for():
    gateway = ScriptedGateway(
        httpx.Response(200, headers={"Content-Encoding": "gzip"}, stream=Endless())
    )
    async with gateway.client() as rotulus:
        with pytest.raises(GatewayError) as refused:
            await rotulus.enqueue(WORK)
    assert refused.value.code == "gateway_failed"
    assert gateway.requests[0].headers["Accept-Encoding"] == "identity"
    assert len(gateway.requests) == 1


class Endless(httpx.AsyncByteStream):
    """A body that never ends, and counts what was read of it."""

    def __init__(self, chunk: bytes = b" ") -> None:
        self.chunk = chunk
        self.chunks = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            self.chunks += 1
            yield self.chunk


@pytest.mark.parametrize(("chunk", "chunks"), [(b" " * 100, 11), (b" ", 51)])
async def test_an_answer_without_an_end_is_left_at_its_limit(chunk: bytes, chunks: int):
    body = Endless(chunk)
    transport = BoundedAnswers(
        httpx.MockTransport(lambda _: httpx.Response(200, stream=body)),
        bytes_max=1_000,
        seconds_max=50,
        clock_s=lambda: float(body.chunks),
    )
    async with httpx.AsyncClient(transport=transport) as http:
        with pytest.raises(UnreadableAnswer):
            await http.get("http://g/")
    assert body.chunks == chunks


async def test_what_a_gateway_says_is_read():
    def ended(request: httpx.Request) -> httpx.Response:
        return outcomes(request, "request:k")

    async with ScriptedGateway(taken, ended).client() as rotulus:
        job = await rotulus.enqueue(WORK, key="k")
        assert (await job.result(timeout=20)).state == "completed"
