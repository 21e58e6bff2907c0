"""What recording costs a pipeline: the example of dockets, and its functions without a record.

    python -m tests.bench.bench_pipeline [--json] [--rows 5000] [--rounds 3]

The peer calls the same functions and the same model for the same rows on one thread, counts by
batches of ten and writes the same files, durably once at the end; it records nothing. Both run in
turns. A pipeline that does next to nothing in its functions is measured beside: what the record
costs of a row is all that it does.
"""

import argparse
import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from actors.synthesis.local_model import LocalModel
from kernel.landscape.digest import digest_of
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from tests.bench.report import figure, machine, note
from workers.environment.settings import Settings
from workers.environment.system_host import system_host
from workers.pipelines import CsvSink, JsonLinesSink, dockets
from workers.pipelines.engine.pipeline import Pipeline
from workers.pipelines.engine.runner import PipelineRun
from workers.pipelines.engine.sinks import SinkItem
from workers.pipelines.engine.step import NodeStep, WalkTools
from workers.pipelines.engine.walks import LocalWalks
from workers.pipelines.tools import PipelineModel, walk_tools

BUNDLED = Path(dockets.__file__).with_name("dockets.csv")


def made_larger(path: Path, rows: int) -> None:
    """Write so many entries, those of the bundled file again and again."""
    with BUNDLED.open(encoding="utf-8") as file:
        head, *entries = file.readlines()
    path.write_text(head + "".join(itertools.islice(itertools.cycle(entries), rows)))


def plain_pipeline(rows: int) -> Pipeline:
    """A pipeline whose functions do next to nothing."""
    pipeline = Pipeline("plain")

    @pipeline.source
    def numbers() -> Iterator[dict[str, int]]:
        for number in range(rows):
            yield {"n": number}

    @pipeline.transform
    def double(row: dict[str, int]) -> dict[str, int]:
        return {"n": row["n"] * 2}

    pipeline.sink(JsonLinesSink("plain.jsonl"), name="out", after=double)
    return pipeline


def recorded(pipeline: Pipeline, folder: Path) -> int:
    """Run a pipeline on a new ledger, and return how many records it made."""
    ledger = Ledger.create(SqliteStore(folder / "ledger.db"), system_host())

    async def run() -> None:
        tools = walk_tools(Settings(), LocalModel())
        run = PipelineRun(pipeline, ledger, tools, LocalWalks(pipeline.graph, tools, 4))
        run.begin("run")
        await run.run()

    anyio.run(run)
    with ledger.view() as view:
        count = digest_of(view, "run").record_count
    ledger.close()
    return count


def unrecorded(tools: WalkTools) -> None:
    """Call the functions of the example for the same rows, and write the same files."""
    columns = dockets.columns
    files: dict[str, list[Any]] = {"sure": [], "unsure": [], "kinds": []}

    def work() -> None:
        waiting = []
        for row in dockets.entries():
            step = NodeStep("run", "token", 0, tools)
            classified = dockets.classify(dockets.parse(row), step)
            for way in dockets.confidence(classified):
                if way != "count":
                    files[way].append(classified)
                    continue
                waiting.append(classified)
                if len(waiting) == 10:
                    files["kinds"].append(dockets.count_kinds(waiting))
                    waiting = []
        for name in ("sure", "unsure"):
            items = [SinkItem("", row) for row in files[name]]
            CsvSink(f"peer-{name}.csv", columns).write(items, 0)
        JsonLinesSink("peer-kinds.jsonl").write([SinkItem("", row) for row in files["kinds"]], 0)

    async def on_a_thread() -> None:
        await anyio.to_thread.run_sync(work)

    anyio.run(on_a_thread)


def timed(action: Callable[[], Any]) -> tuple[float, float, Any]:
    """Return the seconds that an action took, those of the processor, and its result."""
    started, computed = time.perf_counter(), time.process_time()
    result = action()
    return time.perf_counter() - started, time.process_time() - computed, result


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = options.rows
    machine(rows=rows, rounds=options.rounds)
    tools = WalkTools(system_host().now_us, time.sleep, PipelineModel(LocalModel(), 60))
    taken: dict[str, list[tuple[float, float]]] = {"example": [], "peer": [], "plain": []}
    counts = {}
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            made_larger(Path("entries.csv"), rows)
            dockets.pipeline.config["source"] = "entries.csv"
            for name, pipeline in (("example", dockets.pipeline), ("plain", plain_pipeline(rows))):
                Path(name).mkdir()
                took, cpu, count = timed(lambda p=pipeline, n=name: recorded(p, Path(n)))
                taken[name].append((took, cpu))
                counts[name] = count
            taken["peer"].append(timed(lambda: unrecorded(tools))[:2])
            os.chdir("/")
    medians = {
        name: [statistics.median(each) for each in zip(*times, strict=True)]
        for name, times in taken.items()
    }
    (example, example_cpu), (peer, peer_cpu) = medians["example"], medians["peer"]
    figure("rows of the example", rows / example, "/s", ratio=peer / example, of="unrecorded")
    figure("rows of the example for a second of CPU", rows / example_cpu, "/s")
    figure("rows without a record", rows / peer, "/s")
    figure("rows without a record for a second of CPU", rows / peer_cpu, "/s")
    figure("CPU of the example", example_cpu / peer_cpu, "x", of="unrecorded")
    figure("records of a row of the example", counts["example"] / rows, "")
    figure("records recorded by the example", counts["example"] / example, "/s")
    plain, plain_cpu = medians["plain"]
    figure("rows that do nothing", rows / plain, "/s")
    figure("rows that do nothing for a second of CPU", rows / plain_cpu, "/s")
    figure("records of a row that does nothing", counts["plain"] / rows, "")
    note("The peer uses no other thread, syncs its files once, and keeps all rows in memory.")


if __name__ == "__main__":
    main()
