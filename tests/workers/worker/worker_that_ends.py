"""A worker that ends, as a crash does, in the evaluation of the binding `marker`.

    python -m tests.workers.worker.worker_that_ends BEGAN CURED

It adds the name of each binding that it begins to one file, and survives while the other is there.
Everything else is read from the environment, as an operator's worker reads it. What it held comes
back sooner than an operator's, who may have a slow machine: the marker is begun four times.
"""

import os
import sys
from functools import partial
from pathlib import Path

from kernel.ledger.ledger import Request
from workers.cli.common import read_settings, redis_url, run
from workers.worker import drain_slots
from workers.worker.handlers.binding_evaluator import BindingEvaluator, Evaluated
from workers.worker.process import serve_worker

MARKER = "marker"


class Ends:
    """Evaluates every binding but the marker."""

    def __init__(self, began: Path, cured: Path, evaluator: BindingEvaluator) -> None:
        self._began, self._cured, self._evaluator = began, cured, evaluator

    async def evaluate(self, request: Request) -> Evaluated:
        binding_id = request.document["content"]["binding_id"]
        with self._began.open("a") as file:
            file.write(f"{binding_id}\n")
        if binding_id == MARKER and not self._cured.exists():
            os._exit(1)
        return await self._evaluator.evaluate(request)


if __name__ == "__main__":
    drain_slots.VISIBILITY_MS, drain_slots.RENEW_EVERY_S = 2_000, 0.4  # type: ignore[misc]
    settings = read_settings()
    began, cured = map(Path, sys.argv[1:])
    evaluator = partial(Ends, began, cured)
    run(partial(serve_worker, settings, redis_url(settings), evaluator))
