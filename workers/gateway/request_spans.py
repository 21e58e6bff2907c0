"""Traces a gateway: the request, the mailbox, the commit, the way into the queue.

The id of a request on the record is known only when it has been answered, so its spans are emitted
then, with the times that they had (decision workers/0050).
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

import anyio.to_thread
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.types import Message as HttpMessage

from actors.commit.units import Unit
from actors.messages import Audit, Message, Query
from actors.sessions.runtime import Sessions
from kernel.ledger.ledger import Document
from kernel.model.result import RejectedResult, SubmissionResult
from kernel.simulate.operation import SimulationResult
from kernel.work.requests import WorkReceipt
from queues.queue.items import Enqueued, NewItem
from queues.queue.work_queue import WorkQueue
from queues.redis.connection import RedisClient
from workers.api.application import Application
from workers.api.services import Report, Traceparents, Write
from workers.telemetry.http_metrics import METHODS, NO_ROUTE
from workers.telemetry.span_exporter import Attributes, Spans
from workers.telemetry.trace_context import TraceContext, read_traceparent

_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_ENTERED = frozenset({"new", "merged", "successor"})
"""States of items that this sending added; one that was sent before has its span already."""


@dataclass(frozen=True, slots=True)
class _Cause:
    """An operation or a request that an answer names, by the name of its trace."""

    name: str
    attributes: Mapping[str, str]
    is_new: bool = True
    failed: bool = False


@dataclass(slots=True)
class _Asking:
    """One HTTP request, and the operations and requests of work that it turned out to be about."""

    causes: list[_Cause] = field(default_factory=list)
    joined: list[TraceContext] = field(default_factory=list)
    """Spans of other processes whose results this request reports."""


_asking: ContextVar[_Asking | None] = ContextVar("asking", default=None)


class GatewayTraces:
    """Emits the spans of a gateway, and wraps what it serves with so that they have a trace."""

    def __init__(self, spans: Spans) -> None:
        self.spans = spans

    def note_batch(self, messages: Sequence[Message], taken_ns: int) -> None:
        """Emit the spans of a batch that an actor has answered: its wait and its commit."""
        now_ns, size = time.time_ns(), {"rotulus.messages": len(messages)}
        for message in messages:
            for parent, attributes, failed in self._places(message):
                for name, times_ns in (
                    ("mailbox", (message.put_at_ns, taken_ns)),
                    ("commit", (taken_ns, now_ns)),
                ):
                    context = parent.child(name, str(message.put_at_ns))
                    self.spans.tell(
                        name,
                        context,
                        parent,
                        times_ns=times_ns,
                        attributes={**attributes, **size},
                        failed=failed,
                    )

    def _places(self, message: Message) -> Iterator[tuple[TraceContext, Attributes, bool]]:
        answer, error = message.reply.outcome()
        failure = {} if error is None else {"rotulus.error": _code(error)}
        if message.traceparents:
            results = answer if error is None else [error] * len(message.traceparents)
            yield from _spans_of_reports(message.traceparents, results or ())
        elif error is None and (causes := list(_causes_of(answer))):
            for cause in causes:
                root = self.spans.root(cause.name) if cause.is_new else None
                if root is not None:
                    yield root, cause.attributes, cause.failed
        elif message.request_id is not None and not isinstance(message, Query | Audit):
            root = self.spans.root(f"http:{message.request_id}")
            if root is not None:
                yield root, failure, bool(failure)

    def queue(self, redis: RedisClient, name: str) -> WorkQueue:
        """Return a queue whose items carry the trace of what caused them."""
        return TracedQueue(redis, name, self.spans)

    def sessions(self, sessions: Sessions) -> Sessions:
        """Wrap sessions so that a request knows the ids in its answer."""
        return _TracedSessions(sessions)

    def write(self, write: Write) -> Write:
        """Return the same way to the next commit, told as one."""

        async def trace_write(unit: Unit) -> Any:
            began_ns = time.time_ns()
            result = await write(unit)
            causes = list(_causes_of(result))
            _note(causes)
            for cause in causes:
                root = self.spans.root(cause.name) if cause.is_new else None
                if root is not None:
                    self.spans.tell(
                        "commit",
                        root.child("commit"),
                        root,
                        times_ns=(began_ns, time.time_ns()),
                        attributes=cause.attributes,
                        failed=cause.failed,
                    )
            return result

        return trace_write

    def report(self, report: Report) -> Report:
        """Return the same way to the next commit, told as one."""

        async def trace_report(units: Sequence[Unit], traceparents: Traceparents) -> list[Any]:
            began_ns = time.time_ns()
            _join(traceparents)
            results = await report(units, traceparents)
            for parent, attributes, failed in _spans_of_reports(traceparents, results):
                self.spans.tell(
                    "commit",
                    parent.child("commit", str(began_ns)),
                    parent,
                    times_ns=(began_ns, time.time_ns()),
                    attributes=attributes,
                    failed=failed,
                )
            return results

        return trace_report

    def install(self, app: Application) -> None:
        """Emit a span for every request of an application that changes something."""
        app.add_middleware(_Requests, spans=self.spans)

    async def close(self) -> None:
        """Send the waiting spans, for half a second at most."""
        await anyio.to_thread.run_sync(self.spans.close)


class _TracedSessions:
    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    @property
    def corrupt_sessions(self) -> Mapping[str, str]:
        return self._sessions.corrupt_sessions

    async def ask(self, session_id: str, message: Message) -> Any:
        _join(message.traceparents)
        answer = await self._sessions.ask(session_id, message)
        if not message.traceparents:
            _note(_causes_of(answer))
        return answer


class _Requests:
    """ASGI middleware: a request is the root of the traces of what it asked for."""

    def __init__(self, app: ASGIApp, spans: Spans) -> None:
        self._app = app
        self._spans = spans

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http" or scope["method"] in _READS:
            await self._app(scope, receive, send)
            return
        began_ns, asking = time.time_ns(), _Asking()
        answered: dict[str, Any] = {"status": 500, "request_id": ""}

        async def send_watched(message: HttpMessage) -> None:
            if message["type"] == "http.response.start":
                headers = Headers(raw=message["headers"])
                answered.update(
                    status=message["status"], request_id=headers.get("x-request-id", "")
                )
            await send(message)

        token = _asking.set(asking)
        try:
            await self._app(scope, receive, send_watched)
        finally:
            _asking.reset(token)
            self._tell(scope, asking, answered, (began_ns, time.time_ns()))

    def _tell(
        self, scope: Scope, asking: _Asking, answered: Document, times_ns: tuple[int, int]
    ) -> None:
        method = scope["method"] if scope["method"] in METHODS else "OTHER"
        route, request_id = getattr(scope.get("route"), "path", NO_ROUTE), answered["request_id"]
        shared = {
            "http.request.method": method,
            "http.route": route,
            "http.response.status_code": answered["status"],
            "rotulus.request_id": request_id,
            "rotulus.asked": len(asking.causes),
        }
        follows = read_traceparent(Headers(scope=scope).get("traceparent", ""))
        causes = asking.causes
        if not causes and not asking.joined:
            causes = [_Cause(f"http:{request_id}", {}, failed=answered["status"] >= 400)]
        places: list[tuple[TraceContext, TraceContext | None, _Cause]] = []
        for cause in causes:
            root = self._spans.root(cause.name)
            if root is not None and cause.is_new:
                places.append((root, None, cause))
            elif root is not None:
                places.append((root.child("again", request_id), root, cause))
        reported = _Cause("", {})
        places += [
            (joined.child("report", request_id), joined, reported) for joined in asking.joined
        ]
        for context, parent, cause in places:
            self._spans.tell(
                f"{method} {route}",
                context,
                parent,
                times_ns=times_ns,
                kind="server",
                attributes={**shared, **cause.attributes},
                failed=cause.failed,
                follows=follows,
            )


def _note(causes: Sequence[_Cause] | Iterator[_Cause]) -> None:
    asking = _asking.get()
    if asking is not None:
        asking.causes += causes


def _join(traceparents: Traceparents) -> None:
    asking = _asking.get()
    if asking is not None:
        contexts = (read_traceparent(text) for texts in traceparents for text in texts)
        asking.joined += [context for context in contexts if context is not None]


def _spans_of_reports(
    traceparents: Traceparents, results: Sequence[Any]
) -> Iterator[tuple[TraceContext, Attributes, bool]]:
    """Yield the spans that reports belong to, with the outcome of each report."""
    for parents, result in zip(traceparents, results, strict=False):
        failed = isinstance(result, Exception)
        outcome = str(result[0]) if isinstance(result, tuple) else _code(result)
        attributes = {"rotulus.error" if failed else "rotulus.outcome": outcome}
        for parent in parents:
            place = read_traceparent(parent)
            if place is not None:
                yield place, attributes, failed


def _code(error: object) -> str:
    return str(getattr(error, "code", "internal"))


class TracedQueue(WorkQueue):
    """Adds each item under the span of its sending."""

    def __init__(self, redis: RedisClient, name: str, spans: Spans) -> None:
        super().__init__(redis, name)
        self._spans = spans

    async def enqueue_many(self, items: Sequence[NewItem], mark: str = "") -> list[Enqueued]:
        """Add requests as a queue does, each under the span of its sending."""
        began_ns = time.time_ns()
        places = [self._spans.root(item.operation_id or item.key) for item in items]
        contexts = [
            None if root is None else root.child("relay", item.cause_id)
            for root, item in zip(places, items, strict=True)
        ]
        states = await super().enqueue_many(
            [
                item if place is None else replace(item, traceparent=place.traceparent)
                for item, place in zip(items, contexts, strict=True)
            ],
            mark,
        )
        times_ns = began_ns, time.time_ns()
        for root, place, item, entered in zip(places, contexts, items, states, strict=True):
            if place is not None and entered.state in _ENTERED:
                attributes: Attributes = {
                    "messaging.destination.name": self.name,
                    "messaging.message.id": item.key,
                    "rotulus.priority": item.priority,
                    "rotulus.enqueued": entered.state,
                    "messaging.message.body.size": len(item.payload),
                }
                self._spans.tell(
                    "relay", place, root, times_ns=times_ns, kind="producer", attributes=attributes
                )
        return states


def _causes_of(answer: Any) -> Iterator[_Cause]:
    """Yield the operations and the requests for work that an answer names."""
    if isinstance(answer, SimulationResult):
        return
    if isinstance(answer, SubmissionResult):
        outcome = "duplicate" if answer.duplicate else "accepted"
        attributes = {"rotulus.operation_id": answer.operation_id, "rotulus.outcome": outcome}
        yield _Cause(answer.operation_id, attributes, is_new=not answer.duplicate)
    elif isinstance(answer, RejectedResult):
        if answer.operation_id is None:
            return
        attributes = {
            "rotulus.operation_id": answer.operation_id,
            "rotulus.outcome": "rejected",
            "rotulus.reason_code": answer.rejection.reason_code,
        }
        yield _Cause(answer.operation_id, attributes, failed=True)
    elif isinstance(answer, WorkReceipt):
        attributes = {"rotulus.work_request_id": answer.request_id}
        yield _Cause(answer.request_id, attributes, is_new=not answer.duplicate)
    elif isinstance(answer, dict) and isinstance(answer.get("request"), dict):
        # A recompute that was asked for belongs to what its asker named as the trigger.
        source, known = answer["request"].get("trigger_source_id"), bool(answer.get("duplicate"))
        if source is not None:
            attributes = {"rotulus.operation_id": str(answer["operation_id"])}
            yield _Cause(str(source), attributes, is_new=not known)
    elif isinstance(answer, list | tuple):
        for element in answer:
            yield from _causes_of(element)
