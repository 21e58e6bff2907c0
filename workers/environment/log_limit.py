"""Bounds the lines that callers of a process can have written to its log (decision workers/0451).

Whoever may send a request may send a million, and a line for each fills a disk and hides the rest.
Of what callers cause, an event is written so often within a minute; the last of these lines says
that more are left out, and the first of a later minute how many were.
"""

import logging
import time
from collections.abc import Callable
from threading import Lock
from typing import Any, Final

_WORKERS: Final = __package__.rpartition(".")[0]
CALLERS_LOGGERS: Final = (
    "uvicorn",
    *(f"{_WORKERS}.{room}" for room in ("api", "dashboard", "mcp")),
)
"""Loggers, with those below them, whose lines a caller causes."""

LINES_MAX: Final = 20
EVERY_S: Final = 60.0
EVENTS_MAX: Final = 512
"""Events that are told apart; each further one shares a bound with the others."""


class CallersLimit(logging.Filter):
    """Lets a bounded number of lines of each event pass; critical ones and those of others all."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now_s = now_s
        self._lock = Lock()
        self._counts: dict[tuple[str, ...], tuple[float, int]] = {}
        """Since when lines of an event are counted, and how many there were."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether a line is written, and state in it what is left out."""
        if record.levelno >= logging.CRITICAL or not _is_of_callers(record.name):
            return True
        with self._lock:
            return self._passes(record)

    def _passes(self, record: logging.LogRecord) -> bool:
        now_s, key = self._now_s(), _key_of(record)
        if key not in self._counts and len(self._counts) >= EVENTS_MAX:
            key = ()
        since_s, count = self._counts.get(key, (now_s, 0))
        left_out = 0
        if now_s - since_s >= EVERY_S:
            since_s, count, left_out = now_s, 0, max(0, count - LINES_MAX)
        self._counts[key] = since_s, count + 1
        if left_out:
            _state(record, "lines_left_out", left_out)
        if count + 1 == LINES_MAX:
            _state(record, "further_lines_left_out_for_s", round(EVERY_S - (now_s - since_s)))
        return count < LINES_MAX


def _is_of_callers(logger: str) -> bool:
    return any(logger == each or logger.startswith(f"{each}.") for each in CALLERS_LOGGERS)


def _key_of(record: logging.LogRecord) -> tuple[str, ...]:
    """Return what lines of one event share: a defect of another kind is another event."""
    message, exception = record.msg, record.exc_info
    if isinstance(message, dict):
        exception = message.get("exc_info", exception)
        message = message.get("event")
    kind = exception[0] if isinstance(exception, tuple) else type(exception)
    return record.name, str(message), getattr(kind, "__name__", "")


def _state(record: logging.LogRecord, name: str, value: int) -> None:
    """Add a field, to the event of ours or to the record of a library."""
    if isinstance(record.msg, dict):
        fields: dict[str, Any] = record.msg
        fields[name] = value
    else:
        setattr(record, name, value)
