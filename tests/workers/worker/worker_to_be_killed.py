"""A worker whose evaluator never ends while a file is there, and says by another that it began.

    python -m tests.workers.worker.worker_to_be_killed HOLD BEGAN

Everything else is read from the environment, as an operator's worker reads it.
"""

import sys
from functools import partial
from pathlib import Path

import anyio

from kernel.work.contents import BindingEvaluation
from workers.cli.common import read_settings, redis_url, run
from workers.worker.handlers.binding_evaluator import Evaluated
from workers.worker.process import serve_worker


class Held:
    """Creates a target for every binding, once nobody holds it."""

    def __init__(self, hold: Path, began: Path) -> None:
        self._hold, self._began = anyio.Path(hold), anyio.Path(began)

    async def evaluate(self, _request_id: str, evaluation: BindingEvaluation) -> Evaluated:
        await self._began.touch()
        while await self._hold.exists():
            await anyio.sleep(0.02)
        return Evaluated("succeeded", "target_created", f"target:{evaluation.binding_id}")


if __name__ == "__main__":
    settings = read_settings(None)
    held = Held(*map(Path, sys.argv[1:]))
    run(partial(serve_worker, settings, redis_url(settings), held))
