"""Tells the time that decides: that of the ledger's server, carried on by a clock that never steps.

Decisions by time (whether a key still has its answer, when a delay is over, when a message expires)
must come out alike at every gateway. So a gateway asks its database server for the time when it
opens the ledger and every ten seconds, and adds what has gone by since on its own monotonic clock.
If the ledger is a file there is no server: the machine's clock is read once, at the start, and a
step of it meanwhile is no step of this clock.

How far the machine's own clock is off is what health tells (decision workers/0107).
"""

import time
from collections.abc import Callable

import anyio
import anyio.to_thread
import structlog

from kernel.values.errors import LedgerUnavailable

MEASURE_EVERY_S = 10.0
SKEW_S_MAX = 60.0
"""How far a machine's clock may be off before its gateway is not ready."""

_log = structlog.get_logger(__name__)


def _steady_us() -> int:
    """Return a time that never steps, and that goes on while the machine sleeps."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock) // 1000


def _wall_us() -> int:
    return time.time_ns() // 1000


class LedgerClock:
    """A clock for `Host`; any thread may read it."""

    def __init__(
        self, wall_us: Callable[[], int] = _wall_us, steady_us: Callable[[], int] = _steady_us
    ) -> None:
        """Begin with this machine's time; nothing is measured yet."""
        self._wall_us, self._steady_us = wall_us, steady_us
        self._ahead_us = wall_us() - steady_us()
        self._server_time_us: Callable[[], int | None] = lambda: None

    def now_us(self) -> int:
        """Return microseconds since 1970-01-01 UTC."""
        return self._steady_us() + self._ahead_us

    def measure(self, server_time_us: Callable[[], int | None]) -> None:
        """Take a server's time, now and in `keep`; what it took to ask for it is halved.

        Raises:
            LedgerUnavailable: when the server does not answer; the clock goes on as before.
        """
        self._server_time_us = server_time_us
        began_us = self._steady_us()
        server_us = server_time_us()
        if server_us is not None:
            self._ahead_us = server_us - (began_us + self._steady_us()) // 2

    @property
    def skew_s(self) -> float:
        """How far this machine's clock is ahead; behind where it is negative."""
        return (self._wall_us() - self.now_us()) / 1_000_000

    def problem(self) -> str | None:
        """Return why a gateway with this clock is not ready, with a code."""
        if abs(self.skew_s) <= SKEW_S_MAX:
            return None
        where = "ahead of" if self.skew_s > 0 else "behind"
        return (
            f"clock_skewed: this machine's clock is {abs(self.skew_s):.0f} s {where} the ledger's"
        )

    async def keep(self) -> None:
        """Measure again and again until cancelled, and log when the machine's clock goes off."""
        said = False
        while True:
            await anyio.sleep(MEASURE_EVERY_S)
            try:
                await anyio.to_thread.run_sync(self.measure, self._server_time_us)
            except LedgerUnavailable as error:
                _log.debug("clock_not_measured", code=error.code)
            is_off = self.problem() is not None
            if is_off != said:
                _log.error("clock_skewed" if is_off else "clock_fits", skew_s=round(self.skew_s, 1))
            said = is_off
