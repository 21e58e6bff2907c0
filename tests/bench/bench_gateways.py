"""Committers of one PostgreSQL ledger, each a process: 1, 2, 4 and 8 that share the same load.

    python -m tests.bench.bench_gateways [--json]

The server waits for the disk at each COMMIT. Each process has the submitters of
`tests.bench.bench_kernel` and its share of the shards; figures are the best of a few rounds in
turn.
"""

import time
from multiprocessing.connection import Connection

import anyio

from actors.commit.group_committer import Committer
from actors.commit.units import IntentUnit
from actors.orchestrator.orchestrator import Orchestrator
from actors.sharding import SHARDS_DEFAULT
from actors.sharding.assignment import shard_of
from actors.sharding.held_shards import HeldShards
from kernel.ledger.ledger import Ledger
from kernel.ledger.postgres.store import PostgresStore
from kernel.ledger.shards import create_shards, shards_of, take_shards
from kernel.model.result import SubmissionResult
from kernel.transaction.kernel import Kernel
from tests.bench.mix import intent_of
from tests.bench.report import figure, machine
from tests.forked import forked_together
from tests.postgres import own_postgres
from workers.environment.memory import settle_memory
from workers.environment.system_host import system_host

PROCESSES = (1, 2, 4, 8)
SUBMITTERS = 100
EACH = 40
ROUNDS = 3


async def _submit(committer: Committer, held: HeldShards, callers: list[int]) -> None:
    async def call(caller: int) -> None:
        fence = held.fence_for(f"s-{caller}")
        for number in range(EACH):
            unit = IntentUnit(intent_of(caller, number), "bench")
            (result,) = await committer.commit([unit], fence)
            if not isinstance(result, SubmissionResult):
                raise TypeError(f"refused: {result}")

    async with anyio.create_task_group() as process:
        process.start_soon(committer.run)
        async with anyio.create_task_group() as tasks:
            for caller in callers:
                tasks.start_soon(call, caller)
        process.cancel_scope.cancel()


def submit(connection: Connection, url: str, number: int, of: int) -> None:
    """Be one gateway of several: say that it is ready, wait for a word, submit, tell the times."""
    settle_memory()
    host = system_host()
    ledger = Ledger.create(PostgresStore(url), host)
    held = HeldShards(SHARDS_DEFAULT)
    with ledger.transaction() as transaction:
        share = [shard for shard in shards_of(transaction) if shard.shard % of == number]
        held.add(take_shards(transaction, f"bench-{number}", share))
    shards = {caller: shard_of(f"s-{caller}", SHARDS_DEFAULT) for caller in range(10 * SUBMITTERS)}
    own = [caller for caller, shard in shards.items() if shard in held.held]
    callers = own[: SUBMITTERS // of]
    connection.send("ready")
    connection.recv()
    cpu_s = time.process_time()
    anyio.run(_submit, Committer(ledger, Kernel(), Orchestrator(host)), held, callers)
    connection.send(time.process_time() - cpu_s)
    ledger.close()


def measure(url: str, processes: int) -> tuple[float, float]:
    """Return the envelopes a second of all processes, and the CPU microseconds of each."""
    ledger = Ledger.create(PostgresStore(url), system_host())
    with ledger.transaction() as transaction:
        create_shards(transaction, SHARDS_DEFAULT)
    ledger.close()
    arguments = ((url, number, processes) for number in range(processes))
    with forked_together(submit, *arguments) as running:
        began_s = time.perf_counter()
        for _, connection in running:
            connection.send("go")
        cpu_s = sum(connection.recv() for _, connection in running)
        seconds = time.perf_counter() - began_s
    count = SUBMITTERS * EACH
    return count / seconds, cpu_s / count * 1e6


def main() -> None:
    machine(submitters=SUBMITTERS, envelopes=SUBMITTERS * EACH, rounds=ROUNDS)
    best: dict[int, tuple[float, float]] = {}
    with own_postgres() as server:
        server.run("ALTER SYSTEM SET fsync = on")
        server.run("SELECT pg_reload_conf()")
        for _ in range(ROUNDS):
            for processes in PROCESSES:
                url = server.new_database()
                measured = measure(url, processes)
                best[processes] = max(measured, best.get(processes, (0.0, 0.0)))
                server.drop(url)
    single_rate = best[1][0]
    for processes, (rate, cpu_us) in best.items():
        name = f"envelopes, {processes} committer{'s' * (processes > 1)}"
        figure(name, rate, "/s", ratio=rate / single_rate, of="one committer")
        figure(f"{name}, CPU time each", cpu_us, "us")


if __name__ == "__main__":
    main()
