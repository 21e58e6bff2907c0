"""Limits everything that is read of a connection before a route.

The parser keeps a header until it has all of it, however long that gets. So the bytes are counted
and fed in pieces, and a request beyond a limit is answered at once with the error body that every
route has (decision workers/0065). If answers to earlier requests would have to come first, the
connection ends instead. The connection of a client that still sends is read for a second more, or
a reset would destroy the answer.

uvicorn parses with httptools, in C. h11, in Python, costs a request half as much again as the route
that validates it.
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import httptools
import orjson
import structlog
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from actors.error_codes import status_of
from workers.api.errors import RETRY_AFTER_S, error_body

HEAD_BYTES_MAX = 32 << 10
"""Bytes of the names and values of a request's headers together."""

HEADERS_MAX = 100
TARGET_BYTES_MAX = 16 << 10
"""Bytes of a request's path and query."""

FRAMING_BYTES_MAX = 128 << 10
"""Bytes behind a head that are no content: the sizes of chunks, extensions, trailers."""

PIPELINED_MAX = 16
"""Requests that a client may send before the answer to the first of them."""

LINGER_S = 1.0
"""How long a connection is read after a refusal."""

_PIECE_BYTES = 16 << 10


@dataclass(frozen=True, slots=True)
class _Refusal:
    code: str
    message: str

    @property
    def status(self) -> int:
        """The status of the response."""
        return status_of(self.code)


_HEAD = _Refusal(
    "headers_too_large", f"at most {HEADERS_MAX} headers, of {HEAD_BYTES_MAX} bytes in all"
)
_TARGET = _Refusal("target_too_long", f"path and query have at most {TARGET_BYTES_MAX} bytes")
_FORM = _Refusal("target_invalid", "a request line names a path, which begins with /")
_FRAMING = _Refusal(
    "request_too_large", f"at most {FRAMING_BYTES_MAX} bytes for chunk sizes and trailers"
)
_PIPELINED = _Refusal("pipeline_full", f"at most {PIPELINED_MAX} requests ahead of answers")
_UPGRADE = _Refusal("upgrade_refused", "this gateway speaks HTTP/1.1 and nothing else")
_INVALID = _Refusal("http_invalid", "what was sent is no HTTP request")

REFUSALS = (_HEAD, _TARGET, _FORM, _FRAMING, _PIPELINED, _UPGRADE, _INVALID)

_log = structlog.get_logger(__name__)


class _Refused(Exception):
    def __init__(self, refusal: _Refusal) -> None:
        super().__init__(refusal.code)
        self.refusal = refusal


class LimitedProtocol(HttpToolsProtocol):
    """An HTTP connection whose requests and pauses are bounded."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._refused = False
        self.times_taken = 0
        """How often the client has made room in a full buffer of answers."""

        self._unanswered: list[Any] = []
        """The requests without a whole answer; the library knows the last one alone."""

        self._in_head = True
        """Until the headers of the next request are whole."""

        self._head_bytes = 0
        self._fed_bytes = 0
        """Bytes fed since the unfinished part began, without the content of a body."""

    def data_received(self, data: bytes) -> None:
        """Take what has come; it is dropped where the connection was refused."""
        self._unset_keepalive_if_required()
        for start in range(0, len(data), _PIECE_BYTES):
            if self._refused or self.transport.is_closing():
                return
            try:
                self._feed(data[start : start + _PIECE_BYTES])
            except _Refused as error:
                self._refuse(error.refusal)

    def cut_off(self) -> None:
        """End the connection at once; who answers a request of it is told that nobody listens."""
        self._leave()
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End what was asked on the connection."""
        self._leave()
        super().connection_lost(exc)

    def _leave(self) -> None:
        """Let no answer be written any more: to write on what is closed is an error to the loop."""
        for cycle in self._unanswered:
            cycle.disconnected = True
            cycle.message_event.set()
        self._unanswered.clear()

    def resume_writing(self) -> None:
        """Go on to write: the client has taken what was too much."""
        self.times_taken += 1
        super().resume_writing()

    def _feed(self, piece: bytes) -> None:
        self._fed_bytes += len(piece)
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            raise _Refused(_UPGRADE) from None
        except httptools.HttpParserError as error:
            cause = error.__context__
            raise cause if isinstance(cause, _Refused) else _Refused(_INVALID) from None
        # The first piece may hold the end of what was before it.
        if self._in_head and self._fed_bytes > HEAD_BYTES_MAX + TARGET_BYTES_MAX + _PIECE_BYTES:
            raise _Refused(_HEAD)
        if not self._in_head and self._fed_bytes > FRAMING_BYTES_MAX:
            raise _Refused(_FRAMING)

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._in_head, self._head_bytes, self._fed_bytes = True, 0, 0

    def on_url(self, url: bytes) -> None:
        """Take a part of the request's target."""
        super().on_url(url)
        if len(self.pipeline) >= PIPELINED_MAX:
            raise _Refused(_PIPELINED)
        if len(self.url) > TARGET_BYTES_MAX:
            raise _Refused(_TARGET)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; a trailer is dropped, for the request is being served already."""
        if not self._in_head:
            return
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > HEAD_BYTES_MAX or len(self.headers) >= HEADERS_MAX:
            raise _Refused(_HEAD)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin to serve the request."""
        if not self.url.startswith(b"/"):
            raise _Refused(_FORM)
        if self.parser.should_upgrade():
            # What follows would not be read, and a body never come.
            raise _Refused(_UPGRADE)
        super().on_headers_complete()
        waiting = [cycle for cycle in self._unanswered if not cycle.response_complete]
        self._unanswered = [*waiting, self.cycle]
        self._in_head, self._fed_bytes = False, 0

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._fed_bytes -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the request; what follows is the head of another."""
        super().on_message_complete()
        self._in_head, self._fed_bytes = True, 0

    def _refuse(self, refusal: _Refusal) -> None:
        self._refused = True
        _log.info("request_refused", code=refusal.code)
        cycle: Any = self.cycle
        in_order = not self.pipeline
        if cycle is not None and not cycle.response_complete:
            # Where its head is whole, it is this request that is broken, and not one after it.
            in_order = in_order and not self._in_head and not cycle.response_started
            cycle.disconnected = True
            cycle.message_event.set()
        elif cycle is not None and not self._in_head:
            in_order = False
        self.pipeline.clear()
        if not in_order:
            self.cut_off()
            return
        self.transport.write(_answer(refusal))
        with suppress(OSError):
            self.transport.write_eof()
        self.loop.call_later(LINGER_S, self.transport.abort)


def _answer(refusal: _Refusal) -> bytes:
    body = orjson.dumps(error_body(refusal.code, refusal.message))
    retry_after = b"retry-after: %d\r\n" % RETRY_AFTER_S if refusal.status == 429 else b""
    return b"".join(
        (
            STATUS_LINE[refusal.status],
            b"content-type: application/json\r\ncontent-length: %d\r\n" % len(body),
            retry_after,
            b"connection: close\r\n\r\n",
            body,
        )
    )
