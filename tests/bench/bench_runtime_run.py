"""What the runtime's own run costs: the demo with its runs sealed and without, by turns (L1, L4).

    python -m tests.bench.bench_runtime_run [--json] [--rounds 3] [--rows 1000] [--dockets FILE]

Each turn is the demo in a data folder of its own. Its throughput is the rows of the log by the time
from the first docket to the last outcome. Beside it stands what making the records of the whole log
takes in CPU, which a busy machine does not change.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kernel.audit.provenance_steps import provenance_of
from kernel.landscape.runtime.records import digest_of_stretch
from kernel.landscape.runtime.stretches import stretch_between
from kernel.ledger.ledger import LedgerView
from tests.bench.report import figure, machine, note
from workers.environment.ledger_access import ledger_place, open_record
from workers.environment.settings import load_settings


def turn(folder: Path, run_rows: int, dockets: list[str]) -> tuple[float, float, int]:
    """Run the demo once; return rows a second, seconds of CPU of its processes, and its rows."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "workers", "demo", "--exit", "--json", *dockets]
    environment = os.environ | {"ROTULUS_LANDSCAPE_RUN_ROWS": str(run_rows)}
    done = subprocess.run(
        [*command, "--data-dir", str(folder)],
        env=environment,
        capture_output=True,
        check=True,
    )
    document = json.loads(done.stdout)
    seconds = document["seconds"]
    rows = document["record"]["rows"]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return rows / (seconds["ingest"] + seconds["drain"]), cpu_s, rows


def making(view: LedgerView, rows: int) -> float:
    """Make the records of a log, and return the rows for a second of CPU."""
    stretch = stretch_between(view, 1, rows)
    assert stretch is not None
    computed = time.process_time()
    digest_of_stretch(view, stretch)
    return rows / (time.process_time() - computed)


def explaining(view: LedgerView) -> list[float]:
    """Return the milliseconds of CPU for each authority of the log."""
    times = []
    for node in view.nodes_of_kind("ConsolidatedUnderstanding", after=None, limit=50):
        computed = time.process_time()
        provenance_of(view, node["node_id"])
        times.append((time.process_time() - computed) * 1000)
    return times


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--dockets", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    machine(rounds=options.rounds, run_rows=options.rows)
    dockets = [] if options.dockets is None else [str(options.dockets.resolve())]
    with tempfile.TemporaryDirectory() as name:
        speeds: dict[int, list[float]] = {options.rows: [], 0: []}
        computed: dict[int, list[float]] = {options.rows: [], 0: []}
        for number in range(options.rounds):
            # Whoever goes first changes with each round.
            for run_rows in sorted(speeds, reverse=bool(number % 2)):
                folder = Path(name) / f"{number}-{run_rows}"
                speed, cpu_s, rows = turn(folder, run_rows, dockets)
                speeds[run_rows].append(speed)
                computed[run_rows].append(cpu_s)
        bare, sealed = (statistics.median(speeds[each]) for each in (0, options.rows))
        figure("rows of the demo without", bare, "/s")
        figure("rows of the demo, runs sealed", sealed, "/s", ratio=sealed / bare, of="without")
        bare, sealed = (statistics.median(computed[each]) for each in (0, options.rows))
        figure("CPU of the whole demo without", bare, "s")
        figure("CPU of the whole demo, runs sealed", sealed, "s", ratio=sealed / bare, of="without")
        place = ledger_place(load_settings(data_dir=folder))
        with open_record(place) as view:
            figure("rows made into records", making(view, rows), "/s of CPU")
            figure("explain an authority, median", statistics.median(explaining(view)), "ms of CPU")
    note("A gateway spends at most a tenth of its time on seals, however much is recorded.")


if __name__ == "__main__":
    main()
