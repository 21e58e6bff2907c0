"""Counts HTTP requests by route, their times and their ends, and emitted spans."""

import time
from collections.abc import Callable, Mapping
from typing import Protocol

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from queues.redis.dropped import DROPPED

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
NO_ROUTE = "(none)"
"""The label of requests that no route answered: refused before, or of an unknown path."""


class SpanTally(Protocol):
    """How many spans of traces a process has told."""

    @property
    def exported(self) -> int:
        """How many spans a collector has taken."""

    @property
    def dropped(self) -> int:
        """How many spans are lost."""


def span_counts(spans: SpanTally | None) -> Mapping[tuple[str, ...], float]:
    """Return what the metric of spans says; where nothing is traced, nothing."""
    if spans is None:
        return {}
    return {("exported",): spans.exported, ("dropped",): spans.dropped}


def dropped_counts() -> Mapping[tuple[str, ...], float]:
    """Return what the metric of values that were dropped says."""
    return {(kind,): count for kind, count in DROPPED.items()}


Observer = Callable[[str, str, int, float], None]
"""Method, path of the route as it is declared, status, seconds."""


class Measured:
    """ASGI middleware: measures each answer when it begins, because a stream may never end."""

    def __init__(self, app: ASGIApp, *, observe: Observer) -> None:
        self._app = app
        self._observe = observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began_s = time.perf_counter()
        method = scope["method"] if scope["method"] in METHODS else "OTHER"

        async def send_measured(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = getattr(scope.get("route"), "path", NO_ROUTE)
                self._observe(method, route, message["status"], time.perf_counter() - began_s)
            await send(message)

        await self._app(scope, receive, send_measured)
