"""A whole gateway in the test's own process: real ledger, kernel, actors, queue and routes."""

import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any
from uuid import UUID

import anyio
import httpx
from fakeredis import FakeAsyncRedis
from hypothesis import strategies as st
from redis.asyncio import Redis

from actors.commit.group_committer import Committer
from actors.orchestrator.orchestrator import Orchestrator
from actors.sessions.runtime import SessionLimits, SessionRuntime
from actors.sharding.held_shards import HeldShards
from actors.synthesis.local_model import LocalModel
from actors.synthesis.synthesis import Synthesis
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.shards import create_shards
from kernel.ledger.store.memory import MemoryStore
from kernel.ledger.store.tables import Store, TableQuery
from kernel.rollback.confirmation import Confirmations
from kernel.transaction.kernel import Kernel
from kernel.values.canonical import MAX_SAFE_INTEGER
from kernel.values.model_registry import ActiveModels
from kernel.work.queue_kinds import QUEUE_KINDS
from queues.fleet.worker_heartbeats import Heartbeats
from queues.leases.capacity_leases import CapacityLeases
from queues.queue.work_queue import WorkQueue
from queues.redis.watch import RedisWatch
from tests.workers.api.answer_shapes import check_shape, is_json
from workers.api.access import Door as AccessDoor
from workers.api.app import build_app
from workers.api.application import Application
from workers.api.middleware.admission import Admission
from workers.api.outcome_watch import OutcomeWatch
from workers.api.services import Services, Write
from workers.client.typed.gateway import GatewayClient
from workers.client.typed.worker_proof import WorkerProof
from workers.dashboard.error_pages import ErrorPages
from workers.dashboard.hub import SnapshotHub
from workers.dashboard.routes import build_router
from workers.environment.principal_limits import PrincipalLimits
from workers.gateway.dashboard_source import LiveSource, cleared_hubs
from workers.gateway.page_source import LivePages
from workers.gateway.wiring import replaying, reporting, writing
from workers.publication.log_publishing import LogPublishing
from workers.use_cases.access import AccessTable
from workers.use_cases.denial_recording import DenialRecording
from workers.use_cases.principal_use import PrincipalUses
from workers.use_cases.provider_login import ProviderLogin
from workers.views.surroundings import FleetServices, WorkServices

URL = "http://127.0.0.1:8440"
CONFIRMATIONS = Confirmations({"user": b"u" * 32})
TOKEN = "the-token-of-these-tests"  # noqa: S105 - made up here
SESSION = "00000000-0000-4000-8000-000000000001"
ONTOLOGY = {
    "hypothesis_space_id": "space",
    "hypothesis_version": "v1",
    "causal_graph_ref": "none",
    "causal_graph_version": "0",
}

# Integers as JSON has them, floats as only Python's reader has them, and text that is no Unicode.
_TEXT = st.text(st.characters(exclude_categories=()), max_size=8)
_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | _TEXT
ANY_JSON = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=8,
)


@dataclass
class Door:
    """A gateway, and a client that talks to it without a socket."""

    services: Services
    app: Application
    committer: Committer
    http: httpx.AsyncClient
    heads: list[Any] = field(default_factory=list)
    """The head of every batch that was committed."""

    @property
    def ledger(self) -> Ledger:
        return self.services.ledger

    async def declare(self, session_id: str = SESSION, *hypotheses: str, **fields: Any) -> Any:
        body = {"session_id": session_id, "ontology": ONTOLOGY, "hypotheses": hypotheses, **fields}
        return await self.send("/v1/sessions", body)

    async def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        """Post to the session that these tests share."""
        return await self.send(f"/v1/sessions/{SESSION}/{path}", body, **headers)

    async def operate(self, *intents: dict[str, Any]) -> list[Any]:
        """Put intents through the session that these tests share and return their results."""
        response = await self.post("operations", {"intents": intents})
        assert response.status_code == 200, response.text
        results: list[Any] = response.json()["results"]
        return results

    async def reporter(self, path: str, body: Any, token: str | None = TOKEN) -> httpx.Response:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return await self.send(f"/internal/{path}", body, **headers)

    async def send(self, path: str, body: Any, **headers: str) -> httpx.Response:
        """Post JSON in ASCII, so that a body may hold what Unicode does not allow."""
        headers = {"Content-Type": "application/json", **headers}
        return await self.http.post(path, content=json.dumps(body), headers=headers)

    def client(self) -> GatewayClient:
        """The client that other processes use, in this one."""
        return client_of(self.app)


def client_of(app: Any, **options: Any) -> GatewayClient:
    return GatewayClient(URL, auth=WorkerProof(TOKEN), transport=transport_to(app), **options)


def http_client(app: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=transport_to(app), base_url=URL)


def transport_to(app: Any) -> httpx.ASGITransport:
    """Carry requests to an application of this process, and its failures back as answers."""
    return httpx.ASGITransport(app=app, raise_app_exceptions=False)


