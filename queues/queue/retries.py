"""Bounds how often an item is tried, and spaces the tries: exponential, with full jitter."""

from typing import Final

MAX_ATTEMPTS: Final = 8
"""Deliveries after which a retryable failure is final; the worker buries such an item, and the
queue itself never does."""

ENDS_MAX: Final = 3
"""Processes that an item may end before it is set aside, counted only while it was worked on
alone (decision queues/0041)."""

BASE_MS: Final = 100
CAP_MS: Final = 30_000
_DOUBLINGS_MAX: Final = 16


def backoff_ms(attempt: int, random_unit: float) -> int:
    """Return a delay between 0 and the ceiling of this attempt.

    Args:
        attempt: the delivery that failed, from 1.
        random_unit: from 0.0 up to 1.0, handed in so that the rule stays pure.
    """
    doublings = min(max(attempt, 1) - 1, _DOUBLINGS_MAX)
    return int(random_unit * min(CAP_MS, BASE_MS << doublings))
