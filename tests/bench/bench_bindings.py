"""What a source event costs from its operation to its manifest, through a running system.

    python -m tests.bench.bench_bindings [--json] [--sizes N ...]

A gateway, a worker and a Redis on an SQLite ledger. Each docket entry matches five bindings, each
of which makes it a candidate of another corpus: one operation of its own, the record of the fire,
and with the fifth outcome the manifest of the cycle. There are as many active bindings as a size
says, of which only these five match. Entries are sent while the worker evaluates; an entry is done
when its fifth binding is. Sizes are measured one after another on ledgers of their own; the ratio
is that to the first size.
"""

import argparse
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import orjson
from prometheus_client.parser import text_string_to_metric_families

from queues.embedded.server import EmbeddedRedis, find_server
from tests import loopback
from tests.bench.bench_http import HYPOTHESES, ONTOLOGY, cpu_s
from tests.bench.http_load import drive, request
from tests.bench.report import figure, machine, note
from tests.forked import ForkedProgram
from tests.ports import free_port
from tests.process_environment import process_environment
from tests.system.tree_run import wait_for

SIZES = (100, 10_000, 100_000)
MATCHES = 5
CLIENTS = 20
ENTRIES = 1_000
WARM_ENTRIES = 100
A_CALL = 64
READY_S = 60.0
DONE_S = 600.0
TOKEN = "bench-" + "0" * 16


class Running:
    """A gateway and a worker, and what they have used."""

    def __init__(self, folder: Path, redis: EmbeddedRedis) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._redis = redis
        self._ledger = folder / "data" / "ledger.db"
        inherited = process_environment()
        environment = inherited | {
            "ROTULUS_DATA_DIR": str(folder / "data"),
            "ROTULUS_REDIS_URL": redis.url,
            "ROTULUS_PORT": str(self.port),
            "ROTULUS_GATEWAY_URL": self.url,
            "ROTULUS_WORKER_TOKEN": TOKEN,
            "ROTULUS_LOG_LEVEL": "warning",
        }
        self.gateway = ForkedProgram("workers", ["gateway"], environment, folder / "gateway.log")
        wait_for("the gateway to be ready", self._is_ready, READY_S)
        self.worker = ForkedProgram("workers", ["worker"], environment, folder / "worker.log")

    def stop(self) -> None:
        """End both."""
        for process in (self.worker, self.gateway):
            process.terminate()
            process.wait(30)

    def cpu_s(self) -> dict[str, float]:
        """Return the CPU time of each process so far."""
        assert self._redis.pid is not None
        pids = {"gateway": self.gateway.pid, "worker": self.worker.pid, "Redis": self._redis.pid}
        return {name: cpu_s(pid) for name, pid in pids.items()}

    def evaluated(self) -> int:
        """Return how many evaluations have their outcome."""
        with closing(sqlite3.connect(f"{self._ledger.as_uri()}?mode=ro", uri=True)) as database:
            [[number]] = database.execute("SELECT count(*) FROM outbox_outcomes")
        return int(number)

    def commits(self) -> tuple[float, float]:
        """Return how many transactions there were, and how long all of them took in seconds."""
        text = loopback.get(f"{self.url}/metrics", timeout=60).text
        samples = {
            sample.name: sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name.startswith("rotulus_commit_duration_seconds_")
            and "le" not in sample.labels
        }
        name = "rotulus_commit_duration_seconds_"
        return samples.get(f"{name}count", 0.0), samples.get(f"{name}sum", 0.0)

    def _is_ready(self) -> bool:
        try:
            return loopback.get(f"{self.url}/readyz", timeout=5).is_success
        except httpx.TransportError:
            return False


@contextmanager
def running() -> Iterator[Running]:
    """Start everything in a folder of its own, and stop it at the end."""
    with tempfile.TemporaryDirectory(prefix="rotulus-bench-") as name:
        redis = EmbeddedRedis(Path(name), find_server())
        redis.start()
        try:
            system = Running(Path(name), redis)
            try:
                yield system
            finally:
                system.stop()
        finally:
            redis.stop()


