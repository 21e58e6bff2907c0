"""A run of the example that ends its own process at a step of what it writes."""

import itertools
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import anyio
from pydantic import SecretStr

from actors.synthesis.local_model import LocalModel
from kernel.ledger.ledger import Ledger
from tests.system.faulty_store import CountedSteps, FaultyStore
from workers.environment.ledger_access import open_store
from workers.environment.system_host import system_host
from workers.pipelines import dockets
from workers.pipelines.engine.runner import PipelineRun, RunEnd
from workers.pipelines.engine.step import WalkTools
from workers.pipelines.engine.walks import LocalWalks
from workers.pipelines.tools import PipelineModel

RUN = "run-1"
ENTRIES = 40
COMMIT_ROWS = 8


def small_source(folder: Path) -> Path:
    """Write the first entries of the bundled sample, one of which says nothing."""
    bundled = Path(dockets.__file__).with_name("dockets.csv")
    with bundled.open(encoding="utf-8") as file:
        lines = [*itertools.islice(file, ENTRIES), '24-1,ca2,2024-01-02,1," "\n']
    path = folder / "entries.csv"
    path.write_text("".join(lines), encoding="utf-8")
    return path


def run_here(folder: Path, steps: CountedSteps, url: str = "", *, resume: bool = False) -> RunEnd:
    """Run the example in a folder, or go on with its run; each write of a file is two steps.

    The ledger is a file of the folder, or at the URL of a database.
    """
    os.chdir(folder)
    dockets.pipeline.config["source"] = str(folder / "entries.csv")
    dockets.pipeline.commit_rows = COMMIT_ROWS
    store = open_store(SecretStr(url) if url else folder / "ledger.db")
    ledger = Ledger.create(FaultyStore(store, steps), system_host())
    tools = WalkTools(ledger.host.now_us, time.sleep, PipelineModel(LocalModel(), 60))
    walks = LocalWalks(dockets.pipeline.graph, tools, concurrency=2)
    run = PipelineRun(dockets.pipeline, ledger, tools, walks)
    with closing(ledger), halved_writes(steps):
        (run.resume if resume else run.begin)(RUN)
        return anyio.run(run.run)


def run_and_die(_: Any, folder: Path, kill_at: int, url: str = "") -> None:
    """Run it in this process, which is killed at a step."""
    run_here(folder, CountedSteps(kill_at), url)


@contextmanager
def halved_writes(steps: CountedSteps) -> Iterator[None]:
    """Make each write of a file two steps, one after its half, within the block."""
    written = os.pwrite
    os.pwrite = _halved(written, steps)
    try:
        yield
    finally:
        os.pwrite = written


def _halved(pwrite: Callable[..., int], steps: CountedSteps) -> Callable[..., int]:
    """Write a half, take a step, then write all, and take another."""

    def write(fd: int, content: Any, position: int) -> int:
        pwrite(fd, content[: len(content) // 2], position)
        steps.step()
        count = pwrite(fd, content, position)
        steps.step()
        return count

    return write
