"""Gateways of one ledger, each a process as its operator starts it, and clients that use them."""

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, Self
from uuid import UUID

import anyio
import httpx
import pytest

from kernel.ledger.shards import Shard, shards_of
from queues.embedded.server import EmbeddedRedis, find_server
from tests import loopback
from tests.forked import ForkedProgram
from tests.kernel.build import receipts_in_view
from tests.loop_watchdog import Stall, read_report
from tests.ports import free_port
from tests.process_environment import process_environment
from tests.system.tree_run import wait_for
from workers.environment.ledger_access import LedgerPlace, open_record
from workers.environment.ledger_verification import verify_file

LEASE_S = 2.0
READY_S = 60.0
ANSWER_S = 40.0
ONTOLOGY = {
    "hypothesis_space_id": "space",
    "hypothesis_version": "v1",
    "causal_graph_ref": "none",
    "causal_graph_version": "0",
}
HYPOTHESES = [f"h{number:03d}" for number in range(200)]
LOOK_EACH_S = 0.05

on_both = pytest.mark.parametrize("gateways", ["sqlite", "postgres"], indirect=True)
on_a_server = pytest.mark.parametrize(
    "gateways", ["postgres", pytest.param("sqlite", marks=pytest.mark.nightly)], indirect=True
)
"""For what gateways settle among themselves, by the shards on the record, whatever the store."""

on_a_file = pytest.mark.parametrize("gateways", ["sqlite"], indirect=True)


def session_id(number: int) -> str:
    return str(UUID(int=number, version=4))


class GatewayProcess:
    """One gateway process; `watched` tells what held its loop, see `stalls`."""

    def __init__(
        self,
        name: str,
        folder: Path,
        environment: dict[str, str],
        *,
        watched: bool = False,
        program: str = "workers",
        advertised: bool = False,
    ) -> None:
        self.port = free_port()
        self.name = name
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / f"{name}.{self.port}.log"
        self._report = folder / f"{name}.{self.port}.stalls"
        module, report = ("tests.loop_watchdog", [str(self._report)]) if watched else (program, [])
        inherited = process_environment()
        own_variables = {
            "ROTULUS_DATA_DIR": str(folder / "data"),
            "ROTULUS_PORT": str(self.port),
            "ROTULUS_GATEWAY_ID": name,
            "ROTULUS_SHARD_LEASE_S": str(LEASE_S),
            "ROTULUS_LOG_LEVEL": "info",
            **environment,
        }
        if advertised:
            own_variables["ROTULUS_ADVERTISED_URL"] = self.url
        self.process = ForkedProgram(
            module, [*report, "gateway"], inherited | own_variables, self.log
        )

    def stalls(self) -> list[Stall]:
        """What has held the loop longest, longest first; nothing where it is not watched."""
        return read_report(self._report)

    def readiness(self) -> dict[str, Any]:
        """What health says, empty while nothing answers."""
        try:
            body: dict[str, Any] = loopback.get(f"{self.url}/readyz", timeout=5).json()
        except httpx.TransportError:
            return {}
        return body

    def owned(self) -> int:
        return self.readiness().get("shards", {}).get("owned", 0)

    def wait_until_ready(self) -> None:
        def ready() -> bool:
            assert self.process.poll() is None, self.log.read_text()
            return self.readiness().get("status") == "ready"

        wait_for(f"{self.name} to be ready", ready, READY_S, LOOK_EACH_S)

    def wait_until_owning(self, shards: int) -> None:
        what = f"{self.name} to own {shards}"
        wait_for(what, lambda: self.owned() == shards, READY_S, LOOK_EACH_S)

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    @contextmanager
    def paused(self) -> Iterator[None]:
        self.send(signal.SIGSTOP)
        try:
            yield
        finally:
            self.send(signal.SIGCONT)

    def stop_for_good(self) -> None:
        with suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait(10)


