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

from kernel.work.contents import BindingEvaluation
from workers.cli.common import read_settings, redis_url, run
from workers.worker import consumers
from workers.worker.handlers.binding_evaluator import Evaluated
from workers.worker.process import serve_worker

MARKER = "marker"


class Ends:
    """Creates a target for every binding but for the marker."""

    def __init__(self, began: Path, cured: Path) -> None:
        self._began, self._cured = began, cured

    async def evaluate(self, _request_id: str, evaluation: BindingEvaluation) -> Evaluated:
        with self._began.open("a") as file:
            file.write(f"{evaluation.binding_id}\n")
        if evaluation.binding_id == MARKER and not self._cured.exists():
            os._exit(1)
        return Evaluated("succeeded", "target_created", f"target:{evaluation.binding_id}")


if __name__ == "__main__":
    consumers.VISIBILITY_MS, consumers.RENEW_EVERY_S = 2_000, 0.4  # type: ignore[misc]
    settings = read_settings(None)
    run(partial(serve_worker, settings, redis_url(settings), Ends(*map(Path, sys.argv[1:]))))
