"""Two gateways and three workers on a PostgreSQL and a Redis, each a process that may be killed."""

import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import httpx
import psycopg
from pydantic import SecretStr

from kernel.ledger.ledger import Ledger
from tests import loopback
from tests.chaos import witness
from tests.chaos.proxy import Proxies, Proxy
from tests.chaos.redis_places import RedisPlace, SingleRedis, redis_place
from tests.chaos.schedule import GATEWAYS, SINGLE, WORKERS
from tests.forked import ForkedProgram
from tests.ports import free_ports
from tests.postgres import OwnPostgres, own_postgres
from tests.process_environment import process_environment
from tests.replicated_postgres import ReplicatedPostgres, replicated_postgres
from tests.system.tree_run import wait_for
from workers.environment.ledger_access import open_store
from workers.environment.system_host import system_host

LEASE_S = 2.0
READY_S = 60.0
TOKEN = "chaos-" + "0" * 16
PRODUCERS = "producers"
TAIL = 4000
ROOT = Path(__file__).parents[2]


class FleetProcess:
    """A process that is started again as it was."""

    def __init__(
        self,
        name: str,
        module: str,
        env: dict[str, str],
        folder: Path,
        arguments: Sequence[str] = (),
    ) -> None:
        """It runs `python -m MODULE ARGUMENTS`."""
        self.name = name
        self.log = folder / f"{name}.log"
        self._module, self._arguments = module, arguments
        inherited = process_environment()
        self._env = inherited | env
        self._process: ForkedProgram | subprocess.Popen[bytes] | None = None
        self.ended: list[int] = []
        """How it ended when nobody had killed it."""

    @property
    def pid(self) -> int:
        """The pid of the newest start."""
        assert self._process is not None
        return self._process.pid

    def start(self, **env: str) -> None:
        """Start it, with more in its environment if need be; the log goes on."""
        self._process = ForkedProgram(self._module, self._arguments, self._env | env, self.log)

    def start_afresh(self, **env: str) -> None:
        """Start it as a program of its own, which a library may be put before."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._module, *self._arguments],
                cwd=ROOT,
                env=self._env | env,
                stdout=log,
                stderr=log,
            )

    def keep_up(self) -> None:
        """Start it again if it ended by itself, as whoever supervises it would."""
        if self.note_end():
            self.start()

    def note_end(self) -> bool:
        """Tell whether it has ended by itself, and note how."""
        code = None if self._process is None else self._process.poll()
        if code is None:
            return False
        self.ended.append(code)
        return True

    def send(self, number: signal.Signals) -> None:
        """Send a signal; one that has ended already gets none."""
        if self._process is not None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """End it as nothing can prevent."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(10)

    def poll(self) -> int | None:
        """Return how it ended, None while it runs."""
        assert self._process is not None
        return self._process.poll()

    def end(self, seconds: float) -> int:
        """Ask it to end, and return how it did; raises `TimeoutExpired`."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(seconds)

    def tail(self) -> str:
        """Return the end of what it said."""
        return self.log.read_text(errors="replace")[-TAIL:] if self.log.exists() else ""


class ChaosFleet:
    """The processes of one run and the servers that they use."""

    def __init__(
        self,
        folder: Path,
        postgres: OwnPostgres | ReplicatedPostgres,
        redis: RedisPlace,
        proxies: Proxies,
        settings: Mapping[str, str],
        *,
        proxied: bool,
    ) -> None:
        """`proxied`: whether the processes reach the servers through what can delay and cut."""
        self.folder = folder
        self.answers_path = folder / "answers.jsonl"
        """What producers were answered, each on disk before they go on."""

        self._proxied = proxied
        self._settings = settings
        self.postgres = postgres
        self.redis = redis
        self.proxies = proxies
        self._database = urlsplit(self.primary.new_database()).path
        Ledger.create(open_store(self.place), system_host()).close()
        witness.install(self.database_url, GATEWAYS)
        names = (*GATEWAYS, *WORKERS, PRODUCERS)
        self._ways = {
            ("postgres", name): proxies.to_socket(lambda: self.primary.socket) for name in names
        }
        if isinstance(redis, SingleRedis):
            self._ways |= {("redis", name): proxies.to_port(redis.port) for name in names}
        ports = dict(zip(GATEWAYS, free_ports(len(GATEWAYS)), strict=True))
        self.urls = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
        self.processes = {
            name: FleetProcess(
                name,
                "tests.chaos.gateway_process",
                self._environment(name, witness.role_of(name))
                | {"ROTULUS_PORT": str(port), "ROTULUS_GATEWAY_ID": name},
                folder,
            )
            for name, port in ports.items()
        } | {
            name: FleetProcess(
                name,
                "tests.chaos.worker_process",
                self._environment(name, "rotulus")
                | {"ROTULUS_GATEWAY_URL": list(self.urls.values())[number % len(GATEWAYS)]},
                folder,
            )
            for number, name in enumerate(WORKERS)
        }

    @property
    def primary(self) -> OwnPostgres:
        """The server that is written to now."""
        servers = self.postgres
        return servers.primary if isinstance(servers, ReplicatedPostgres) else servers

    @property
    def database_url(self) -> str:
        """The ledger at the server that is written to now."""
        return urlunsplit(urlsplit(self.primary.url)._replace(path=self._database))

    @property
    def place(self) -> SecretStr:
        """The ledger, past the proxy."""
        return SecretStr(self.database_url)

    def place_of(self, name: str = PRODUCERS, role: str = "rotulus") -> SecretStr:
        """The ledger as a process of the fleet reaches it."""
        if not self._proxied:
            return SecretStr(self.database_url.replace("//rotulus@", f"//{role}@"))
        port = self._ways["postgres", name].port
        return SecretStr(
            f"postgresql://{role}@127.0.0.1:{port}{self._database}?sslmode=disable&gssencmode=disable"
        )

    def start(self) -> None:
        """Start every process and wait until the gateways share the shards."""
        for process in self.processes.values():
            process.start()
        for name in GATEWAYS:
            wait_for(f"gateway {name}", partial(self.ready, name), READY_S)

    def ready(self, gateway: str) -> bool:
        """Tell whether a gateway is ready."""
        return self._says_yes(gateway, "readyz")

    def answers(self, gateway: str) -> bool:
        """Tell whether a gateway answers, ready or not."""
        return self._says_yes(gateway, "healthz")

    def _says_yes(self, gateway: str, path: str) -> bool:
        try:
            answer = loopback.get(f"{self.urls[gateway]}/{path}", timeout=2.0)
        except httpx.TransportError:
            return False
        return answer.status_code == 200

    def keep_up(self, *, except_for: str = "") -> None:
        """Start again whatever ended by itself."""
        for name, process in self.processes.items():
            if name != except_for:
                process.keep_up()

    def set_fsync(self, value: str) -> None:
        """Have PostgreSQL wait for its disk from now on, or not any more."""
        self.primary.run(f"ALTER SYSTEM SET fsync = {value}")
        self.primary.run("SELECT pg_reload_conf()")

    def open_requests(self) -> dict[str, int]:
        """Return how many requests of each queue are open."""
        with psycopg.connect(self.database_url) as connection:
            query = "SELECT queue, count(*) FROM outbox WHERE open = 1 GROUP BY queue"
            return dict(connection.execute(query).fetchall())

    def stop(self) -> None:
        """Kill the processes; the servers stay, to be read."""
        for process in self.processes.values():
            process.note_end()
        for process in self.processes.values():
            process.kill()

    def proxies_to(self, server: str, name: str = "") -> list[Proxy]:
        """Return the proxies in front of `redis` or `postgres`: of one process, or of all."""
        return [
            proxy
            for (far, near), proxy in self._ways.items()
            if far == server and name in ("", near)
        ]

    def _environment(self, name: str, role: str) -> dict[str, str]:
        redis_url = self.redis.url
        if self._proxied and isinstance(self.redis, SingleRedis):
            redis_url = self.redis.url_through(self._ways["redis", name].port)
        return {
            "ROTULUS_DATA_DIR": str(self.folder / "data"),
            "ROTULUS_REDIS_URL": redis_url,
            "ROTULUS_DATABASE_URL": self.place_of(name, role).get_secret_value(),
            "ROTULUS_SHARD_LEASE_S": str(LEASE_S),
            "ROTULUS_WORKER_TOKEN": TOKEN,
            "ROTULUS_LOG_LEVEL": "info",
            **self._settings,
        }


@contextmanager
def running_fleet(
    folder: Path,
    *,
    proxied: bool = True,
    replicated: bool = False,
    shape: str = SINGLE,
    settings: Mapping[str, str] | None = None,
) -> Iterator[ChaosFleet]:
    """Start a fleet for the time of a block and leave nothing of it behind.

    `replicated`: whether PostgreSQL has a standby, for which each COMMIT waits.
    """
    with ExitStack() as stack:
        postgres: OwnPostgres | ReplicatedPostgres
        if replicated:
            postgres = stack.enter_context(replicated_postgres())
            postgres.settle(synchronous=True)
        else:
            postgres = stack.enter_context(own_postgres())
        redis = stack.enter_context(redis_place(shape, folder))
        proxies = stack.enter_context(Proxies())
        fleet = ChaosFleet(folder, postgres, redis, proxies, settings or {}, proxied=proxied)
        stack.callback(fleet.stop)
        fleet.start()
        yield fleet