@asynccontextmanager
async def running_door(
    store: Store | None = None,
    *,
    host: Any,
    redis: Redis | None = None,
    token: str | None = TOKEN,
    hosts: frozenset[str] = frozenset(),
    shards: int | None = None,
    model: Any = None,
    kernel: Kernel | None = None,
    requests_max: int = 1024,
    takes_keys: bool = False,
    uses: PrincipalUses | None = None,
    provider: ProviderLogin | None = None,
    committed: Callable[[Any], None] = lambda _: None,
    publishing: Callable[[Ledger], LogPublishing] | None = None,
    **options: Any,
) -> AsyncIterator[Door]:
    """Run everything that a gateway process runs but its server and its relay."""
    ledger = Ledger.create(store or MemoryStore(), host)
    redis = redis or FakeAsyncRedis()
    held_shards = None if shards is None else HeldShards(shards)
    if shards is not None:
        with ledger.transaction() as transaction:
            create_shards(transaction, shards)

    def notify(head: Any) -> None:
        outcomes.notify()
        committed(head)

    committer = Committer(ledger, kernel or Kernel(), Orchestrator(host), committed=notify)
    sessions = SessionRuntime(
        ledger, committer, held_shards=held_shards, limits=SessionLimits(**options)
    )

    write = writing(committer)
    models = ActiveModels({"rotulus-local-1": "rotulus-local-1"})
    outcomes = OutcomeWatch(ledger)
    services = Services(
        outcomes=outcomes,
        admission=Admission(requests_max),
        ledger=ledger,
        sessions=sessions,
        synthesis=Synthesis(ledger, sessions, model or LocalModel(), host),
        work=WorkServices(
            {name: WorkQueue(redis, name) for name in QUEUE_KINDS},
            CapacityLeases(redis),
            Heartbeats(redis),
            redis,
            RedisWatch(redis),
        ),
        write=write,
        report=reporting(committer),
        confirmations=CONFIRMATIONS,
        replay=replaying(write, models),
        worker_token=token,
        door=_access_door(ledger, token, uses, write) if takes_keys else None,
        provider=provider,
        fleet=FleetServices(held_shards),
        publishing=None if publishing is None else publishing(ledger),
    )
    hub, cleared = SnapshotHub(LiveSource(services, 4)), cleared_hubs(services, 4)
    router = build_router(hub, LivePages(services), cleared)
    pages = ErrorPages().reader_send
    app = build_app(services, router, hosts=hosts, host=host, reader_send=pages)
    async with anyio.create_task_group() as tasks, http_client(app) as http:
        http.event_hooks["response"] += [check_numbers, check_shape]
        ready = anyio.Event()
        tasks.start_soon(committer.run)
        tasks.start_soon(outcomes.run)
        tasks.start_soon(sessions.run, ready.set)
        for each in (hub, *cleared.values()) if takes_keys else ():
            tasks.start_soon(each.run)
        await ready.wait()
        yield Door(services, app, committer, http)
        tasks.cancel_scope.cancel()
    await redis.aclose()


def _access_door(
    ledger: Ledger, token: str | None, uses: PrincipalUses | None, write: Write
) -> AccessDoor:
    if uses is None:
        uses = PrincipalUses(PrincipalLimits(), time.monotonic)
    return AccessDoor(
        AccessTable(ledger), token, False, uses, DenialRecording(write, ledger.host.now_us)
    )


async def check_numbers(response: httpx.Response) -> None:
    """K27, on every answer that any test gets: no integer that JavaScript would round."""
    await response.aread()
    if is_json(response):
        unsafe = [
            integer for integer in integers(response.json()) if abs(integer) > MAX_SAFE_INTEGER
        ]
        assert not unsafe, f"{response.request.url}: {unsafe}"


def integers(value: Any) -> list[int]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for element in value for number in integers(element)]
    return [value] if isinstance(value, int) else []


async def eventually(done: Callable[[], Any], within_s: float = 20) -> None:
    """Wait for what others do; `done` may answer later."""
    with anyio.fail_after(within_s):
        while True:
            answer = done()
            if await answer if isawaitable(answer) else answer:
                return
            await anyio.sleep(0.005)


def error_of(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The error of a response, which has the one body that every error has."""
    assert response.status_code == status, response.text
    body = response.json()
    assert list(body) == ["error"], body
    error: dict[str, Any] = body["error"]
    assert error["code"] == code, error
    assert set(error) <= {"code", "message", "details"}, error
    assert isinstance(error["message"], str)
    assert error["message"]
    assert isinstance(error.get("details", {}), dict)
    return error


def rows(ledger: Ledger, table: Any) -> list[dict[str, Any]]:
    with ledger.view() as view:
        return view.tables.scan(TableQuery(table))


def log_length(ledger: Ledger) -> int:
    return len(rows(ledger, schema.kernel_event_log))


def source(node_id: str, text: str = "The motion is DENIED.", **fields: Any) -> dict[str, Any]:
    return {
        "intent_kind": "create_source",
        "intent_key": f"key:{node_id}",
        "node_id": node_id,
        "corpus_id": "corpus:test",
        "content_kind": "order",
        "text": text,
        **fields,
    }


def understanding(node_id: str, *sources: str, **fields: Any) -> dict[str, Any]:
    return {
        "intent_kind": "synthesize_cu",
        "intent_key": f"key:{node_id}",
        "node_id": node_id,
        "corpus_id": "corpus:test",
        "title": "What was decided",
        "source_spans": [
            {"source_ref": source_ref, "offset": 0, "length": 3} for source_ref in sources
        ],
        **fields,
    }


def claim(node_id: str, source_ref: str, understanding_id: str, **fields: Any) -> dict[str, Any]:
    return {
        "intent_kind": "create_claim",
        "intent_key": f"key:{node_id}",
        "node_id": node_id,
        "corpus_id": "corpus:test",
        "span": {"source_ref": source_ref, "offset": 0, "length": 3},
        "text": "The",
        "authority": 0.75,
        "understanding_id": understanding_id,
        **fields,
    }


def is_uuid(text: str) -> bool:
    return str(UUID(text)) == text
