"""What the parts of a fleet cost for a request of each kind, and how well a model says so.

    python -m tests.bench.bench_fleet [--json] [--sizes N ...]

Fleets of 1, 2, 4 and 8 gateways, and then as many workers, on one PostgreSQL that waits for its
disk and one Redis. Of each part (gateways, workers, Redis, the database with its backends) the CPU
time is read from /proc. `tests.bench.fleet_model` fits the model on the fleet of 1 (what is
forwarded: on that of 2) and the page `deploy/sizing.md` explains it; each later fleet is held
against it. Clients are in this process and ask the gateway that owns a session, but for what is
to be forwarded; the rate is what was left of the machine for the fleet beside them.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import UUID

import httpx
import psycopg
from pydantic import SecretStr

from actors.sharding import SHARDS_DEFAULT
from actors.sharding.assignment import shard_of
from kernel.ledger.ledger import Ledger
from kernel.work.contents import BINDING_QUEUE
from queues.embedded.server import EmbeddedRedis, find_server
from tests import loopback
from tests.bench.bench_http import HYPOTHESES, JUSTIFICATION, ONTOLOGY, cpu_s
from tests.bench.fleet_model import PARTS, Idle, Model, Use, fit
from tests.bench.http_load import drive_all, request
from tests.bench.mix import intent_of
from tests.bench.report import figure, machine, note
from tests.forked import ForkedProgram
from tests.ports import free_ports
from tests.postgres import OwnPostgres, own_postgres
from tests.process_environment import process_environment
from tests.system.tree_run import wait_for
from workers.environment.ledger_access import open_store
from workers.environment.system_host import system_host

SIZES = (1, 2, 4, 8)
FEW, MANY = 4, 96
ELIMINATIONS_EACH, OPERATIONS_EACH = 20, 10
FEW_EACH = 50
BINDINGS, BINDINGS_A_CALL = 1_000, 100
IDLE_S = 10.0
READY_S = 90.0
TOKEN = "bench-" + "0" * 16
# Every row names the transaction that wrote it.
_OF_EVENTS = "SELECT count(DISTINCT xmin::text) FROM belief_events"
_OF_LOG = "SELECT count(DISTINCT xmin::text) FROM kernel_event_log"
_OF_OUTCOMES = "SELECT count(DISTINCT xmin::text) FROM outbox_outcomes"
COMMITS = {
    "elimination": _OF_EVENTS,
    "envelope": _OF_LOG,
    "forwarded envelope": _OF_LOG,
    "recompute": _OF_OUTCOMES,
    "binding": _OF_OUTCOMES,
}
"""By kind of request, what counts the transactions that wrote some."""


class Fleet:
    """The processes of one size, and the servers that they have to themselves."""

    def __init__(self, folder: Path, postgres: OwnPostgres, redis: EmbeddedRedis) -> None:
        self._folder, self._postgres, self._redis = folder, postgres, redis
        self.url = postgres.new_database()
        Ledger.create(open_store(SecretStr(self.url)), system_host()).close()
        self.database = psycopg.connect(self.url, autocommit=True)
        self.ports: dict[str, int] = {}
        self._gateways: list[ForkedProgram] = []
        self._workers: list[ForkedProgram] = []
        self._turn = 0

    def start_gateways(self, count: int) -> None:
        """Start them, and wait until they share the shards."""
        self.ports = {f"g{number}": port for number, port in enumerate(free_ports(count))}
        for name, port in self.ports.items():
            settings = {"ROTULUS_PORT": str(port), "ROTULUS_GATEWAY_ID": name}
            self._gateways.append(self._start("workers", ["gateway"], name, settings))
        wait_for("the gateways to share the shards", self._is_shared, READY_S)

    def start_workers(self, count: int) -> None:
        """Start workers, each at a gateway of its own."""
        ports = list(self.ports.values())
        for number in range(count):
            gateway = f"http://127.0.0.1:{ports[number % len(ports)]}"
            settings = {"ROTULUS_GATEWAY_URL": gateway}
            self._workers.append(
                self._start("tests.chaos.worker_process", [], f"w{number}", settings)
            )

    def stop(self) -> None:
        """End everything that was started here."""
        for process in (*self._workers, *self._gateways):
            process.terminate()
        for process in (*self._workers, *self._gateways):
            process.wait(30)
        self.database.close()
        self._postgres.drop(self.url)

    def cpu_s(self) -> dict[str, float]:
        """Return the CPU time of each part so far."""
        assert self._redis.pid is not None
        return {
            "gateways": sum(cpu_s(process.pid) for process in self._gateways),
            "workers": sum(cpu_s(process.pid) for process in self._workers),
            "redis": cpu_s(self._redis.pid),
            "database": self._postgres.cpu_s(),
        }

    def counted(self, query: str) -> int:
        """Return the number that a query answers with."""
        [[number]] = self.database.execute(query).fetchall()  # type: ignore[arg-type]
        return int(number)

    def new_turn(self) -> int:
        """Return a number for sessions that nobody has used yet."""
        self._turn += 1
        return self._turn

    def port_of(self, session: str, *, is_owner: bool) -> int:
        """Return the port of the gateway that owns a session, or of another one."""
        names = list(self.ports)
        owner = names.index(self._owners()[shard_of(session, SHARDS_DEFAULT)])
        return self.ports[names[owner if is_owner else (owner + 1) % len(names)]]

    def _owners(self) -> dict[int, str]:
        return dict(self.database.execute("SELECT shard, owner FROM shard_epochs").fetchall())

    def _is_shared(self) -> bool:
        owners = list(self._owners().values())
        least = SHARDS_DEFAULT // len(self.ports)
        return len(owners) == SHARDS_DEFAULT and all(
            owners.count(name) >= least for name in self.ports
        )

    def _start(
        self, module: str, arguments: Sequence[str], name: str, settings: dict[str, str]
    ) -> ForkedProgram:
        inherited = process_environment()
        environment = {
            "ROTULUS_DATA_DIR": str(self._folder / "data"),
            "ROTULUS_REDIS_URL": self._redis.url,
            "ROTULUS_DATABASE_URL": self.url,
            "ROTULUS_WORKER_TOKEN": TOKEN,
            "ROTULUS_LOG_LEVEL": "warning",
            **settings,
        }
        log = self._folder / f"{name}.log"
        return ForkedProgram(module, arguments, inherited | environment, log)


def _session(turn: int, client: int) -> str:
    return str(UUID(int=turn * 1000 + client, version=4))


def _declare(fleet: Fleet, turn: int, clients: int) -> list[str]:
    sessions = [_session(turn, client) for client in range(clients)]
    bodies = [
        request(
            "POST",
            "/v1/sessions?survivors=0",
            {"session_id": session, "ontology": ONTOLOGY, "hypotheses": HYPOTHESES},
        )
        for session in sessions
    ]
    ports = [fleet.port_of(session, is_owner=True) for session in sessions]
    drive_all(ports, [[body] for body in bodies])
    return sessions


def _elimination(session: str, number: int) -> bytes:
    body = {
        "source_id": "adapter://bench",
        "observation_id": f"observation-{number}",
        "eliminated": [HYPOTHESES[number]],
        "justification": JUSTIFICATION,
    }
    return request("POST", f"/v1/sessions/{session}/eliminate", body, prefer="return=minimal")


def _operation(caller: int) -> Callable[[str, int], bytes]:
    def of(session: str, number: int) -> bytes:
        mine = caller * 1000 + UUID(session).int % 1000
        intent = intent_of(mine, number).model_dump(mode="json")
        return request("POST", f"/v1/sessions/{session}/operations", {"intents": [intent]})

    return of


def _used(fleet: Fleet, kind: str, count: int, work: Callable[[], None]) -> Use:
    """Return what some requests used, and in how many transactions they were written."""
    commits = COMMITS[kind]
    commits_before, before_s, began_s = fleet.counted(commits), fleet.cpu_s(), time.monotonic()
    work()
    seconds, after_s = time.monotonic() - began_s, fleet.cpu_s()
    used_s = {part: after_s[part] - before_s[part] for part in PARTS}
    return Use(kind, count, seconds, fleet.counted(commits) - commits_before, used_s)


def _asked(
    fleet: Fleet,
    kind: str,
    clients: int,
    each: int,
    body: Callable[[str, int], bytes],
    *,
    is_owner: bool = True,
) -> Use:
    sessions = _declare(fleet, fleet.new_turn(), clients)
    ports = [fleet.port_of(session, is_owner=is_owner) for session in sessions]
    plans = [[body(session, number) for number in range(each)] for session in sessions]
    return _used(fleet, kind, clients * each, lambda: drive_all(ports, plans))


def _idle(fleet: Fleet) -> Idle:
    before_s = fleet.cpu_s()
    time.sleep(IDLE_S)
    after_s = fleet.cpu_s()
    return {part: (after_s[part] - before_s[part]) / IDLE_S for part in PARTS}


def _drained(fleet: Fleet) -> None:
    open_requests = "SELECT count(*) FROM outbox WHERE open = 1"
    wait_for("the open requests", lambda: fleet.counted(open_requests) == 0, 300.0)


def _bindings(fleet: Fleet) -> None:
    with httpx.Client(timeout=60, verify=loopback.NO_TLS, trust_env=False) as http:
        ports = list(fleet.ports.values())
        for first in range(0, BINDINGS, BINDINGS_A_CALL):
            bodies = [
                {
                    "request_key": f"b-{number}",
                    "content": {
                        "binding_id": f"b-{number}",
                        "source_event_id": f"e-{number}",
                        "capacity_priority": "background",
                    },
                }
                for number in range(first, first + BINDINGS_A_CALL)
            ]
            port = ports[first // BINDINGS_A_CALL % len(ports)]
            url = f"http://127.0.0.1:{port}/v1/queues/{BINDING_QUEUE}/requests"
            http.post(url, json={"requests": bodies}).raise_for_status()
    _drained(fleet)


def measure(fleet: Fleet, size: int) -> tuple[Idle, Idle, list[Use]]:
    """Return what gateways alone use while they idle, workers beside them, and every kind."""
    fleet.start_gateways(size)
    idle_gateways = _idle(fleet)
    uses = []
    for clients, each in ((FEW, FEW_EACH), (MANY, ELIMINATIONS_EACH)):
        uses.append(_asked(fleet, "elimination", clients, each, _elimination))
    for clients, each in ((FEW, FEW_EACH), (MANY, OPERATIONS_EACH)):
        body = _operation(fleet.new_turn())
        uses.append(_asked(fleet, "envelope", clients, each, body))
    if size > 1:
        for clients, each in ((FEW, FEW_EACH), (MANY, OPERATIONS_EACH)):
            body = _operation(fleet.new_turn())
            use = _asked(fleet, "forwarded envelope", clients, each, body, is_owner=False)
            uses.append(use)
    waiting = fleet.counted("SELECT count(*) FROM outbox WHERE open = 1")

    def drain() -> None:
        fleet.start_workers(size)
        _drained(fleet)

    uses.append(_used(fleet, "recompute", waiting, drain))
    idle_both = _idle(fleet)
    uses.append(_used(fleet, "binding", BINDINGS, lambda: _bindings(fleet)))
    return idle_gateways, idle_both, uses


@contextmanager
def servers() -> Iterator[tuple[Path, OwnPostgres, EmbeddedRedis]]:
    """Hold a PostgreSQL that waits for its disk, and a Redis."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        postgres = stack.enter_context(own_postgres())
        postgres.run("ALTER SYSTEM SET fsync = on")
        postgres.run("ALTER SYSTEM SET max_connections = 200")
        postgres.stop()
        postgres.start()
        redis = EmbeddedRedis(folder / "redis", find_server())
        redis.start()
        stack.callback(redis.stop)
        yield folder, postgres, redis


