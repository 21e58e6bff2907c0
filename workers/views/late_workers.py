"""Lists workers that have missed a beat: what they had in hand goes to others."""

from typing import Final

from queues.fleet.worker_heartbeats import WorkerBeat

LATE_AFTER_MS: Final = 6_000
"""A worker beats every four seconds."""


def is_late(beat: WorkerBeat, now_ms: int) -> bool:
    """Tell whether a worker should have beaten again by now."""
    return now_ms - beat.seen_at_ms > LATE_AFTER_MS
