"""Gateway and workers tell Prometheus what they do, in the rows of the table and no others."""

import socket
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest
from redis import Redis

from kernel.authority.requests import AUTHORITY_QUEUE
from kernel.work.queue_kinds import QUEUE_KINDS
from queues.errors import QueueError
from queues.fleet.worker_heartbeats import Heartbeats, WorkerBeat
from queues.leases.capacity_leases import CapacityLeases, Lease
from queues.queue.items import NewItem
from queues.queue.priorities import priorities_of
from queues.queue.work_queue import WorkQueue
from queues.redis.connection import connect_redis
from tests.certificates import authority_file, write_pair
from tests.kernel.build import FakeHost, create
from tests.ports import free_port
from tests.scraped import Scraped, declared
from tests.workers.api.door import ONTOLOGY, SESSION, Door, running_door
from tests.workers.gateway.served import served_gateway
from workers.environment.listening import listen, port_of
from workers.environment.settings import Settings, SettingsError
from workers.environment.tls_identity import TlsIdentity
from workers.gateway import metrics as gateway_metrics
from workers.gateway.metrics import GatewayMeasures, GatewayMetrics
from workers.process_tree.tree import metrics_sockets
from workers.telemetry.metric_registry import CONTENT_TYPE, Metrics
from workers.telemetry.metric_table import GATEWAY, WORKER, Metric
from workers.telemetry.metrics_endpoint import open_door

pytestmark = pytest.mark.anyio

WAIT_S = 30
PLACE = f"/v1/sessions/{SESSION}/envelopes"
ENVELOPES = "/v1/sessions/{session_id}/envelopes"


@pytest.fixture(autouse=True)
def every_scrape_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_metrics, "FRESH_S", 0.0)


async def scrape(client: httpx.AsyncClient) -> Scraped:
    response = await client.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"] == CONTENT_TYPE
    return Scraped(response.text)


async def prepare(url: str) -> None:
    redis = connect_redis(url)
    queue = WorkQueue(redis, AUTHORITY_QUEUE)
    await queue.enqueue_many(
        [NewItem(f"u-{n}", "background_normal", f"c-{n}", b"{}") for n in range(3)]
    )
    assert len(await queue.claim(1, 60_000)) == 1
    assert await CapacityLeases(redis).acquire("binding_evaluation", 3, "w/1", 60_000)
    beat = WorkerBeat("w", 1, (AUTHORITY_QUEUE,), 2, 0, 0, 0, 0)
    await Heartbeats(redis).beat(beat, 60_000)
    await redis.aclose()


async def exercise(client: httpx.AsyncClient) -> None:
    """A declaration, nine operations, one of them again, one that is refused; bad paths."""
    session = {"session_id": SESSION, "ontology": ONTOLOGY, "hypotheses": ["h"]}
    (await client.post("/v1/sessions", json=session)).raise_for_status()
    async with anyio.create_task_group() as load:
        for number in range(8):
            load.start_soon(send, client, create(f"n-{number}", "Note"))
            load.start_soon(scrape, client)
    repeated = create("n-again", "Note")
    await send(client, repeated)
    await send(client, repeated)
    refused = {**create("n-x", "Note"), "semantic_intent": "no_such_intent"}
    assert (await client.post(PLACE, json=refused)).status_code == 422
    assert (await client.get("/v1/operations/an-id-that-is-not-there")).status_code == 404
    assert (await client.get("/no/such/path")).status_code == 404


async def test_a_gateway_under_load_tells_every_metric_of_its_table_and_no_other(
    tmp_path: Path, valkey_url: str
):
    settings = Settings(
        data_dir=tmp_path / "data", port=free_port(), lease_slots=7, binding_slots=3
    )
    await prepare(valkey_url)
    async with served_gateway(settings, valkey_url) as client:
        await exercise(client)
        scraped = await scrape(client)
    assert scraped.described() == declared(GATEWAY)
    check_its_own(scraped, settings)
    check_the_fleets(scraped)
    # Nothing that a caller named.
    assert "an-id-that-is-not-there" not in repr(scraped.values)
    assert SESSION not in repr(scraped.values)


def check_its_own(scraped: Scraped, settings: Settings) -> None:
    value = scraped.value
    outcomes = ("accepted", "duplicate", "rejected")
    operations = [value("rotulus_operations_total", outcome=outcome) for outcome in outcomes]
    assert operations == [10, 1, 1]  # the declaration is one
    assert scraped.labels("rotulus_rejections_total") == [{"check": "V3"}]
    commits = value("rotulus_commits_total", outcome="committed")
    assert commits == value("rotulus_commit_duration_seconds_count")
    assert commits == value("rotulus_commit_batch_units_count")
    assert value("rotulus_commits_total", outcome="rolled_back") == 0
    assert value("rotulus_commit_batch_units_sum") >= 12
    assert value("rotulus_commit_duration_seconds_sum") > 0
    assert value("rotulus_http_request_duration_seconds_count", route=ENVELOPES) == 11
    posted = {"method": "POST", "route": ENVELOPES}
    assert value("rotulus_http_requests_total", **posted, status="200") == 10
    assert value("rotulus_http_requests_total", **posted, status="422") == 1
    assert value("rotulus_http_requests_total", method="GET", route="(none)", status="404") == 1
    for asker, places in (("producers", settings.requests_max), ("workers", 256), ("pages", 64)):
        assert value("rotulus_http_requests_limit", asker=asker) == places
        assert value("rotulus_http_requests_in_flight", asker=asker) == 0
        assert value("rotulus_http_requests_refused_total", asker=asker) == 0
    assert value("rotulus_sessions_active") == 1
    assert value("rotulus_mailbox_messages") == value("rotulus_mailbox_messages_max") == 0
    assert value("rotulus_mailbox_limit") == settings.mailbox_max
    assert value("rotulus_shards_owned") == value("rotulus_shards") == settings.shards


