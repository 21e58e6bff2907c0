"""Eliminations and envelopes over HTTP, durable, from a hundred clients at once.

    python -m tests.bench.bench_http [--json]

A gateway process as its operator starts it, on SQLite with ``synchronous = FULL`` in the temporary
directory (TMPDIR) and on the embedded server; the clients are in this process and keep their
connections alive. The peer is the same server with a FastAPI route that validates the same body
and does nothing, in a process of its own, in turn with it. Each figure is the best round's.
"""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import orjson

from queues.embedded.server import EmbeddedRedis, find_server
from tests.bench.http_load import drive, request
from tests.bench.mix import intent_of
from tests.bench.report import figure, machine
from tests.ports import free_port
from tests.process_environment import process_environment

CLIENTS = 100
ROUNDS = 3
ELIMINATIONS_EACH = 60
ENVELOPES_EACH = 20
STREAMS = 8
LINES = 250
"""Intents of a stream: all streams of a round have as many as its envelopes."""

HYPOTHESES = [f"hypothesis-{number:04d}" for number in range(1_000)]
ONTOLOGY = {
    "hypothesis_space_id": "bench",
    "hypothesis_version": "v1",
    "causal_graph_ref": "graphstore://bench",
    "causal_graph_version": "v1",
}
JUSTIFICATION = {"probe": "check_replication_lag", "outcome": "high", "confidence": 0.93}
PROVED_FIRST = 2_000_000
"""The first caller of those that ask for proofs."""

READY_S = 60.0
BARE = "a bare FastAPI route that validates the body"


def session_id(turn: int, client: int) -> str:
    return str(UUID(int=turn * CLIENTS + client, version=4))


def declaration(turn: int, client: int) -> bytes:
    body = {
        "session_id": session_id(turn, client),
        "ontology": ONTOLOGY,
        "hypotheses": HYPOTHESES,
    }
    return request("POST", "/v1/sessions?survivors=0", body)


def elimination(turn: int, client: int, number: int) -> bytes:
    body = {
        "source_id": "adapter://bench",
        "observation_id": f"observation-{number}",
        "eliminated": [HYPOTHESES[number]],
        "justification": JUSTIFICATION,
    }
    path = f"/v1/sessions/{session_id(turn, client)}/eliminate"
    return request("POST", path, body, prefer="return=minimal")


def operation(turn: int, client: int, number: int, first: int = 0, **headers: str) -> bytes:
    """Return an operation of a client, whose callers are counted from `first`."""
    intent = intent_of(first + turn * CLIENTS + client, number).model_dump(mode="json")
    path = f"/v1/sessions/{session_id(turn, client)}/operations"
    return request("POST", path, {"intents": [intent]}, **headers)


def operations(turn: int, *, with_proof: bool) -> list[list[bytes]]:
    """Return the operations of each client."""
    first, headers = (PROVED_FIRST, {"prefer": "proof"}) if with_proof else (0, {})
    return [
        [operation(turn, client, number, first, **headers) for number in range(ENVELOPES_EACH)]
        for client in range(CLIENTS)
    ]


def stream(turn: int, client: int) -> bytes:
    """Return a stream of a caller's own, whose session is one of the turn's."""
    caller = 1_000_000 + turn * STREAMS + client
    intents = [intent_of(caller, number).model_dump(mode="json") for number in range(LINES)]
    path = f"/v1/sessions/{session_id(turn, client)}/operations:bulk"
    return request("POST", path, b"\n".join(map(orjson.dumps, intents)))


