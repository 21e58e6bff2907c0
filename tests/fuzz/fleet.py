"""Two gateways and a worker on one ledger, each watched: whether it lives, what it holds, its loop.

Unlike a fleet under chaos nobody starts again what ended: a process that ends is a finding.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import httpx
from pydantic import SecretStr
from redis.asyncio import Redis

from kernel.ledger.ledger import Ledger
from queues.embedded.server import EmbeddedRedis, find_server
from tests import loopback
from tests.chaos.fleet import FleetProcess
from tests.fuzz.legal_request import TOKEN
from tests.fuzz.redis_values import Hostile, inject
from tests.loop_watchdog import Stall, read_report
from tests.ports import free_ports
from tests.postgres import own_postgres
from tests.system.tree_run import wait_for
from workers.environment.ledger_access import LedgerPlace, open_store
from workers.environment.system_host import system_host

GATEWAYS: Final = ("a", "b")
LEASE_S: Final = 20
READY_S: Final = 90.0
END_S: Final = 60.0
STORES: Final = ("sqlite", "postgres")


class FuzzFleet:
    """The processes of one run on one store."""

    def __init__(self, folder: Path, redis_url: str, place: LedgerPlace) -> None:
        self.folder, self.redis_url, self.place = folder, redis_url, place
        Ledger.create(open_store(place), system_host()).close()
        self.ports = dict(zip(GATEWAYS, free_ports(len(GATEWAYS)), strict=True))
        settings = {
            "ROTULUS_DATA_DIR": str(folder / "data"),
            "ROTULUS_REDIS_URL": redis_url,
            "ROTULUS_WORKER_TOKEN": TOKEN,
            "ROTULUS_LOG_LEVEL": "warning",
            "ROTULUS_LOG_FORMAT": "json",
            # A busy machine may pause anybody for longer than a short lease.
            "ROTULUS_SHARD_LEASE_S": str(LEASE_S),
        }
        if isinstance(place, SecretStr):
            settings["ROTULUS_DATABASE_URL"] = place.get_secret_value()
        self._reports = {name: folder / f"{name}.stalls" for name in GATEWAYS}
        self.processes = {
            name: FleetProcess(
                name,
                "tests.loop_watchdog",
                settings | {"ROTULUS_PORT": str(port), "ROTULUS_GATEWAY_ID": name},
                folder,
                [str(self._reports[name]), "gateway"],
            )
            for name, port in self.ports.items()
        }
        url = f"http://127.0.0.1:{self.ports[GATEWAYS[0]]}"
        self.processes["worker"] = FleetProcess(
            "worker",
            "tests.chaos.worker_process",
            settings | {"ROTULUS_GATEWAY_URL": url},
            folder,
        )

    def start(self) -> None:
        """Start every process; returns when each gateway owns its half of the shards."""
        for process in self.processes.values():
            process.start()
        for name in GATEWAYS:
            wait_for(f"gateway {name}", partial(self._shares, name), READY_S)

    def _shares(self, gateway: str) -> bool:
        assert self.ended() == {}, self.tails()
        body = self.readiness(gateway)
        shards = body.get("shards", {})
        return body.get("status") == "ready" and shards["owned"] * len(GATEWAYS) == shards["of"]

    def serves_all(self) -> bool:
        """Return whether each gateway is ready and every shard has its owner among them."""
        bodies = [self.readiness(gateway) for gateway in GATEWAYS]
        if any(body.get("status") != "ready" for body in bodies):
            return False
        return sum(body["shards"]["owned"] for body in bodies) == bodies[0]["shards"]["of"]

    def readiness(self, gateway: str) -> dict:
        """Return what a gateway says of itself, empty where it says nothing."""
        url = f"http://127.0.0.1:{self.ports[gateway]}/readyz"
        try:
            body: dict = loopback.get(url, timeout=10.0).json()
        except (httpx.TransportError, ValueError):
            return {}
        return body

    def post(self, gateway: str, path: str, body: object) -> httpx.Response:
        url = f"http://127.0.0.1:{self.ports[gateway]}{path}"
        return loopback.post(url, json=body, timeout=60.0)

    def ended(self) -> Mapping[str, int]:
        """Return which processes have ended, and how."""
        codes = {name: process.poll() for name, process in self.processes.items()}
        return {name: code for name, code in codes.items() if code is not None}

    def rss(self) -> dict[str, int]:
        """Return the memory of each gateway that lives, in bytes."""
        page = os.sysconf("SC_PAGE_SIZE")
        return {
            name: int(Path(f"/proc/{self.processes[name].pid}/statm").read_text().split()[1]) * page
            for name in GATEWAYS
            if name not in self.ended()
        }

    def cpu_s(self) -> dict[str, float]:
        """Return what each process that lives has used of the processors."""
        tick = os.sysconf("SC_CLK_TCK")
        used = {}
        for name in sorted(set(self.processes) - set(self.ended())):
            stat = Path(f"/proc/{self.processes[name].pid}/stat").read_text()
            used[name] = sum(map(int, stat.rpartition(")")[2].split()[11:13])) / tick
        return used

    def stalls(self) -> dict[str, list[Stall]]:
        """Return what held the loop of each gateway longest."""
        return {name: read_report(path) for name, path in self._reports.items()}

    async def attack_redis(self, seed: int, count: int) -> list[Hostile]:
        """Write hostile values over what the fleet has in Redis."""
        async with Redis.from_url(self.redis_url) as redis:
            return await inject(redis, seed, count)

    def end(self) -> dict[str, int]:
        """Ask every process to end, and return how each did."""
        return {name: process.end(END_S) for name, process in self.processes.items()}

    def tails(self) -> str:
        """Return the end of what every process said."""
        return "\n".join(
            f"--- {name}\n{process.tail()}" for name, process in self.processes.items()
        )

    def kill(self) -> None:
        """Leave nothing behind."""
        for process in self.processes.values():
            process.kill()


@contextmanager
def running_fuzz_fleet(folder: Path, store: str) -> Iterator[FuzzFleet]:
    """Start a fleet on a store for the time of a block and leave nothing of it behind."""
    (folder / "data").mkdir(mode=0o700, parents=True, exist_ok=True)
    with ExitStack() as stack:
        place: LedgerPlace = folder / "data" / "ledger.db"
        if store == "postgres":
            place = SecretStr(stack.enter_context(own_postgres()).new_database())
        redis = EmbeddedRedis(folder, find_server())
        redis.start()
        stack.callback(redis.stop)
        fleet = FuzzFleet(folder, redis.url, place)
        stack.callback(fleet.kill)
        fleet.start()
        yield fleet
