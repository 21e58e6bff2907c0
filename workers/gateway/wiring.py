"""Puts a gateway together, once: for its process, and for tests.

Nothing that is built here runs before `Gateway.run`. What is told of something later in this file
is told by a function that names it, so that everything has its callbacks when it is made
(workers/0088).
"""

import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from fastapi import FastAPI

from actors.commit.group_committer import Committer
from actors.commit.refusal_recorder import RefusalRecorder
from actors.commit.thought_units import Sealing
from actors.commit.units import ReplayUnit, Unit, commit_alone
from actors.orchestrator.orchestrator import Orchestrator
from actors.sessions.elimination_store import AsyncEliminationStore
from actors.supervision import kept_up
from actors.synthesis.synthesis import Synthesis
from kernel.authority.requests import CASCADE_QUEUE
from kernel.belief.record import declared_universe
from kernel.ledger.head_watch import LedgerWentBack
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.ledger.shards import Fence
from kernel.ledger.store.tables import SharedStore
from kernel.model.replay import AuditContext, AuditReplayStrategy
from kernel.records.external import EXTERNAL_QUEUE
from kernel.transaction.kernel import Kernel
from kernel.transaction.refusal_runs import RefusalRuns
from kernel.values.model_registry import ActiveModels, ModelRegistry
from kernel.work.queue_kinds import QUEUE_KINDS
from queues.fleet.worker_heartbeats import Heartbeats
from queues.leases.capacity_leases import CAPACITY_RESOURCE, CapacityLeases
from queues.leases.kernel_capacity import LeasedCapacity
from queues.queue.outbox_relay import OutboxRelay
from queues.redis.connection import RedisClient
from queues.redis.watch import RedisWatch
from workers.api.app import build_app
from workers.api.middleware.admission import Admission
from workers.api.middleware.path_prefix import PathPrefixMiddleware
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
from workers.dashboard.hub import SnapshotHub
from workers.dashboard.routes import build_router
from workers.environment.data_folder import DataFolder
from workers.environment.folder_owner import claim_effects
from workers.environment.key_file import seal_keys
from workers.environment.ledger_access import ledger_place
from workers.environment.ledger_clock import LedgerClock
from workers.environment.ledger_mark import mark_in, mark_of
from workers.environment.settings import Settings
from workers.external_effects.performer import ExternalEffects
from workers.gateway.cluster import Callbacks, GatewayCluster, share_sessions
from workers.gateway.dashboard_source import LiveSource
from workers.gateway.followers import Follower, items_of, requests_of, wake, work
from workers.gateway.loops.binding_routing import BindingRouting
from workers.gateway.loops.damage_recording import DamageRecording
from workers.gateway.loops.evidence_confirmation import EvidenceConfirmation
from workers.gateway.loops.extraction_restarts import ExtractionRestarts
from workers.gateway.loops.receipt_sealing import ReceiptSealing
from workers.gateway.loops.round_sealing import RoundSealing
from workers.gateway.loops.run_sealing import RunSealing
from workers.gateway.metrics import GatewayMeasures, GatewayMetrics
from workers.gateway.metrics import install as install_metrics
from workers.gateway.page_source import LivePages
from workers.gateway.publishing import publishing_of
from workers.gateway.tracing_switch import gateway_traces
from workers.implications.detecting_process import DetectingProcess
from workers.implications.detection import IMPLICATIONS, ImplicationDetection
from workers.implications.detectors import DETECTORS
from workers.models.configured_model import close_model, model_of
from workers.plugins.installed import elimination_store_plugin
from workers.use_cases.authority_sweeps import DeferredCascades, FencedWrite
from workers.use_cases.log_archiving import retention_policy
from workers.use_cases.rollbacks import confirmations_of

Run = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class Gateway:
    """A gateway, ready to be run beside a server of its application."""

    app: FastAPI
    services: Services
    sharing: GatewayCluster
    ending: Sequence[Run]
    """Loops whose failure ends the process: they hold what cannot be trusted then."""

    kept: Sequence[Run]
    """Loops that begin again after a failure."""

    stops: Sequence[Callable[[], None]]
    """What ends streams and waits, so that the server can finish its requests."""

    leave: Callable[[], Awaitable[None]]
    """Finish what is in hand and release the shards; to be called after the last request."""

    closing: Sequence[Callable[[], Awaitable[None]]]

    async def run(self, serving: Awaitable[None], *loops: Run) -> None:
        """Run everything for as long as the server serves; `loops` begin again when they end."""
        async with anyio.create_task_group() as tasks:
            for run in self.ending:
                tasks.start_soon(run)
            for run in (*self.kept, *loops):
                tasks.start_soon(kept_up, run.__qualname__, run)
            await serving
            tasks.cancel_scope.cancel()

    async def aclose(self) -> None:
        """Close Redis, the model's client, the ledger and the traces, in this order."""
        for close in self.closing:
            await close()