@contextmanager
def serving(port: int, *arguments: str, **environment: str) -> Iterator[int]:
    """Run a server until the block ends; its pid."""
    inherited = process_environment()
    process = subprocess.Popen([sys.executable, "-m", *arguments], env=inherited | environment)
    try:
        deadline_s = time.monotonic() + READY_S
        while True:
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=1):
                    break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline_s:
                    raise RuntimeError(f"{arguments} does not serve") from None
                time.sleep(0.05)
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def cpu_s(pid: int) -> float:
    """CPU time of a process, which other work on the machine changes least."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class MeasuredDoor:
    """The best of the rounds of one door."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.rate = self.cpu_us = 0.0
        self.latencies_ms: list[float] = []

    def run(self, port: int, plans: list[list[bytes]], each: int = 1) -> None:
        """Send requests, of which each is for so many decisions."""
        before_s = cpu_s(self.pid)
        seconds, latencies_ms = drive(port, plans)
        decisions = len(latencies_ms) * each
        rate = decisions / seconds
        if rate > self.rate:
            self.rate, self.latencies_ms = rate, sorted(latencies_ms)
            self.cpu_us = (cpu_s(self.pid) - before_s) / decisions * 1e6

    @property
    def p99_ms(self) -> float:
        return self.latencies_ms[len(self.latencies_ms) * 99 // 100]

    def show(self, name: str, peer: "MeasuredDoor | None" = None, of: str = BARE) -> None:
        rates, cpus, latencies = (
            (None, None, None)
            if peer is None
            else (self.rate / peer.rate, self.cpu_us / peer.cpu_us, self.p99_ms / peer.p99_ms)
        )
        figure(name, self.rate, "/s", ratio=rates, of=of)
        figure(f"{name}, server's CPU time each", self.cpu_us, "us", ratio=cpus, of=of)
        figure(f"{name}, latency p50", self.latencies_ms[len(self.latencies_ms) // 2], "ms")
        figure(f"{name}, latency p99", self.p99_ms, "ms", ratio=latencies, of=of)


def measure(port: int, pid: int, bare_port: int, bare_pid: int) -> None:
    clients = range(CLIENTS)
    eliminations, envelopes, bare = MeasuredDoor(pid), MeasuredDoor(pid), MeasuredDoor(bare_pid)
    proved, streamed, offered = MeasuredDoor(pid), MeasuredDoor(pid), MeasuredDoor(bare_pid)
    for turn in range(ROUNDS):
        drive(port, [[declaration(turn, client)] for client in clients])
        struck = [
            [elimination(turn, client, number) for number in range(ELIMINATIONS_EACH)]
            for client in clients
        ]
        eliminations.run(port, struck)
        bare.run(bare_port, struck)
        # Whoever goes first changes with each turn.
        for with_proof in (False, True) if turn % 2 else (True, False):
            measured = proved if with_proof else envelopes
            measured.run(port, operations(turn, with_proof=with_proof))
        streams = [[stream(turn, client)] for client in range(STREAMS)]
        streamed.run(port, streams, LINES)
        offered.run(bare_port, streams, LINES)
    bare.show("bare FastAPI route")
    eliminations.show(f"eliminations over HTTP, {CLIENTS} clients", bare)
    envelopes.show(f"envelopes over HTTP, {CLIENTS} clients")
    proved.show(f"envelopes and their proofs, {CLIENTS} clients", envelopes, "without a proof")
    streamed.show(f"envelopes in streams, {STREAMS} clients")
    offered.show(f"lines of streams, read and answered alone, {STREAMS} clients")


def main() -> None:
    machine(synchronous="FULL", clients=CLIENTS, rounds=ROUNDS)
    port, bare_port = free_port(), free_port()
    with tempfile.TemporaryDirectory() as folder:
        redis = EmbeddedRedis(Path(folder) / "redis", find_server())
        redis.start()
        try:
            settings = {
                "ROTULUS_DATA_DIR": str(Path(folder) / "data"),
                "ROTULUS_PORT": str(port),
                "ROTULUS_REDIS_URL": redis.url,
                "ROTULUS_LOG_LEVEL": "warning",
            }
            with (
                serving(port, "workers", "gateway", **settings) as pid,
                serving(bare_port, "tests.bench.bare_route", str(bare_port)) as bare_pid,
            ):
                measure(port, pid, bare_port, bare_pid)
        finally:
            redis.stop()


if __name__ == "__main__":
    main()