def _show_idle(size: int, idle: Idle, both: Idle) -> None:
    for part in PARTS:
        alone, beside = idle[part] / size * 1000, (both[part] - idle[part]) / size * 1000
        figure(f"idle, {size}: {part}, for each gateway", alone, "ms/s")
        figure(f"idle, {size}: {part}, for each worker beside it", beside, "ms/s")


def _show(size: int, use: Use, model: Model | None) -> None:
    name = f"{use.kind}, {size} gateways, {use.requests / use.commits:.1f} a commit"
    figure(f"{name}: a second, on {use.cores:.2f} cores", use.rate, "/s")
    measured_us = {part: use.each_us(part) for part in PARTS}
    said_us = {
        part: model.cpu_s(part, use, size) / use.requests * 1e6 if model else 0.0 for part in PARTS
    }
    for part in PARTS:
        _show_each(f"{name}: {part}", measured_us[part], said_us[part])
    _show_each(f"{name}: all", sum(measured_us.values()), sum(said_us.values()))


def _show_each(name: str, measured_us: float, said_us: float) -> None:
    ratio = said_us / measured_us if said_us and measured_us else None
    figure(f"{name}, CPU time each", measured_us, "us", ratio=ratio, of="measured, by the model")


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--json", action="store_true")
    arguments.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    sizes = arguments.parse_args().sizes
    machine(sizes=sizes, fsync="on", few=FEW, many=MANY)
    models: dict[str, Model] = {}
    with servers() as (folder, postgres, redis):
        for size in sizes:
            fleet = Fleet(folder, postgres, redis)
            try:
                idle, both, uses = measure(fleet, size)
            finally:
                fleet.stop()
            _show_idle(size, idle, both)
            for kind in COMMITS:
                of_kind = [use for use in uses if use.kind == kind]
                fitted_here = kind not in models and bool(of_kind)
                if fitted_here:
                    workers = kind in ("recompute", "binding")
                    models[kind] = fit(of_kind, both if workers else idle, size)
                    note(f"{kind}: {models[kind]}")
                for use in of_kind:
                    _show(size, use, None if fitted_here else models[kind])


if __name__ == "__main__":
    main()