def build_gateway(
    settings: Settings,
    ledger: Ledger,
    redis: RedisClient,
    name: str,
    clock: LedgerClock,
    *,
    halted: bool = False,
    close: Callable[[Ledger], None] = Ledger.close,
) -> Gateway:
    """Put a gateway together on a ledger and a Redis; `name` is the gateway's among others.

    A `halted` one does nothing but say so, until somebody has accepted its ledger.
    """
    host, folder = ledger.host, DataFolder(settings.data_dir)
    traces = gateway_traces(settings)
    leases, watch = CapacityLeases(redis), RedisWatch(redis, mark_of(ledger, settings))
    queues = {queue: traces.queue(redis, queue) for queue in QUEUE_KINDS}
    outcomes = OutcomeWatch(ledger)
    capacity, refusals = _capacity(settings, leases, host.random_bytes), RefusalRuns()
    kernel = Kernel(
        idempotency_window_hours=settings.kernel_idempotency_window_hours,
        dev_mode=settings.kernel_dev_mode,
        capacity=capacity,
        throttle_ops_per_sec=settings.kernel_emergency_throttle_ops_per_sec or None,
        refusals=refusals,
    )
    measures = GatewayMeasures()

    def work_recorded() -> None:
        for follower in work_followers:
            follower.notify()

    committer = Committer(
        ledger,
        kernel,
        Orchestrator(host, settings.kernel_causal_window_minutes),
        batch_max_units=settings.batch_max,
        committed=lambda recorded: wake(followers, recorded),
        measured=measures.written,
    )

    def shards_taken() -> None:
        work_recorded()
        external.notify()

    sealing = Sealing(seal_keys(settings.seal_key), settings.round_sessions)
    sharing = share_sessions(
        ledger,
        committer,
        redis,
        settings,
        name,
        _tombstones(settings, ledger),
        Callbacks(shards_taken, measures.mail_refused, traces.handled, work_recorded),
        sealing,
    )
    relays = {
        name: OutboxRelay(ledger, queue, time.monotonic, sharing.work_leases[name])
        for name, queue in queues.items()
    }
    if isinstance(ledger.store, SharedStore):
        ledger.store.share(name, sharing.keeper.is_dead)
    external = ExternalEffects(
        ledger,
        committer,
        folder.path,
        host.random_bytes,
        time.monotonic,
        sharing.held_shards,
        claim=_claiming_effects(settings, folder.path),
    )
    sessions = traces.sessions(sharing.sessions)
    write = writing_alone(ledger, kernel) if halted else writing(committer)
    cascades = DeferredCascades(ledger, write, sharing.work_leases[CASCADE_QUEUE])
    routing, confirmation = BindingRouting(ledger, write), EvidenceConfirmation(ledger, write)
    restarts = ExtractionRestarts(ledger, write)
    implications = ImplicationDetection(
        ledger,
        write,
        DETECTORS,
        DetectingProcess(ledger_place(settings), DETECTORS, damage=ledger.damage),
        time.monotonic,
        sharing.work_leases[IMPLICATIONS],
    )
    work_followers = (
        *(Follower(relay.notify, items_of(queue)) for queue, relay in relays.items()),
        Follower(cascades.notify, requests_of(CASCADE_QUEUE)),
        Follower(routing.notify, lambda recorded: recorded.routing_marks),
        Follower(restarts.notify, lambda recorded: recorded.running_extractions),
        Follower(confirmation.notify, lambda recorded: recorded.operations),
        Follower(implications.notify, lambda recorded: recorded.operations),
    )
    followers = (
        *work_followers,
        Follower(sharing.work_notices.notify, work),
        Follower(external.notify, requests_of(EXTERNAL_QUEUE)),
        Follower(outcomes.notify, lambda recorded: recorded.outcomes),
    )
    recorder = RefusalRecorder(refusals, write)
    models = ActiveModels(settings.current_model_versions)
    model, worker_token = model_of(settings), settings.worker_token
    webhook_secret = settings.webhook_secret
    receipt_sealing = ReceiptSealing(ledger, write, settings.receipts_seal_s, time.monotonic)
    publishing = publishing_of(settings, ledger, time.monotonic, receipt_sealing.seal_outcomes)
    services = Services(
        ledger=ledger,
        sessions=sessions,
        synthesis=Synthesis(ledger, sessions, model, host, call_timeout_s=settings.model_timeout_s),
        queues=queues,
        leases=leases,
        heartbeats=Heartbeats(redis),
        redis=redis,
        redis_watch=watch,
        write=traces.write(write),
        report=traces.report(reporting(committer)),
        confirmations=confirmations_of(
            settings.user_confirmation_key, settings.architect_confirmation_key
        ),
        replay=replaying(write, models),
        outcomes=outcomes,
        admission=Admission(settings.requests_max),
        worker_token=worker_token.get_secret_value() if worker_token else None,
        slots={
            **dict.fromkeys(queues, settings.lease_slots),
            CAPACITY_RESOURCE: settings.binding_slots,
        },
        held_shards=sharing.held_shards,
        mail=sharing.mail,
        stalled_s=lambda: committer.stalled_s,
        clock_problem=clock.problem,
        owner_url=sharing.owner_url,
        absent_owner=sharing.absent_owner,
        gateway_urls=lambda: sharing.gateway_urls.urls,
        sealing=sealing,
        publishing=publishing,
        retention=retention_policy(settings),
        went_back=partial(_problem_of, ledger, halted),
        webhook_secret=webhook_secret.get_secret_value() if webhook_secret else None,
    )
    hub = SnapshotHub(LiveSource(services, settings.lease_slots, folder.read_runtime))
    app = build_app(
        services,
        build_router(hub, LivePages(services)),
        hosts=settings.host_names,
        host=host,
    )
    metrics = GatewayMetrics(measures, services, committer, sharing.runtime, settings, traces.spans)
    install_metrics(app, metrics)
    traces.install(app)
    if settings.path_prefix:
        app.add_middleware(PathPrefixMiddleware, prefix=settings.path_prefix)

    run_sealing = RunSealing(ledger, write, settings.landscape_run_rows, time.monotonic)

    async def leave() -> None:
        await recorder.record()
        await sharing.leave()
        await receipt_sealing.seal_outcomes()
        await run_sealing.stop()
        await publishing.publish_last()

    return Gateway(
        app,
        services,
        sharing,
        ending=(watch.run,) if halted else (committer.run, sharing.run, watch.run),
        kept=(watch.follow,)
        if halted
        else (
            watch.follow,
            external.run,
            cascades.run,
            routing.run,
            restarts.run,
            confirmation.run,
            implications.run,
            RoundSealing(ledger, write, sealing, settings.round_s).run,
            run_sealing.run,
            receipt_sealing.run,
            publishing.run,
            hub.run,
            capacity.run,
            outcomes.run,
            recorder.run,
            DamageRecording(ledger, write).run,
            clock.keep,
            *(relay.run for relay in relays.values()),
        ),
        stops=(hub.stop, outcomes.stop, publishing.stop, services.streams.stop),
        leave=_leave_nothing if halted else leave,
        closing=(
            redis.aclose,
            partial(close_model, model),
            publishing.aclose,
            partial(anyio.to_thread.run_sync, close, ledger),
            traces.close,
        ),
    )


