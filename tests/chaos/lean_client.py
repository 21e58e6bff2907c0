"""A client of one gateway that costs little: prepared bodies over connections that are kept.

An ordinary client of Python looks through all of its connections with each request, and with some
thousands of them it is slower than the gateway that it should overload.
"""

import json
from dataclasses import dataclass
from urllib.parse import urlsplit

import anyio
from anyio.abc import SocketStream

CONNECT_S = 20.0
ANSWER_S = 60.0
KEPT_S = 5.0
"""A connection is used again for so long after its last answer."""

_END = b"\r\n\r\n"


class Unanswered(Exception):
    """There is no answer: `not accepted`, `cut off` or `not in time`."""


@dataclass(frozen=True, slots=True)
class LeanAnswer:
    """What of an answer is looked at."""

    status: int
    retry_after: bool
    code: str
    """Of a refusal."""


class LeanClient:
    """Connections to one gateway, a request at a time on each, any number at once."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = str(parts.hostname), int(parts.port or 80)
        self._idle: list[tuple[float, SocketStream]] = []

    async def aclose(self) -> None:
        """Close every connection that is not in use."""
        for _, stream in self._idle:
            await stream.aclose()
        self._idle.clear()

    async def post(self, path: str, body: bytes) -> LeanAnswer:
        """Post JSON and return the answer.

        Raises:
            Unanswered: there is none; whether anything happened is not known.
        """
        head = (
            f"POST {path} HTTP/1.1\r\nhost: {self._host}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        stream = await self._connected()
        kept = False
        try:
            with anyio.fail_after(ANSWER_S):
                await stream.send(head.encode() + body)
                answer, kept = await _answer(stream)
        except TimeoutError:
            raise Unanswered("not in time") from None
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            raise Unanswered("cut off") from None
        finally:
            if kept:
                self._idle.append((anyio.current_time(), stream))
            else:
                await anyio.aclose_forcefully(stream)
        return answer

    async def _connected(self) -> SocketStream:
        while self._idle:
            since_s, stream = self._idle.pop()
            if anyio.current_time() - since_s < KEPT_S:
                return stream
            await anyio.aclose_forcefully(stream)
        try:
            with anyio.fail_after(CONNECT_S):
                return await anyio.connect_tcp(self._host, self._port)
        except (TimeoutError, OSError):
            raise Unanswered("not accepted") from None


async def _answer(stream: SocketStream) -> tuple[LeanAnswer, bool]:
    """Read an answer; also whether the connection may be used again."""
    received = b""
    while _END not in received:
        received += await stream.receive()
    head, _, body = received.partition(_END)
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {
        name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
    }
    while len(body) < int(headers["content-length"]):
        body += await stream.receive()
    status = int(first.split()[1])
    code = "" if status < 400 else json.loads(body)["error"]["code"]
    return LeanAnswer(status, "retry-after" in headers, code), headers.get("connection") != "close"
