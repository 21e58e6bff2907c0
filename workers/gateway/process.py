"""The gateway process: wires everything that decides, and serves it over HTTP.

A gateway takes its shards before its first request, so that one alone answers as soon as it
listens. A stop has an order: streams end, the server finishes its requests, the shards are handed
over, the actors and the committer end, the ledger is closed.
"""

import secrets
import signal
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import anyio
import anyio.to_thread
import structlog
import uvicorn
from fastapi import FastAPI
from pydantic import SecretStr

from actors.commit.group_committer import Committer
from actors.commit.refusal_recorder import RefusalRecorder
from actors.commit.units import ReplayUnit, Unit
from actors.orchestrator.orchestrator import Orchestrator
from actors.sessions.elimination_store import AsyncEliminationStore
from actors.supervision import kept_up
from actors.synthesis.local_model import LocalModel
from actors.synthesis.model_client import ModelClient
from actors.synthesis.synthesis import Synthesis
from kernel.belief_record import declared_universe
from kernel.host import Host
from kernel.kernel import Kernel
from kernel.ledger.ledger import Ledger
from kernel.ledger.receipts import purge_expired
from kernel.model.replay import AuditContext, AuditReplayStrategy
from kernel.model_registry import ActiveModels, ModelRegistry
from kernel.refusal_runs import RefusalRuns
from queues.capacity_leases import CapacityLeases
from queues.connection import connect_redis
from queues.kernel_capacity import LeasedCapacity
from queues.outbox_relay import ROUTES, OutboxRelay
from queues.worker_heartbeats import Heartbeats
from workers.api.app import build_app
from workers.api.middleware.admission import Admission
from workers.api.outcome_watch import OutcomeWatch
from workers.api.services import (
    Replay,
    Replayed,
    ReplayTarget,
    Report,
    Services,
    Traceparents,
    Write,
)
from workers.clients.openai_model import HttpModel
from workers.dashboard.hub import SnapshotHub
from workers.dashboard.routes import build_router
from workers.environment.data_folder import DataFolder
from workers.environment.ledger_access import LedgerPlace, founded_ledger, ledger_place
from workers.environment.ledger_wait import WAIT_S, opened
from workers.environment.listening import BACKLOG, listen, port_of
from workers.environment.settings import Settings
from workers.environment.system_host import settle_memory, system_host
from workers.external_effects.performer import ExternalEffects
from workers.gateway.cluster import gateway_name, share_sessions
from workers.gateway.connection_limits import SlowClients, bounded, connections_max
from workers.gateway.dashboard_source import LiveSource
from workers.gateway.http_protocol import LimitedProtocol
from workers.gateway.metrics import GatewayMeasures, GatewayMetrics
from workers.gateway.metrics import install as install_metrics
from workers.gateway.tracing import gateway_traces
from workers.use_cases.authority_sweeps import DeferredCascades
from workers.use_cases.rollbacks import confirmations_of

Run = Callable[[], Coroutine[Any, Any, None]]

STOPS = (signal.SIGINT, signal.SIGTERM)
SHUTDOWN_S = 1
KEEP_ALIVE_S = 15
"""Longer than clients keep a connection (httpx 5 s), or one is closed while it is asked again."""

_log = structlog.get_logger(__name__)


