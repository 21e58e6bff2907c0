"""Stands still until a test moves it: a clock."""

import itertools
from datetime import UTC, datetime, timedelta
from typing import Final

from kernel.values.host import Host

BEGIN: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
_US: Final = timedelta(microseconds=1)


class MovedClock:
    """The time of a ledger in memory; it begins at noon of 2026-01-01, UTC."""

    def __init__(self, now: datetime = BEGIN) -> None:
        self._now = now
        self._drawn = itertools.count(1)
        self.host = Host(self._now_us, self._draw)
        """What a ledger reads: this clock, and bytes that are the same in each run."""

    @property
    def now(self) -> datetime:
        """The time at which it stands."""
        return self._now

    def advance(self, seconds: float = 0.0, **units: float) -> datetime:
        """Move it on by seconds, or by `minutes`, `hours` and `days`; return the time."""
        self._now += timedelta(seconds=seconds, **units)
        return self._now

    def move_to(self, now: datetime) -> None:
        """Set it to a time, which has a time zone."""
        self._now = now.astimezone(UTC)

    def _now_us(self) -> int:
        return (self._now - datetime.fromtimestamp(0, UTC)) // _US

    def _draw(self, count: int) -> bytes:
        return next(self._drawn).to_bytes(count, "big")
