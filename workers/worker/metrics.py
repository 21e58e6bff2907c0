"""Counts the metrics of a worker and its batches."""

import time
from collections.abc import Callable, Mapping, Sequence

from queues.queue.items import Claim
from workers.telemetry.http_metrics import SpanTally, dropped_counts, span_counts
from workers.telemetry.metric_registry import Metrics, Readings
from workers.telemetry.metric_table import WORKER
from workers.worker.batches import BatchProcessor


class WorkerMetrics:
    """Counts what a worker claims and settles, and reads its slots when it is scraped."""

    def __init__(
        self,
        processors: Mapping[str, BatchProcessor],
        slots: int,
        spans: SpanTally | None = None,
        redis_serves: Callable[[], bool] = lambda: True,
    ) -> None:
        self._redis_serves = redis_serves
        self._spans = spans
        self._processors = processors
        self._slots = slots
        self._metrics = Metrics(WORKER, self._readings)

    def note_claims(self, queue: str, claims: Sequence[Claim]) -> None:
        """Take note of a batch that was delivered now."""
        now_ms = time.time_ns() // 1_000_000
        self._metrics.observe("rotulus_worker_batch_items", len(claims), queue)
        waits_s: dict[str, list[float]] = {}
        for claim in claims:
            if claim.attempt == 1:
                # The clocks of this machine and of Redis may differ.
                waited_s = max(0, now_ms - claim.enqueued_at_ms) / 1000
                waits_s.setdefault(claim.priority, []).append(waited_s)
        for priority, waits in waits_s.items():
            self._metrics.observe_all("rotulus_worker_queue_wait_seconds", waits, queue, priority)

    def note_drained(self, queue: str, seconds: float) -> None:
        """Take note of a batch that was settled."""
        self._metrics.observe("rotulus_worker_batch_duration_seconds", seconds, queue)

    def text(self) -> bytes:
        """Return everything as Prometheus reads it; may be called on another thread."""
        return self._metrics.text()

    def _readings(self) -> Readings:
        tallies = {name: processor.tally for name, processor in self._processors.items()}
        return {
            "rotulus_worker_slots": {(): self._slots},
            "rotulus_dependency_up": {("redis",): float(self._redis_serves())},
            "rotulus_worker_items_in_flight": {
                (name,): tally.in_flight for name, tally in tallies.items()
            },
            "rotulus_worker_items_total": {
                (name, outcome): getattr(tally, outcome)
                for name, tally in tallies.items()
                for outcome in ("completed", "failed", "put_off", "dropped")
            },
            "rotulus_worker_dead_letters_total": {
                (name,): tally.dead_letters for name, tally in tallies.items()
            },
            "rotulus_redis_values_dropped_total": dropped_counts(),
            "rotulus_trace_spans_total": span_counts(self._spans),
        }
