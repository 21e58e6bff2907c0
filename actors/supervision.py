"""Keeps loops that serve many running, and wakes them.

An error of one message or entry ends a turn, not the process.

The beat and the follower of shards, the three loops of the mail, relays, performers, watchers and
the dashboard's hub log what they met and go on after half a second. The committer and the runtime
are not kept up in this way, and neither is anything after a corrupt ledger: what they hold in
memory could not be trusted.
"""

from collections.abc import Awaitable, Callable

import anyio
import structlog

from kernel.values.errors import LedgerCorrupt

PAUSE_S = 0.5
"""Pause after a turn that failed, so that a loop that fails at once does not take the processor."""

LOOK_EVERY_S = 1.0
"""Longest time between two looks for what other gateways have written, of which nobody tells."""

COLLECT_S = 0.05
"""Pause between two looks, in which what is committed meanwhile is collected for one look."""

_log = structlog.get_logger(__name__)


async def keep_running(name: str, run: Callable[[], Awaitable[None]]) -> None:
    """Run a loop until it returns, and start it again after each failure.

    Raises:
        LedgerCorrupt: the record cannot be trusted (L3); the process must end.
    """
    while True:
        try:
            await run()
        except Exception as error:
            if _is_corrupt(error):
                raise
            _log.exception("loop_failed", loop=name)
        else:
            return
        await anyio.sleep(PAUSE_S)


class WakeSignal:
    """Tells a loop to look now; set any number of times between two looks, it counts once."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def set(self) -> None:
        """Wake the loop, or have it look again at once after its present look."""
        self._event.set()

    async def wait(self, at_most_s: float | None = None) -> None:
        """Return when it is set, or after a time; what is set from then on is of the next wait."""
        with anyio.move_on_after(at_most_s):
            await self._event.wait()
        self._event = anyio.Event()

    async def next_look(self, collect_s: float = COLLECT_S) -> None:
        """Return when it is set or a second has passed, and not before `collect_s` is over."""
        await anyio.sleep(collect_s)
        await self.wait(LOOK_EVERY_S)


def _is_corrupt(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(_is_corrupt(exception) for exception in error.exceptions)
    return isinstance(error, LedgerCorrupt)
