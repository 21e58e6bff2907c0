"""A cascade through a running tree: gateway, worker and Redis, as `rotulus up` starts them (§8).

    python -m tests.bench.bench_cascade [--json] [--descendants N] [--shape NAME]

The ledger holds the understandings before the tree starts (`bench_authority.found_ledger`). A claim
changes over HTTP; the time ends when every recompute that this asks for has its outcome. Beside it
the CPU time of each process, and that of gateway and worker for each recompute.
"""

import argparse
import os
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import httpx

from kernel.authority.requests import AUTHORITY_QUEUE
from tests.bench.bench_authority import BUDGET_S, SHAPES, found_ledger
from tests.bench.report import figure, machine
from tests.system.gateways import ONTOLOGY
from tests.system.tree_run import TreeRun, running

POLL_S = 0.2
STUCK_S = 60.0
"""Without an outcome for so long, the bench gives up."""

_DONE = (
    "SELECT count(*) FROM outbox_outcomes JOIN outbox USING (request_id) "
    "WHERE queue = ? AND outcome = 'completed'"
)
_OPERATIONS = (
    "SELECT count(*) FROM kernel_event_log WHERE semantic_intent = 'recalculate_authority'"
)
_TICKS_S = os.sysconf("SC_CLK_TCK")


def change_the_claim(gateway: str) -> None:
    session_id = str(uuid4())
    change = {
        "intent_kind": "field_adapt",
        "intent_key": "k",
        "node_id": "claim",
        "fields": {"authority": 0.3},
    }
    with httpx.Client(base_url=gateway, timeout=30, trust_env=False) as http:
        session = {"session_id": session_id, "ontology": ONTOLOGY, "hypotheses": ["a", "b"]}
        http.post("/v1/sessions", json=session).raise_for_status()
        path = f"/v1/sessions/{session_id}/operations"
        http.post(path, json={"intents": [change]}).raise_for_status()


def cpu_seconds(run: TreeRun) -> dict[str, float]:
    """CPU time so far of each process of the tree."""
    found_s = {}
    for pid, role in run.members().items():
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        found_s[role] = (int(fields[11]) + int(fields[12])) / _TICKS_S
    return found_s


def wait_until_done(path: Path, count: int) -> None:
    done, moved_at_s = 0, time.monotonic()
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as db:
        while done < count:
            time.sleep(POLL_S)
            [now] = db.execute(_DONE, (AUTHORITY_QUEUE,)).fetchone()
            if now > done:
                done, moved_at_s = now, time.monotonic()
            if time.monotonic() - moved_at_s > STUCK_S:
                raise TimeoutError(f"{done} of {count} recomputes")


def operations_that_recorded(path: Path) -> int:
    """How many operations recorded what was recomputed: a page of them each."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as db:
        [count] = db.execute(_OPERATIONS).fetchone()
    return int(count)


def measure(shape: str, count: int) -> None:
    """Print how long a cascade takes through a tree with one worker, and who worked on it."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        data.mkdir(mode=0o700)
        found_ledger(data / "ledger.db", count, SHAPES[shape](count)).close()
        (data / "ledger.db").chmod(0o600)
        with running(data, "up", env={"ROTULUS_LOG_LEVEL": "warning"}) as run:
            gateway = run.wait_until_up()["gateway_url"]
            before = cpu_seconds(run)
            started_s = time.perf_counter()
            change_the_claim(gateway)
            wait_until_done(run.ledger_path, count)
            seconds = time.perf_counter() - started_s
            operations = operations_that_recorded(run.ledger_path)
            used = {role: now - before.get(role, 0) for role, now in cpu_seconds(run).items()}
    name = f"cascade through a tree, {shape}, {count:,} recomputes"
    figure(name, seconds, "s", ratio=seconds / BUDGET_S, of=f"{BUDGET_S} s")
    figure(f"{name}, a second", count / seconds, "/s")
    for role in ("gateway", "worker", "redis"):
        figure(f"{name}: CPU time of the {role}", used[role], "s")
    figure(f"{name}: operations that record them", operations, "")
    cpu_us = (used["gateway"] + used["worker"]) / count * 1e6
    figure(f"{name}: CPU time of gateway and worker, each", cpu_us, "µs")


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--json", action="store_true")
    arguments.add_argument("--descendants", type=int, default=100_000)
    arguments.add_argument("--shape", choices=SHAPES, action="append")
    options = arguments.parse_args()
    machine(workers=1, synchronous="FULL")
    for shape in options.shape or SHAPES:
        measure(shape, options.descendants)


if __name__ == "__main__":
    main()