class Gateways:
    """The gateways of one ledger and one Redis; each runs the module `program`."""

    def __init__(
        self,
        folder: Path,
        redis: EmbeddedRedis,
        database_url: str | None,
        program: str,
        settings: Mapping[str, str],
    ) -> None:
        self.redis = redis
        self._program = program
        self._folder = folder
        self._environment = {"ROTULUS_REDIS_URL": redis.url, **settings}
        if database_url is not None:
            self._environment["ROTULUS_DATABASE_URL"] = database_url
        self.place: LedgerPlace = folder / "data" / "ledger.db"
        self.started: list[GatewayProcess] = []

    def start(self, name: str, *, advertised: bool = False) -> GatewayProcess:
        gateway = GatewayProcess(
            name, self._folder, self._environment, program=self._program, advertised=advertised
        )
        self.started.append(gateway)
        return gateway

    def pair(self) -> tuple[GatewayProcess, GatewayProcess]:
        """Two gateways with half of the shards each; begun with their names as they are."""
        living = {
            gateway.name: gateway for gateway in self.started if gateway.process.poll() is None
        }
        first, second = (living.get(name) or self.start(name) for name in ("a", "b"))
        for gateway in (first, second):
            gateway.wait_until_owning(32)
            gateway.wait_until_ready()
        return first, second

    def shards(self) -> list[Shard]:
        """The shards as they stand on the record, by their number."""
        with open_record(self.place) as view:
            return shards_of(view)

    def receipts(self, kind: str) -> list[dict[str, Any]]:
        with open_record(self.place) as view:
            return receipts_in_view(view, kind)

    def verify(self) -> Any:
        verification = verify_file(self.place, lambda _done, _total: None)
        assert verification.findings == ()
        return verification


@contextmanager
def running_gateways(
    folder: Path, database_url: str | None = None, *, program: str = "workers", **settings: str
) -> Iterator[Gateways]:
    """Gateways and their Redis for the time of a block; nothing of them is left behind."""
    redis = EmbeddedRedis(folder, find_server())
    redis.start()
    gateways = Gateways(folder, redis, database_url, program, settings)
    if database_url is not None:
        from pydantic import SecretStr  # noqa: PLC0415 - only a database's URL is a secret

        gateways.place = SecretStr(database_url)
    try:
        yield gateways
    finally:
        for gateway in gateways.started:
            gateway.stop_for_good()
        redis.stop()


def database_of(request: pytest.FixtureRequest) -> str | None:
    """A new database for the store that a fixture is asked for, None where that is a file."""
    if request.param == "sqlite":
        return None
    url: str = request.getfixturevalue("postgres").new_database()
    return url


class RetryingClient:
    """Somebody who asks gateways in turn, until one answers."""

    def __init__(self, *gateways: GatewayProcess) -> None:
        self._https = [
            loopback.client(base_url=gateway.url, timeout=ANSWER_S) for gateway in gateways
        ]
        self._turn = count()
        self.answered = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for http in self._https:
            await http.aclose()

    async def declare(self, session: str) -> dict[str, Any]:
        body = {"session_id": session, "ontology": ONTOLOGY, "hypotheses": HYPOTHESES}
        return await self.ask("POST", "/v1/sessions", body)

    async def eliminate(self, session: str, number: int) -> dict[str, Any]:
        return await self.ask("POST", f"/v1/sessions/{session}/eliminate", elimination(number))

    async def trail(self, session: str) -> list[str]:
        """The observations that are on the record of a session, in order."""
        events = (await self.ask("GET", f"/v1/sessions/{session}/audit"))["events"]
        return [event["payload"]["observation_id"] for event in events[1:]]

    async def wait_until_answered(self, times: int) -> None:
        """Wait until so many more requests were answered."""
        until = self.answered + times
        with anyio.fail_after(ANSWER_S):
            while self.answered < until:
                await anyio.sleep(0.01)

    async def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Ask until there is an answer; what may be asked again says so."""
        with anyio.fail_after(ANSWER_S):
            while True:
                http = self._https[next(self._turn) % len(self._https)]
                try:
                    response = await http.request(method, path, json=body)
                except httpx.TransportError:
                    await anyio.sleep(0.02)
                    continue
                if response.status_code not in (429, 503):
                    assert response.is_success, response.text
                    self.answered += 1
                    answer: dict[str, Any] = response.json()
                    return answer
                assert "Retry-After" in response.headers
                await anyio.sleep(0.05)


def elimination(number: int) -> dict[str, Any]:
    return {
        "source_id": "adapter://test",
        "observation_id": f"o-{number}",
        "eliminated": [HYPOTHESES[number]],
    }