def bindings(size: int) -> Iterator[dict[str, Any]]:
    """Yield the intents that create bindings: five for docket entries, the rest for other cases."""
    for number in range(size):
        selector = (
            {"kind": "source_kind", "value": "docket"}
            if number < MATCHES
            else {"kind": "source_id", "value": f"case-{number}"}
        )
        yield {
            "intent_kind": "source_binding_create",
            "intent_key": f"binding-{number}",
            "binding_id": f"binding-{number}",
            "selector_list": {"include": [selector]},
            "target_kind": "corpus_document_membership",
            "corpus_id": f"corpus:{number % MATCHES}",
        }


def session_id(client: int) -> str:
    return str(UUID(int=client + 1, version=4))


def entry(client: int, number: int, turn: str) -> bytes:
    """Return the request that brings a docket entry."""
    name = f"docket-entry:{turn}:{client}:{number}"
    intent = {
        "intent_kind": "create_source",
        "intent_key": name,
        "node_id": name,
        "corpus_id": "corpus",
        "content_kind": "docket_entry",
        "text": "ORDER granting the Motion for Relief from Stay (Related Doc 4).",
        "source_kind": "docket",
        "source_id": f"bench-{client}",
        "source_path": f"azb/{client}/{number}",
    }
    path = f"/v1/sessions/{session_id(client)}/operations"
    return request("POST", path, {"intents": [intent]})


def create(system: Running, size: int) -> float:
    """Create bindings, as many in a call as it may have; return the seconds that it took."""
    intents = list(bindings(size))
    pages = [intents[first : first + A_CALL] for first in range(0, size, A_CALL)]
    calls = [request("POST", "/v1/bindings", orjson.dumps({"intents": page})) for page in pages]
    seconds, _ = drive(system.port, [calls])
    return seconds


def bring(system: Running, entries: int, turn: str) -> tuple[float, float, list[float]]:
    """Bring entries; return seconds until they are taken and until they are done, and latencies."""
    each = entries // CLIENTS
    plans = [[entry(client, number, turn) for number in range(each)] for client in range(CLIENTS)]
    until = system.evaluated() + each * CLIENTS * MATCHES
    began_s = time.perf_counter()
    taken_s, latencies_ms = drive(system.port, plans)

    wait_for("every binding to be evaluated", lambda: system.evaluated() >= until, DONE_S)
    return taken_s, time.perf_counter() - began_s, sorted(latencies_ms)


def measure(size: int) -> dict[str, float]:
    """Return the figures of one size."""
    with running() as system:
        declarations = [
            [
                request(
                    "POST",
                    "/v1/sessions?survivors=0",
                    {
                        "session_id": session_id(client),
                        "ontology": ONTOLOGY,
                        "hypotheses": HYPOTHESES,
                    },
                )
            ]
            for client in range(CLIENTS)
        ]
        drive(system.port, declarations)
        created_s = create(system, size)
        bring(system, WARM_ENTRIES, "warm")
        cpu_before, commits_before = system.cpu_s(), system.commits()
        taken_s, done_s, latencies_ms = bring(system, ENTRIES, "measured")
        cpu_after, commits_after = system.cpu_s(), system.commits()
    commits, commit_s = (
        after - before for before, after in zip(commits_before, commits_after, strict=True)
    )
    return {
        "bindings created each s": size / created_s,
        "taken each s": ENTRIES / taken_s,
        "done each s": ENTRIES / done_s,
        "p50 ms": latencies_ms[len(latencies_ms) // 2],
        "p99 ms": latencies_ms[len(latencies_ms) * 99 // 100],
        "commits": commits / ENTRIES,
        "commit ms": commit_s / commits * 1000,
        **{name: (cpu_after[name] - cpu_before[name]) / ENTRIES * 1e3 for name in cpu_after},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Entries with five bindings, to the manifest.")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    sizes = parser.parse_args().sizes
    machine(entries=ENTRIES, clients=CLIENTS, matching=MATCHES)
    note("CPU time is each entry's, with its five evaluations and its manifest.")
    first: dict[str, float] = {}
    for size in sizes:
        measured = measure(size)
        first = first or measured
        units = {"commits": "each", "commit ms": "ms", "p50 ms": "ms", "p99 ms": "ms"}
        for name, value in measured.items():
            unit = units.get(name, "/s" if name.endswith("each s") else "ms CPU")
            ratio = None if measured is first else value / first[name]
            figure(f"{size:,} bindings: {name}", value, unit, ratio=ratio, of=f"{sizes[0]:,}")


if __name__ == "__main__":
    main()
