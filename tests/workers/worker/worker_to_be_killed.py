"""A worker whose evaluator never ends while a file is there, and says by another that it began.

    python -m tests.workers.worker.worker_to_be_killed HOLD BEGAN [HOW]

HOW is where the evaluation runs: on the event loop, on a thread, or deaf to being cancelled.

Everything else is read from the environment, as an operator's worker reads it.
"""

import asyncio
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from kernel.work.contents import BindingEvaluation
from workers.cli.common import read_settings, redis_url, run
from workers.worker.handlers.binding_evaluator import EVALUATION_S_MAX, Evaluated
from workers.worker.process import serve_worker


class Held:
    """Creates a target for every binding, once nobody holds it."""

    def __init__(self, hold: str, began: str, how: str = "loop") -> None:
        self._hold, self._began, self._how = anyio.Path(hold), anyio.Path(began), how

    async def evaluate(self, _request_id: str, evaluation: BindingEvaluation) -> Evaluated:
        await self._began.touch()
        await getattr(self, f"_{self._how}")()
        return Evaluated("succeeded", "target_created", f"target:{evaluation.binding_id}")

    async def _loop(self) -> None:
        while await self._hold.exists():
            await anyio.sleep(0.02)

    async def _thread(self) -> None:
        def block() -> None:
            ends_s = time.monotonic() + EVALUATION_S_MAX
            while Path(self._hold).exists() and time.monotonic() < ends_s:
                time.sleep(0.02)

        await anyio.to_thread.run_sync(block)

    async def _deaf(self) -> None:
        ends_s = anyio.current_time() + EVALUATION_S_MAX
        while await self._hold.exists() and anyio.current_time() < ends_s:
            with suppress(BaseException):
                await asyncio.sleep(0.02)


if __name__ == "__main__":
    settings = read_settings(None)
    held = Held(*sys.argv[1:])
    run(partial(serve_worker, settings, redis_url(settings), held))
