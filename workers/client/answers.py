"""Limits the size and the time of a gateway's answers, and refuses those that do not parse.

A client may be pointed at anything that speaks HTTP, and whatever that sends ends no program and
fills no memory. An answer comes as it is, without Content-Encoding, because what it grows to would
be known too late; it has at most `ANSWER_BYTES_MAX` bytes, and comes whole within `ANSWER_S_MAX`.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Final

import anyio
import httpx

from .errors import GatewayError

ANSWER_BYTES_MAX: Final = 256 << 20
ANSWER_S_MAX: Final = 600.0


class UnreadableAnswer(httpx.TransportError):
    """Raised when an answer is encoded, too long or too slow; asking again does not help."""


class BoundedAnswers(httpx.AsyncBaseTransport):
    """A transport whose answers have an end."""

    def __init__(
        self,
        transport: httpx.AsyncBaseTransport,
        *,
        bytes_max: int = ANSWER_BYTES_MAX,
        seconds_max: float = ANSWER_S_MAX,
        clock_s: Callable[[], float] = anyio.current_time,
    ) -> None:
        self._transport = transport
        self._bytes_max = bytes_max
        self._seconds_max = seconds_max
        self._clock_s = clock_s

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request."""
        request.headers["Accept-Encoding"] = "identity"
        response = await self._transport.handle_async_request(request)
        if response.headers.get("Content-Encoding", "identity") != "identity":
            await response.aclose()
            raise UnreadableAnswer("the answer is encoded, which was not asked for")
        stream = response.stream
        assert isinstance(stream, httpx.AsyncByteStream)  # noqa: S101 - as transports have it
        until_s = self._clock_s() + self._seconds_max
        response.stream = _Bounded(stream, self._bytes_max, until_s, self._clock_s)
        return response

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()


class _Bounded(httpx.AsyncByteStream):
    def __init__(
        self,
        stream: httpx.AsyncByteStream,
        bytes_max: int,
        until_s: float,
        clock_s: Callable[[], float],
    ) -> None:
        self._stream = stream
        self._bytes_left = bytes_max
        self._until_s = until_s
        self._clock_s = clock_s

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            self._bytes_left -= len(chunk)
            if self._bytes_left < 0 or self._clock_s() > self._until_s:
                raise UnreadableAnswer("the answer does not end")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


@contextmanager
def reading() -> Iterator[None]:
    """Raise `gateway_failed` where the block meets an answer of another form."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        message = f"the answer is not what a gateway says: {error!r}"[:300]
        raise GatewayError("gateway_failed", message) from error
