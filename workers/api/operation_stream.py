"""Answers a stream of intents to one session: a line in, a line out, so many between them.

Each line of the body is an intent, and each has one line of the answer, in order:
`{"line", "result"}`, or `{"line", "error"}` where the line cannot be read. Lines that have come
together are one message to the session, so they take effect in one transaction, in their order and
each by itself; their answers are sent after its COMMIT. The next lines are put to the session when
these are answered.

A fault for which no line is to blame ends the stream: the session does not take a message, the body
is too long, too slow or cut off, the gateway stops. Before the first answer that is an ordinary
response. Later it is a last line, `{"error", "status"}` without a number, for every line that has
no answer: each has taken effect as a whole or not at all, and under its key it may be sent again.

A stream is read ahead of its answers up to a number of lines and bytes, and no further (decision
workers/0089): who does not take answers is read no more, and who takes none before all is sent may
send so many at most.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import anyio
import orjson
from anyio.lowlevel import checkpoint
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import TypeAdapter, ValidationError
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from actors.messages import Operate
from actors.orchestrator.intents import Intent, PublicIntent
from kernel.values.json_lines import Line, LineSplitter
from workers.api.body_limits import (
    BYTES_IN_FLIGHT_MAX,
    LINE,
    LINES_IN_FLIGHT_MAX,
    STREAM_LINES_MAX,
)
from workers.api.errors import ApiError, answer_of
from workers.api.json_bodies import READ_AT_ONCE_BYTES, read_json
from workers.api.operation_results import (
    ResultDocument,
    are_only_counted,
    count_only_response,
    result_document,
)

MEDIA_TYPE = "application/x-ndjson"
LINES_AT_ONCE_MAX = 256
"""Lines that are put to the session together."""

_LINE_COSTS_BYTES = 1 << 10
"""Bytes that reading a line is counted for beside its own, so that short ones count too."""

_INTENT: TypeAdapter[Intent] = TypeAdapter(PublicIntent)

Ask = Callable[[Operate], Awaitable[Sequence[object]]]
"""Gives the session a message and returns the results of its intents."""

Prove = Callable[[Sequence[ResultDocument]], Awaitable[None]]
"""Adds to each result that is on the record the proof that it is."""


class OperationStreams:
    """The streams of this process, which end when it stops."""

    def __init__(self) -> None:
        self._windows: set[_Window] = set()
        self._stopped = False

    def open(self, ask: Ask, prove: Prove | None = None) -> "OperationStream":
        """Return the response of a stream that has come; its results are proved by `prove`."""
        return OperationStream(ask, prove, self)

    def add(self, window: "_Window") -> None:
        """Know a stream that has begun."""
        self._windows.add(window)
        if self._stopped:
            window.end(_stopping())

    def discard(self, window: "_Window") -> None:
        """Forget a stream that has ended."""
        self._windows.discard(window)

    def stop(self) -> None:
        """Read no more of any stream, and answer what was read: the process is to end."""
        self._stopped = True
        for window in self._windows:
            window.end(_stopping())


class OperationStream(Response):
    """The response to one stream; it reads the body while it answers."""

    def __init__(self, ask: Ask, prove: Prove | None, streams: OperationStreams) -> None:
        super().__init__(media_type=MEDIA_TYPE)
        del self.headers["content-length"]
        self._ask = ask
        self._prove = prove
        self._streams = streams
        self._window = _Window()
        self._has_begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the lines until there are no more.

        Raises:
            Exception: what ended the stream and is nobody's to answer.
        """
        failure: Exception | None = None
        self._streams.add(self._window)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._read, receive)
                try:
                    await self._answer_all(send)
                except Exception as error:  # noqa: BLE001 - a task group would wrap it
                    failure = error
                tasks.cancel_scope.cancel()
        finally:
            self._streams.discard(self._window)
        if failure is not None:
            await self._end(failure, scope, receive, send)

    async def _read(self, receive: Receive) -> None:
        """Read lines ahead of their answers, as far as the window goes."""
        splitter, has_more = LineSplitter(LINE.body_bytes), True
        try:
            while has_more:
                piece, has_more = await _piece(receive)
                await self._read_lines(splitter.feed(piece))
            await self._read_lines(splitter.end())
        except Exception as error:  # noqa: BLE001 - it is raised where lines are answered
            self._window.end(error)
        else:
            self._window.end(None)

    async def _read_lines(self, lines: Iterable[Line]) -> None:
        cost = 0
        for line in lines:
            if line.number > STREAM_LINES_MAX:
                message = f"a stream has at most {STREAM_LINES_MAX} lines"
                raise ApiError("request_too_large", message, {"limit": STREAM_LINES_MAX})
            await self._window.room(line.size)
            self._window.put(await _read_line(line))
            cost += line.size + _LINE_COSTS_BYTES
            if cost > READ_AT_ONCE_BYTES:
                cost = 0
                await checkpoint()

    async def _answer_all(self, send: Send) -> None:
        while lines := await self._window.take():
            intents = [line.intent for line in lines if line.intent is not None]
            results = await self._ask(Operate(tuple(intents))) if intents else ()
            documents = [*map(result_document, results)]
            if self._prove is not None:
                await self._prove(documents)
            await self._write(send, _answers(lines, documents))
            self._window.release(lines)
            if intents and are_only_counted(results):
                await self._write(send, _last_line(count_only_response()), is_last=True)
                return
        await self._write(send, b"", is_last=True)

    async def _end(self, failure: Exception, scope: Scope, receive: Receive, send: Send) -> None:
        answer = None if isinstance(failure, ClientDisconnect) else answer_of(failure)
        if answer is None:
            raise failure
        if self._has_begun:
            await self._write(send, _last_line(answer), is_last=True)
        else:
            await answer(scope, receive, send)

    async def _write(self, send: Send, content: bytes, *, is_last: bool = False) -> None:
        if not self._has_begun:
            self._has_begun = True
            start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            await send(start)
        await send({"type": "http.response.body", "body": content, "more_body": not is_last})


