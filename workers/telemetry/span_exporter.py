"""Sends spans to a collector; the only module that loads OpenTelemetry's SDK.

A span is emitted when what it describes has ended (decision workers/0050). It goes into a bounded
queue, which a thread empties to the collector; a span that finds no room, or that the collector
does not take, is dropped and counted. Nobody who does the work ever waits.

The SDK's own processor (1.45) would replace the queue and its thread only: it counts what it drops
for a meter of its own, does not look at whether an export succeeded, and at the end of a process
waits up to 30 s for the collector.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Literal
from urllib.parse import urlsplit

import structlog
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from workers.telemetry.trace_context import TraceContext, root_of

SPANS_MAX = 8192
EXPORT_SPANS_MAX = 512
EXPORT_EVERY_S = 0.5
EXPORT_TIMEOUT_S = 5.0
CLOSE_S = 0.5

Attributes = Mapping[str, str | int | bool]
Kind = Literal["internal", "server", "producer", "consumer"]

_SCOPE = InstrumentationScope("rotulus")
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_IDS = 2**64

_log = structlog.get_logger(__name__)


class Spans:
    """The spans of one process, added from one thread; their counts may be read from another."""

    def __init__(
        self,
        exporter: SpanExporter,
        service: str,
        *,
        sample: float = 1.0,
        spans_max: int = SPANS_MAX,
    ) -> None:
        """Take spans for an exporter; `sample` is the share of the traces that are emitted."""
        self.exported = 0
        self._refused = 0
        self._lost = 0
        self._exporter = exporter
        self._resource = Resource.create({"service.name": f"rotulus-{service}"})
        self._sampled_below = int(sample * _IDS)
        self._spans_max = spans_max
        self._waiting: deque[ReadableSpan] = deque()
        self._wake = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._export, name="spans", daemon=True)
        self._thread.start()

    @property
    def dropped(self) -> int:
        """How many spans had no room, or were not taken by the collector."""
        return self._refused + self._lost

    def root(self, cause: str) -> TraceContext | None:
        """Return the root of a cause's trace; None where this share is not told.

        The choice follows from the trace's id, so processes with one setting choose alike.
        """
        root = root_of(cause)
        return root if root.trace_id % _IDS < self._sampled_below else None

    def tell(
        self,
        name: str,
        context: TraceContext,
        parent: TraceContext | None,
        *,
        times_ns: tuple[int, int],
        kind: Kind = "internal",
        attributes: Attributes | None = None,
        failed: bool = False,
        follows: TraceContext | None = None,
    ) -> None:
        """Tell of a span that has ended; drops it where too many wait."""
        if len(self._waiting) >= self._spans_max or self._closing:
            self._refused += 1
            return
        start_ns, end_ns = times_ns
        span = ReadableSpan(
            name,
            _context(context),
            None if parent is None else _context(parent),
            self._resource,
            dict(attributes or {}),
            links=() if follows is None else (Link(_context(follows)),),
            kind=SpanKind[kind.upper()],
            status=Status(StatusCode.ERROR if failed else StatusCode.UNSET),
            start_time=start_ns,
            end_time=max(start_ns, end_ns),
            instrumentation_scope=_SCOPE,
        )
        self._waiting.append(span)
        if len(self._waiting) == EXPORT_SPANS_MAX:
            self._wake.set()

    def close(self) -> None:
        """Send what waits, for half a second at most; the rest is dropped."""
        self._closing = True
        self._wake.set()
        self._thread.join(CLOSE_S)
        self._exporter.shutdown()

    def _export(self) -> None:
        reached = True
        while not self._closing or self._waiting:
            if len(self._waiting) < EXPORT_SPANS_MAX:
                self._wake.wait(EXPORT_EVERY_S)
                self._wake.clear()
            batch = [
                self._waiting.popleft() for _ in range(min(EXPORT_SPANS_MAX, len(self._waiting)))
            ]
            if not batch:
                continue
            is_exported = self._hand_over(batch)
            if is_exported != reached:
                _log.warning("traces_go_on" if is_exported else "traces_dropped", spans=len(batch))
            reached = is_exported

    def _hand_over(self, batch: Sequence[ReadableSpan]) -> bool:
        try:
            is_exported = self._exporter.export(batch) is SpanExportResult.SUCCESS
        except Exception as error:  # noqa: BLE001 - whatever it is, the spans are not there
            _log.warning("traces_not_exported", error=repr(error))
            is_exported = False
        if is_exported:
            self.exported += len(batch)
        else:
            self._lost += len(batch)
        return is_exported


def open_spans(
    url: str,
    service: str,
    sample: float,
    exporter_of: Callable[..., SpanExporter] = OTLPSpanExporter,
) -> Spans:
    """Return spans that go to a collector over OTLP (HTTP, protobuf); nothing is sent yet."""
    # It speaks of each attempt; `Spans` says once that the collector is away.
    logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)
    endpoint = url if urlsplit(url).path.strip("/") else f"{url.rstrip('/')}/v1/traces"
    return Spans(exporter_of(endpoint=endpoint, timeout=EXPORT_TIMEOUT_S), service, sample=sample)


def _context(place: TraceContext) -> SpanContext:
    return SpanContext(place.trace_id, place.span_id, is_remote=False, trace_flags=_SAMPLED)