def check_the_fleets(scraped: Scraped) -> None:
    value = scraped.value
    background = {"queue": AUTHORITY_QUEUE, "priority": "background_normal"}
    assert value("rotulus_queue_ready_items", **background) == 2
    assert value("rotulus_queue_oldest_eligible_age_seconds", **background) > 0
    assert value("rotulus_queue_service_target_seconds", **background) == 3600
    assert value("rotulus_queue_items", queue=AUTHORITY_QUEUE, state="in_flight") == 1
    assert value("rotulus_lease_slots", resource=AUTHORITY_QUEUE) == 7
    assert value("rotulus_lease_slots_held", resource=AUTHORITY_QUEUE) == 0
    assert value("rotulus_lease_slots", resource="binding_evaluation") == 3
    assert value("rotulus_lease_slots_held", resource="binding_evaluation") == 1
    assert value("rotulus_workers_alive") == 1
    assert value("rotulus_chain_height") == 10
    for dependency in ("redis", "ledger"):
        assert value("rotulus_dependency_up", dependency=dependency) == 1
    seen = {
        (labels["queue"], labels["priority"]) for labels in scraped.labels("rotulus_queue_paused")
    }
    assert seen == {(queue, row.name) for queue in QUEUE_KINDS for row in priorities_of(queue)}


async def send(client: httpx.AsyncClient, envelope: Any) -> None:
    (await client.post(PLACE, json=envelope)).raise_for_status()


async def test_what_is_away_is_told_and_the_rest_as_before(
    tmp_path: Path, valkey_url: str, monkeypatch: pytest.MonkeyPatch
):
    async def refused(*_: object) -> list[Lease]:
        raise QueueError("queue_unavailable", "Redis does not serve")

    settings = Settings(data_dir=tmp_path / "data", port=free_port())
    async with served_gateway(settings, valkey_url) as client:
        monkeypatch.setattr(CapacityLeases, "active_leases", refused)
        scraped = await scrape(client)
    assert scraped.value("rotulus_dependency_up", dependency="redis") == 0
    assert scraped.value("rotulus_dependency_up", dependency="ledger") == 1
    assert scraped.value("rotulus_chain_height") >= 0
    assert scraped.families["rotulus_queue_ready_items"].samples == []
    assert scraped.families["rotulus_lease_slots"].samples == []


async def test_what_no_fleet_writes_is_dropped_and_told(tmp_path: Path, valkey_url: str):
    settings = Settings(data_dir=tmp_path / "data", port=free_port())
    async with served_gateway(settings, valkey_url) as client:
        with Redis.from_url(valkey_url) as control:
            control.set(f"rotulus:{{{AUTHORITY_QUEUE}}}:in-flight", "not a sorted set")
        scraped = await scrape(client)
    assert scraped.value("rotulus_dependency_up", dependency="redis") == 1
    assert scraped.value("rotulus_redis_values_dropped_total", kind="wrong_type") >= 1


OF_REDIS = ("rotulus_queue_", "rotulus_lease_", "rotulus_workers_")


def metrics_of(door: Door, **changes: Any) -> GatewayMetrics:
    """The metrics of a gateway, some of whose services are others."""
    services = replace(door.services, work=replace(door.services.work, **changes))
    sessions: Any = door.services.sessions
    return GatewayMetrics(GatewayMeasures(), services, door.committer, sessions, Settings())


async def test_a_part_that_does_not_answer_is_away_and_none_of_it_is_told(
    monkeypatch: pytest.MonkeyPatch,
):
    class Hanging:
        async def alive(self) -> list[Any]:
            await anyio.sleep_forever()

    async with running_door(host=FakeHost().host) as door:
        monkeypatch.setattr(gateway_metrics, "PART_S", WAIT_S)
        before = Scraped((await metrics_of(door).text()).decode())
        monkeypatch.setattr(gateway_metrics, "PART_S", 0.05)
        # The ledger's part has the short limit too, and a busy machine may be late with it.
        for _ in range(20):
            with anyio.fail_after(WAIT_S):
                text = await metrics_of(door, heartbeats=Hanging()).text()
            scraped = Scraped(text.decode())
            if scraped.value("rotulus_dependency_up", dependency="ledger"):
                break
    assert scraped.value("rotulus_dependency_up", dependency="redis") == 0
    assert scraped.value("rotulus_dependency_up", dependency="ledger") == 1
    of_redis = {name for name, *_ in before.values if name.startswith(OF_REDIS)}
    assert len(of_redis) > 5
    assert of_redis.isdisjoint(name for name, *_ in scraped.values)