def writing(committer: Committer) -> FencedWrite:
    """Return what runs one unit in the next commit; damage that it met is noted (L3)."""

    async def write(unit: Unit, fence: Fence | None = None) -> Any:
        [result] = await committer.commit([unit], fence)
        if isinstance(result, Exception):
            committer.ledger.damage.note(result)
            raise result
        return result

    return write


def writing_alone(ledger: Ledger, kernel: Kernel) -> FencedWrite:
    """Return what runs one unit in a transaction of its own, where there is no committer."""
    orchestrator = Orchestrator(ledger.host)

    async def write(unit: Unit, fence: Fence | None = None) -> Any:
        commit = partial(commit_alone, unit, ledger, kernel, orchestrator, fence)
        result = await anyio.to_thread.run_sync(commit)
        if isinstance(result, Exception):
            raise result
        return result

    return write


def reporting(committer: Committer) -> Report:
    """Return what runs units in the next commit, before what is not urgent."""

    async def report(units: Sequence[Unit], _: Traceparents) -> list[Any]:
        results = await committer.commit(units, urgent=True)
        for result in results:
            if isinstance(result, Exception):
                committer.ledger.damage.note(result)
        return results

    return report


def replaying(write: Write, models: ModelRegistry) -> Replay:
    """Return what replays operations and records it."""

    async def replay(
        target: ReplayTarget, strategy: AuditReplayStrategy, context: AuditContext
    ) -> Replayed:
        return tuple(await write(ReplayUnit(target, strategy, models, context)))

    return replay


def _problem_of(ledger: Ledger, halted: bool) -> LedgerWentBack | None:  # noqa: FBT001 - see above
    if halted:
        return LedgerWentBack("finding_stands")
    return None if ledger.watch_of_head is None else ledger.watch_of_head.problem


async def _leave_nothing() -> None:
    return


def _capacity(
    settings: Settings, leases: CapacityLeases, random_bytes: Callable[[int], bytes]
) -> LeasedCapacity:
    return LeasedCapacity(
        leases,
        settings.kernel_capacities,
        f"gateway-{random_bytes(8).hex()}",
        round(settings.kernel_capacity_period_s * 1000),
        time.monotonic,
    )


def _claiming_effects(settings: Settings, folder: Path) -> Callable[[LedgerView], None]:
    def claim(view: LedgerView) -> None:
        if (mark := mark_in(view, settings)) is not None:
            claim_effects(folder, mark)

    return claim


def _tombstones(settings: Settings, ledger: Ledger) -> AsyncEliminationStore | None:
    if settings.elimination_store is not None:
        return AsyncEliminationStore(elimination_store_plugin(settings.elimination_store), "plugin")
    if settings.tee_target is None:
        return None
    # gRPC takes a while to load, so it is loaded only where there is a Tee.
    from workers.tee.store import TeeStore  # noqa: PLC0415 - the reason above

    def known(session_id: str) -> frozenset[str] | None:
        return ledger.read(lambda view: declared_universe(view, session_id))

    return AsyncEliminationStore(TeeStore(settings.tee_target, known=known))