@dataclass(frozen=True, slots=True)
class _ReadLine:
    line: Line
    intent: Intent | None
    refusal: bytes = b""
    """The body of the error that says why there is no intent."""


async def _piece(receive: Receive) -> tuple[bytes, bool]:
    """Return the next piece of a body, and whether there is another."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    return message.get("body", b""), message.get("more_body", False)


async def _read_line(line: Line) -> _ReadLine:
    try:
        return _ReadLine(line, _intent(await read_json(_content(line), LINE)))
    except Exception as error:
        answer = answer_of(error)
        if answer is None:
            raise
        return _ReadLine(line, None, bytes(answer.body))


def _content(line: Line) -> bytes:
    if line.content is not None:
        return line.content
    details = {"limit": LINE.body_bytes, "actual": line.size}
    message = f"a line has at most {LINE.body_bytes} bytes, this one {line.size}"
    raise ApiError("request_too_large", message, details)


def _intent(value: Any) -> Intent:
    try:
        return _INTENT.validate_python(value)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        raise RequestValidationError(
            [{**problem, "loc": ("body", *problem["loc"])} for problem in problems]
        ) from None


def _answers(lines: Iterable[_ReadLine], results: Iterable[ResultDocument]) -> bytes:
    remaining = iter(results)
    answers = []
    for read in lines:
        number = read.line.number
        if read.intent is None:
            answers.append(b'{"line":%d,%b\n' % (number, read.refusal[1:]))
        else:
            document = {"line": number, "result": next(remaining)}
            answers.append(orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE))
    return b"".join(answers)


def _last_line(answer: JSONResponse) -> bytes:
    """Return a response as a line: its error, its status and the time that its header names."""
    document = orjson.loads(answer.body) | {"status": answer.status_code}
    if "Retry-After" in answer.headers:
        document["retry_after_s"] = int(answer.headers["Retry-After"])
    return orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)


def _stopping() -> ApiError:
    return ApiError("gateway_stopping", "the gateway stops; send the rest again")


class _Window:
    """The lines of a stream that are read and not answered."""

    def __init__(self) -> None:
        self._waiting: deque[_ReadLine] = deque()
        self._lines = self._bytes = 0
        self._has_ended = False
        self._error: Exception | None = None
        self._changed = anyio.Event()

    async def room(self, size: int) -> None:
        """Return when a line of so many bytes may be read."""
        while self._lines and (
            self._lines >= LINES_IN_FLIGHT_MAX or self._bytes + size > BYTES_IN_FLIGHT_MAX
        ):
            await self._changed.wait()

    def put(self, line: _ReadLine) -> None:
        """Add a line that was read; one that comes after the end is dropped."""
        if self._has_ended:
            return
        self._waiting.append(line)
        self._lines += 1
        self._bytes += line.line.size
        self._wake()

    def end(self, error: Exception | None) -> None:
        """Read no more lines, for a reason or because there are none."""
        if not self._has_ended:
            self._has_ended, self._error = True, error
            self._wake()

    async def take(self) -> list[_ReadLine]:
        """Return the lines that wait, as many as are put to a session together; none at the end.

        Raises:
            Exception: what the stream has ended with.
        """
        while not self._waiting and not self._has_ended:
            await self._changed.wait()
        is_gone = isinstance(self._error, ClientDisconnect)
        if self._error is not None and (is_gone or not self._waiting):
            raise self._error
        count = min(len(self._waiting), LINES_AT_ONCE_MAX)
        return [self._waiting.popleft() for _ in range(count)]

    def release(self, lines: Sequence[_ReadLine]) -> None:
        """Make room, because these lines are answered."""
        self._lines -= len(lines)
        self._bytes -= sum(line.line.size for line in lines)
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()
