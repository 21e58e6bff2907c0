"""A model's server that means harm: bombs, drips, junk and detours, over a real connection."""

import gzip
import tracemalloc
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.errors import ModelError
from actors.synthesis.model_client import ModelCall, ModelParameters
from workers.models.openai_model import RESPONSE_MAX_BYTES, HttpModel

pytestmark = [pytest.mark.anyio, pytest.mark.spec("K16")]

CALL = ModelCall("The question.", ModelParameters())
TIMEOUT_S = 0.5
ZEROES = 64 << 20
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@asynccontextmanager
async def serving(answer: bytes, *, drip_s: float | None = None) -> AsyncIterator[str]:
    """A server that sends these bytes to whoever connects, and then, for a drip, more for ever."""

    async def serve(connection: SocketStream) -> None:
        async with connection:
            try:
                await connection.receive()
                await connection.send(answer)
                while drip_s is not None:
                    await anyio.sleep(drip_s)
                    await connection.send(b" ")
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream):
                return

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - no database
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        yield f"http://127.0.0.1:{port}/v1/"
        tasks.cancel_scope.cancel()
    await listener.aclose()


async def code_of(
    answer: bytes, *, drip_s: float | None = None, timeout_s: float = 20.0
) -> str | None:
    """The code of the error that a server's answer comes to; None for an answer."""
    async with serving(answer, drip_s=drip_s) as url:
        model = HttpModel(url, "model-1", None, timeout_s=timeout_s)
        try:
            await model.complete(CALL)
        except ModelError as error:
            return error.code
        finally:
            await model.aclose()
    return None


def packed(encoding: str, content: bytes) -> bytes:
    body = gzip.compress(content) if encoding == "gzip" else zlib.compress(content)
    head = f"Content-Encoding: {encoding}\r\nContent-Length: {len(body)}\r\n\r\n"
    return OK + head.encode() + body


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_what_is_packed_is_refused_and_never_unpacked(encoding):
    bomb = packed(encoding, bytes(ZEROES))
    tracemalloc.start()
    try:
        assert await code_of(bomb) == "model_answer_invalid"
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < ZEROES / 8


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "identity, br", "x", ""])
async def test_every_encoding_but_none_is_refused_by_its_name(encoding):
    head = f"Content-Encoding: {encoding}\r\nContent-Length: 2\r\n\r\n"
    assert await code_of(OK + head.encode() + b"{}") == "model_answer_invalid"


async def test_an_answer_without_a_length_is_cut_off_at_its_limit():
    answer = OK + b"\r\n" + b" " * (RESPONSE_MAX_BYTES + 1)
    assert await code_of(answer, drip_s=0.01) == "model_answer_too_large"


@pytest.mark.parametrize(
    "begun",
    [OK + b"Content-Length: 100000\r\n\r\n", OK, b"HTTP/1.1 100 Continue\r\n\r\n", b""],
    ids=["in the body", "in the headers", "before the answer", "before anything"],
)
async def test_a_drip_that_never_pauses_ends_when_the_time_of_the_call_is_over(begun):
    """Each byte comes well before a read would time out."""
    code = await code_of(begun, drip_s=TIMEOUT_S / 10, timeout_s=TIMEOUT_S)
    assert code in ("model_timeout", "model_unavailable")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_server_leads_nowhere_else(status):
    async with serving(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}") as elsewhere:
        detour = (
            f"HTTP/1.1 {status} Elsewhere\r\nLocation: {elsewhere}\r\nContent-Length: 0\r\n\r\n"
        )
        assert await code_of(detour.encode()) == "model_refused"


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"X-Long: " + b"a" * (4 << 20) + b"\r\n\r\n",
        OK + b"".join(b"X-%d: a\r\n" % n for n in range(200_000)) + b"\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * (1 << 20),
        OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: a\r\n" * 200_000,
        OK + b"Content-Length: -1\r\n\r\n",
        OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
        OK + b"Content-Length: 9\r\n\r\n{}",
        b"SSH-2.0-OpenSSH\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
    ],
    ids=lambda answer: repr(answer[-12:]),
)
async def test_what_is_no_http_is_an_absence_with_a_code(answer):
    code = await code_of(answer, timeout_s=TIMEOUT_S)
    assert code in ("model_unavailable", "model_timeout")


DEEP = b'{"choices":' + b"[" * 200_000 + b"]" * 200_000 + b"}"
SURROGATE = b'{"choices":[{"message":{"content":"\\ud800"}}]}'


@pytest.mark.parametrize("body", [DEEP, SURROGATE, b'{"choices":[{"message":{"content":1e999}}]}'])
async def test_json_that_cannot_be_followed_is_an_invalid_answer(body):
    head = f"Content-Length: {len(body)}\r\n\r\n".encode()
    assert await code_of(OK + head + body) == "model_answer_invalid"


async def test_a_prompt_that_cannot_be_sent_is_refused_and_not_sent():
    model = HttpModel("http://127.0.0.1:1/", "model-1", None, timeout_s=TIMEOUT_S)
    with pytest.raises(ModelError) as refused:
        await model.complete(ModelCall("\ud800", ModelParameters()))
    await model.aclose()
    assert refused.value.code == "model_refused"


@settings(max_examples=100)
@given(st.binary(max_size=300) | st.binary(max_size=200).map(lambda junk: OK + junk))
async def test_whatever_a_server_sends_it_is_an_answer_or_a_coded_error(answer):
    code = await code_of(answer)
    assert code is None or code.startswith("model_")
