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

from kernel.ledger.ledger import Request
from workers.cli.common import read_settings, redis_url, run
from workers.worker.handlers.binding_evaluator import (
    EVALUATION_S_MAX,
    BindingEvaluator,
    Evaluated,
)
from workers.worker.process import serve_worker


class Held:
    """Evaluates every binding, once nobody holds it."""

    def __init__(
        self, evaluator: BindingEvaluator, hold: str, began: str, how: str = "loop"
    ) -> None:
        self._evaluator = evaluator
        self._hold, self._began, self._how = anyio.Path(hold), anyio.Path(began), how

    async def evaluate(self, request: Request) -> Evaluated:
        await self._began.touch()
        await getattr(self, f"_{self._how}")()
        return await self._evaluator.evaluate(request)

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
    settings = read_settings()
    arguments = sys.argv[1:]
    around = lambda evaluator: Held(evaluator, *arguments)  # noqa: E731
    run(partial(serve_worker, settings, redis_url(settings), around))
