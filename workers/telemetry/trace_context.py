"""Computes the trace and span of a piece of work from names (decision workers/0049).

The trace of an operation and of everything that it causes has an id that follows from the
operation's, the trace of asked-for work one that follows from its request. So every process finds
the same trace, also after a restart and after Redis has lost what it held. Ids of spans follow
from the names of what happened, so what happens again under one name is one span.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

from queues.queue.items import Claim

TRACED_CAUSES_MAX = 8
"""Causes of one item that are traced: a coalesced one may have a thousand."""

_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-01")


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A span's place: the trace that it belongs to, and its own id there."""

    trace_id: int
    span_id: int

    @property
    def traceparent(self) -> str:
        """The span as W3C trace context writes it, sampled."""
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-01"

    def child(self, *names: str) -> "TraceContext":
        """Return the place of what is named so, under this span."""
        text = "\0".join((self.traceparent, *names))
        return TraceContext(self.trace_id, _number(sha256(text.encode()).digest()[:8]))


def root_of(cause: str) -> TraceContext:
    """Return the first span of the trace of an operation or a request."""
    digest = sha256(b"rotulus trace\0" + cause.encode("utf-8", "surrogatepass")).digest()
    return TraceContext(_number(digest[:16]), _number(digest[16:24]))


def read_traceparent(text: str) -> TraceContext | None:
    """Return the place that a sampled traceparent names; None for anything else."""
    match = _TRACEPARENT.fullmatch(text)
    if match is None:
        return None
    trace_id, span_id = int(match[1], 16), int(match[2], 16)
    return TraceContext(trace_id, span_id) if trace_id and span_id else None


def sending_contexts(claim: Claim) -> list[TraceContext]:
    """Return the spans under which an item was sent, one for each cause that is traced."""
    contexts = [read_traceparent(cause.traceparent) for cause in claim.lineage if cause.traceparent]
    return [context for context in contexts if context is not None][:TRACED_CAUSES_MAX]


def handling_context(claim: Claim, context: TraceContext) -> TraceContext:
    """Return the place of a delivery's handling under the span that sent the item."""
    return context.child("handle", claim.token)


def traceparents_of(claims: Iterable[Claim]) -> list[list[str]]:
    """Return for each claim the spans that handle it; an empty list where nothing is traced."""
    traceparents = [
        [handling_context(claim, context).traceparent for context in sending_contexts(claim)]
        for claim in claims
    ]
    return traceparents if any(traceparents) else []


def _number(content: bytes) -> int:
    """A number that is not 0, which W3C trace context forbids."""
    return int.from_bytes(content) or 1
