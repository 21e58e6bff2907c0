"""Decides whether a request that failed is tried again, and when.

The pause after failure n is the first pause, doubled n - 1 times, at most the longest one, and up
to its jitter longer or shorter. So a floor is promised, which full jitter does not do. A pause that
a job asks for itself (a snooze) counts apart: the backoff reads failures only, and a bound of its
own ends a job that asks for ever. A policy is part of each report of a failure, so that a gateway
needs no plug-in to decide (decision kernel/0680).
"""

from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from kernel.values.canonical import digest

ATTEMPTS_MAX: Final = 1000
PAUSE_MS_MAX: Final = 5 * 24 * 3_600_000
"""With its jitter it is less than the week that an item of a queue may wait."""

ELAPSED_MS_MAX: Final = 90 * 24 * 3_600_000
SNOOZES: Final = 1000
WORKER_ENDS_MAX: Final = 3
"""Processes that a request may end before it is given up, counted only while it was worked on
alone (decision queues/0041)."""

ATTEMPTS_EXHAUSTED: Final = "attempts_exhausted"
TIME_EXHAUSTED: Final = "retry_time_exhausted"
SNOOZES_EXHAUSTED: Final = "snoozes_exhausted"
ENDED_ITS_WORKERS: Final = "worker_ended_three_times"

_DOUBLINGS_MAX: Final = 32


class RetryPolicy(BaseModel):
    """How often a request is tried, and how long it waits in between."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    attempts: int = Field(default=14, ge=1, le=ATTEMPTS_MAX)
    """Attempts that may fail; the last of them is final."""

    first_pause_ms: int = Field(default=5_000, ge=0, le=PAUSE_MS_MAX)
    pause_ms_max: int = Field(default=3_600_000, ge=0, le=PAUSE_MS_MAX)
    jitter_percent: int = Field(default=20, ge=0, le=30)
    elapsed_ms_max: int | None = Field(default=None, ge=0, le=ELAPSED_MS_MAX)
    """No attempt begins later than this after the first one began; waiting before that is free."""

    snoozes: int = Field(default=SNOOZES, ge=0, le=100_000)

    @property
    def version(self) -> str:
        """The name of what the policy says; another policy has another one."""
        return digest(self.model_dump())[:16]


@dataclass(frozen=True, slots=True)
class FailureCounts:
    """What is counted of a request that did not succeed at once."""

    failures: int = 0
    snoozes: int = 0
    worker_ends: int = 0


def pause_ms(policy: RetryPolicy, failures: int, random_unit: float) -> int:
    """Return the pause after so many failures.

    Args:
        policy: of the request.
        failures: from 1.
        random_unit: from 0.0 up to 1.0, handed in so that the rule stays pure.
    """
    doublings = min(max(failures, 1) - 1, _DOUBLINGS_MAX)
    pause = min(policy.first_pause_ms << doublings, policy.pause_ms_max)
    return int(pause * (1 + policy.jitter_percent / 100 * (2 * random_unit - 1)))


def final_reason(policy: RetryPolicy, counts: FailureCounts, elapsed_ms: int) -> str | None:
    """Return why a request is not tried any more, None where it is.

    Args:
        policy: of the request.
        counts: with what has just happened to it.
        elapsed_ms: from the begin of its first attempt to that of the next.
    """
    if counts.worker_ends >= WORKER_ENDS_MAX:
        return ENDED_ITS_WORKERS
    if counts.failures >= policy.attempts:
        return ATTEMPTS_EXHAUSTED
    if counts.snoozes > policy.snoozes:
        return SNOOZES_EXHAUSTED
    if policy.elapsed_ms_max is not None and elapsed_ms > policy.elapsed_ms_max:
        return TIME_EXHAUSTED
    return None


AUTHORITY_POLICY: Final = RetryPolicy(first_pause_ms=1_000, pause_ms_max=600_000)
"""Of authorities, whose failure is a defect or a session that fails: 40 to 57 minutes."""

DEFAULT_POLICY: Final = RetryPolicy()
"""Of every other queue that states none: 3.5 to 5.3 hours."""
