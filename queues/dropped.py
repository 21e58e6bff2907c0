"""What was dropped because no fleet writes it: counted by its kind, and said once a minute."""

import time
from collections import Counter
from typing import Final

import structlog

KINDS_MAX: Final = 64
"""Kinds that one process tells others of."""

SAY_EVERY_S: Final = 60.0
"""Between two lines of one kind."""

DROPPED: Final[Counter[str]] = Counter()
"""How much this process has dropped since it began, by kind."""

_said_at_s: dict[str, float] = {}
_log = structlog.get_logger(__name__)


def dropped(kind: str, count: int = 1) -> None:
    """Count values that were dropped; the first of a minute is said in the log."""
    DROPPED[kind] += count
    now_s = time.monotonic()
    if now_s - _said_at_s.get(kind, float("-inf")) >= SAY_EVERY_S:
        _said_at_s[kind] = now_s
        _log.warning("redis_values_dropped", kind=kind, count=count, since_start=DROPPED[kind])
