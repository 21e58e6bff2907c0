"""Counts values that were dropped because no fleet writes them; logs each kind once a minute."""

import time
from collections import Counter
from typing import Final

import structlog

KINDS_MAX: Final = 64
"""Kinds that one process tells others of."""

SAY_EVERY_S: Final = 60.0
"""Seconds between two log lines of one kind."""

DROPPED: Final[Counter[str]] = Counter()
"""Values that this process has dropped since it began, by kind."""

_said_at_s: dict[str, float] = {}
_log = structlog.get_logger(__name__)


def count_dropped(kind: str, count: int = 1) -> None:
    """Count dropped values, and log the first of a minute."""
    DROPPED[kind] += count
    now_s = time.monotonic()
    if now_s - _said_at_s.get(kind, float("-inf")) >= SAY_EVERY_S:
        _said_at_s[kind] = now_s
        _log.warning("redis_values_dropped", kind=kind, count=count, since_start=DROPPED[kind])
