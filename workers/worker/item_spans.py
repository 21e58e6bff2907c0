"""Traces a worker: how long an item waited, and the outcome of its handling."""

import time
from collections.abc import Sequence

from workers.telemetry.span_exporter import Spans
from workers.telemetry.trace_context import handling_context, sending_contexts
from workers.worker.batches import ClaimResult


class WorkerTraces:
    """Emits the spans of the items that a worker settles."""

    def __init__(self, spans: Spans) -> None:
        self.spans = spans

    def note_settled(self, queue: str, settled: Sequence[ClaimResult], claimed_ns: int) -> None:
        """Tell of a batch that was claimed then and is settled now."""
        now_ns = time.time_ns()
        for result in settled:
            claim = result.claim
            attributes: dict[str, str | int | bool] = {
                "messaging.destination.name": queue,
                "messaging.message.id": claim.key,
                "messaging.message.body.size": len(claim.payload),
                "rotulus.priority": claim.priority,
                "rotulus.attempt": claim.attempt,
                "rotulus.causes": claim.causes_count,
            }
            ended = {"rotulus.outcome": result.verdict, "rotulus.reason_code": result.code}
            # The clocks of this machine and of Redis may differ.
            waited_ns = min(claim.enqueued_at_ms * 1_000_000, claimed_ns), claimed_ns
            for context in sending_contexts(claim):
                self.spans.tell(
                    "queue",
                    context.child("queue", claim.token),
                    context,
                    times_ns=waited_ns,
                    attributes=attributes,
                )
                self.spans.tell(
                    "handle",
                    handling_context(claim, context),
                    context,
                    times_ns=(claimed_ns, now_ns),
                    kind="consumer",
                    attributes=attributes | ended,
                    failed=result.verdict == "failed",
                )