class GatewayServer(uvicorn.Server):
    """A server that ends its streams and waits when it has to stop, without waiting for clients.

    `leave` releases the shards after the last request. uvicorn alone would raise the stop signal
    again at the end of its own shutdown and so end the process with the ledger open; this server
    takes the signal and does not raise it again.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        leave: Callable[[], Awaitable[None]],
        *stops: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._leave = leave
        self._stops = stops
        self.slow = SlowClients(lambda: self.server_state.connections)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle the stop signals while the block runs."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in STOPS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin the shutdown on a signal."""
        for stop in self._stops:
            stop()
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish the requests in flight, then call `leave`."""
        await super().shutdown(sockets)
        await self._leave()


async def serve_gateway(
    settings: Settings, redis_url: str, listening: socket.socket | None = None
) -> None:
    """Run a gateway until it has to stop, on a socket that its parent has bound or on its own.

    Raises:
        AddressUnusableError: somebody else listens at the address.
        DataFolderError: the folder cannot be used, or others could.
        Exception: when the ledger can no longer be trusted; whoever supervises starts it again.
    """
    folder = DataFolder(settings.data_dir)
    with listening or listen(settings.host, settings.gateway_port) as bound:
        folder.make()
        await _serve(settings, redis_url, bound)


async def _serve(settings: Settings, redis_url: str, listening: socket.socket) -> None:
    host, folder = system_host(), DataFolder(settings.data_dir)
    place = ledger_place(settings)
    # A server may be away for a moment; an error of a file is there to stay.
    ledger = await opened(partial(_open, place, host), 0 if isinstance(place, Path) else WAIT_S)
    redis = connect_redis(redis_url)
    leases = CapacityLeases(redis)
    traces = gateway_traces(settings)
    queues = {name: traces.queue(redis, name) for name in ROUTES}
    relays = [OutboxRelay(ledger, queue, time.monotonic) for queue in queues.values()]

    def notify_all() -> None:
        for relay in relays:
            relay.notify()
        external.notify()
        cascades.notify()
        outcomes.notify()

    outcomes = OutcomeWatch(ledger)
    capacity, refusals = _capacity(settings, leases), RefusalRuns()
    kernel = Kernel(
        idempotency_window_hours=settings.kernel_idempotency_window_hours,
        dev_mode=settings.kernel_dev_mode,
        capacity=capacity,
        refusals=refusals,
    )
    measures = GatewayMeasures()
    committer = Committer(
        ledger,
        kernel,
        Orchestrator(host, settings.kernel_causal_window_minutes),
        batch_max_units=settings.batch_max,
        committed=lambda _: notify_all(),
        measured=measures.written,
    )
    gateway = gateway_name(settings, port_of(listening))
    sharing = share_sessions(
        ledger,
        committer,
        redis,
        settings,
        gateway,
        _tombstones(settings, ledger),
        refused=measures.mail_refused,
    )
    sessions = traces.sessions(sharing.sessions, sharing.runtime)
    external = ExternalEffects(
        ledger, committer, folder.path, host.random_bytes, time.monotonic, sharing.ownership
    )
    sharing.taken(external.notify)

    async def write(unit: Unit) -> Any:
        [result] = await committer.commit([unit])
        if isinstance(result, Exception):
            raise result
        return result

    cascades = DeferredCascades(ledger, write)
    recorder = RefusalRecorder(refusals, write)

    models = ActiveModels(settings.current_model_versions)

    model = _model(settings)
    services = Services(
        ledger=ledger,
        sessions=sessions,
        synthesis=Synthesis(ledger, sessions, model, host, call_timeout_s=settings.model_timeout_s),
        queues=queues,
        leases=leases,
        heartbeats=Heartbeats(redis),
        redis=redis,
        write=traces.write(write),
        report=traces.report(_reporting(committer)),
        confirmations=confirmations_of(
            settings.user_confirmation_key, settings.architect_confirmation_key
        ),
        replay=_replaying(write, models),
        models=models,
        outcomes=outcomes,
        admission=Admission(settings.requests_max),
        worker_token=_secret(settings.worker_token),
        ownership=sharing.ownership,
        mail=sharing.mail,
    )
    hub = SnapshotHub(LiveSource(services, settings.lease_slots, folder.read_runtime))
    app = build_app(services, build_router(hub), hosts=settings.host_names, host=host)
    install_metrics(
        app, GatewayMetrics(measures, services, committer, sharing.runtime, settings, traces.spans)
    )
    traces.install(app)
    server = GatewayServer(
        server_config(app), _one_by_one(recorder.record, sharing.leave), hub.stop, outcomes.stop
    )
    settle_memory()
    try:
        await sharing.begin()
        _log.info("gateway_listens", port=port_of(listening), gateway=gateway)
        kept = (external.run, cascades.run, hub.run, capacity.run, outcomes.run, server.slow.run)
        await _beside(
            [committer.run, sharing.run],
            [*kept, recorder.run, *(relay.run for relay in relays)],
            server.serve([listening]),
        )
    finally:
        with anyio.CancelScope(shield=True):
            await redis.aclose()
            await _close(model)
            await anyio.to_thread.run_sync(ledger.close)
            await traces.close()


def _one_by_one(*steps: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    async def run() -> None:
        for step in steps:
            await step()

    return run


def _reporting(committer: Committer) -> Report:
    async def report(units: Sequence[Unit], _: Traceparents) -> list[Any]:
        return await committer.commit(units, urgent=True)

    return report


def _replaying(write: Write, models: ModelRegistry) -> Replay:
    async def replay(
        target: ReplayTarget, strategy: AuditReplayStrategy, context: AuditContext
    ) -> Replayed:
        return tuple(await write(ReplayUnit(target, strategy, models, context)))

    return replay


async def _beside(ending: Iterable[Run], kept: Iterable[Run], serving: Awaitable[None]) -> None:
    """Run loops for as long as the server serves.

    When an `ending` loop fails the process ends, because what sessions and their writer hold in
    memory cannot be trusted then. A `kept` loop is started again.
    """
    async with anyio.create_task_group() as tasks:
        for run in ending:
            tasks.start_soon(run)
        for run in kept:
            tasks.start_soon(kept_up, run.__qualname__, run)
        await serving
        tasks.cancel_scope.cancel()


def server_config(app: FastAPI) -> uvicorn.Config:
    """Return how an application is served."""
    config = uvicorn.Config(
        app,
        http=LimitedProtocol,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=SHUTDOWN_S,
        lifespan="off",
    )
    config.load()
    made = bounded(config.http_protocol_class, connections_max())
    config.http_protocol_class = made  # type: ignore[assignment]  # it is only called
    return config


def _secret(value: SecretStr | None) -> str | None:
    return None if value is None else value.get_secret_value()


def _capacity(settings: Settings, leases: CapacityLeases) -> LeasedCapacity:
    return LeasedCapacity(
        leases,
        settings.kernel_capacities,
        f"gateway-{secrets.token_hex(8)}",
        round(settings.kernel_capacity_period_s * 1000),
        time.monotonic,
    )


def _model(settings: Settings) -> ModelClient:
    if settings.model_url is None or settings.model_name is None:
        return LocalModel()
    return HttpModel(
        settings.model_url,
        settings.model_name,
        settings.model_key,
        timeout_s=settings.model_timeout_s,
    )


async def _close(model: ModelClient) -> None:
    if isinstance(model, HttpModel):
        await model.aclose()


def _tombstones(settings: Settings, ledger: Ledger) -> AsyncEliminationStore | None:
    if settings.tee_target is None:
        return None
    # gRPC takes a while to load, so it is loaded only where there is a Tee.
    from workers.tee.store import TeeStore  # noqa: PLC0415 - the reason above

    def known(session_id: str) -> frozenset[str] | None:
        with ledger.view() as view:
            return declared_universe(view, session_id)

    return AsyncEliminationStore(TeeStore(settings.tee_target, known=known))


def _open(place: LedgerPlace, host: Host) -> Ledger:
    """Open a ledger, found it if it is new, and delete what has expired."""
    ledger = founded_ledger(place, host)
    try:
        with ledger.transaction() as transaction:
            purge_expired(transaction)
    except BaseException:
        ledger.close()
        raise
    return ledger