async def test_many_askers_at_once_read_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gateway_metrics, "FRESH_S", 60.0)
    monkeypatch.setattr(gateway_metrics, "PART_S", WAIT_S)
    reads = []

    class CountedHeartbeats:
        async def alive(self) -> list[Any]:
            reads.append(1)
            await anyio.lowlevel.checkpoint()
            return reads

    texts: list[bytes] = []

    async def ask_once() -> None:
        texts.append(await metrics.text())

    async with running_door(host=FakeHost().host) as door:
        metrics = metrics_of(door, heartbeats=CountedHeartbeats())
        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(ask_once)
    assert len(reads) == 1
    assert [b"\nrotulus_workers_alive 1.0\n" in text for text in texts] == [True] * 10


def test_a_reading_that_is_in_no_table_is_an_error():
    metrics = Metrics(WORKER, lambda: {"rotulus_made_up": {(): 1.0}})
    with pytest.raises(LookupError, match="rotulus_made_up"):
        metrics.text()


@pytest.mark.parametrize("of_table", [*GATEWAY, *WORKER], ids=lambda metric: metric.name)
def test_names_follow_the_conventions(of_table: Metric):
    assert of_table.name.startswith("rotulus_")
    assert of_table.name.endswith("_total") == (of_table.kind == "counter")
    assert bool(of_table.buckets) == (of_table.kind == "histogram")
    assert list(of_table.buckets) == sorted(set(of_table.buckets))
    assert not {"id", "session_id", "request_id", "operation_id"} & set(of_table.labels)


@pytest.fixture
def door() -> Iterator[str]:
    with open_door(listen("127.0.0.1", 0), lambda: b"all 1\n", hosts=frozenset()) as port:
        yield f"http://127.0.0.1:{port}"


def ask(url: str, method: str = "GET", **headers: str) -> tuple[int, bytes]:
    try:
        request = urllib.request.Request(url, method=method, headers=headers)  # noqa: S310
        with urllib.request.urlopen(request, timeout=WAIT_S) as response:  # noqa: S310
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_the_door_answers_one_path_one_method_and_our_own_names(door: str):
    assert ask(f"{door}/metrics") == (200, b"all 1\n")
    assert ask(f"{door}/") == (404, b"")
    assert ask(f"{door}/metrics", "POST") == (405, b"")
    assert ask(f"{door}/metrics", Host="rebound.example") == (421, b"")


def test_who_says_nothing_keeps_nobody_out_for_long(door: str, capfd: pytest.CaptureFixture[str]):
    port = int(door.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)):
        assert ask(f"{door}/metrics") == (200, b"all 1\n")
    assert "Traceback" not in "".join(capfd.readouterr())


def test_a_door_that_was_closed_leaves_nothing_behind():
    with open_door(listen("127.0.0.1", 0), bytes, hosts=frozenset()) as port:
        assert "metrics" in {thread.name for thread in threading.enumerate()}
    with open_door(listen("127.0.0.1", port), bytes, hosts=frozenset()):
        pass
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_workers_of_a_tree_take_ports_one_after_another_and_none_unless_asked(tmp_path: Path):
    def ports(**options: Any) -> list[int | None]:
        with ExitStack() as sockets:
            listening = metrics_sockets(Settings(data_dir=tmp_path, **options), 3, sockets)
            return [None if sock is None else port_of(sock) for sock in listening]

    assert ports() == [None, None, None]
    first = next(port for port in count(19_500) if all(map(is_free, range(port, port + 3))))
    assert ports(worker_metrics_port=first) == [first, first + 1, first + 2]
    anywhere = ports(worker_metrics_port=0)
    assert len(set(anywhere)) == 3
    assert None not in anywhere
    with pytest.raises(SettingsError):
        ports(worker_metrics_port=65_534)


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def test_the_door_speaks_tls_by_the_pair_that_its_files_have(tmp_path: Path):
    tls = TlsIdentity(*write_pair(tmp_path))
    trusting = ssl.create_default_context(cafile=str(authority_file(tmp_path)))
    listening = listen("127.0.0.1", 0)
    with open_door(listening, lambda: b"all 1\n", hosts=frozenset(), tls=tls) as port:
        serials = set()
        for _ in range(2):
            write_pair(tmp_path)
            with (
                socket.create_connection(("127.0.0.1", port), WAIT_S) as plain,
                trusting.wrap_socket(plain, server_hostname="127.0.0.1") as encrypted,
            ):
                serials.add((encrypted.getpeercert() or {})["serialNumber"])
                encrypted.sendall(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")
                assert encrypted.makefile("rb").read().endswith(b"all 1\n")
        assert len(serials) == 2
