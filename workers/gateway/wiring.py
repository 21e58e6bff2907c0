"""Puts a gateway together, once: for its process, and for tests.

Nothing that is built here runs before `Gateway.run`. Loops that others' records wake enter
`Followers`, which is made first, so that no callback names what is made later (decisions
workers/0088 and workers/0460).
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from pydantic import SecretStr

from actors.commit.group_committer import CommittedTransaction, Committer
from actors.commit.refusal_recorder import RefusalRecorder
from actors.commit.thought_units import Sealing
from actors.commit.units import ReplayUnit, Unit, commit_alone
from actors.orchestrator.orchestrator import Orchestrator
from actors.sessions.elimination_store import AsyncEliminationStore
from actors.supervision import keep_running
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
from workers.api.access import Door
from workers.api.app import build_app
from workers.api.application import Application
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
from workers.dashboard.error_pages import ErrorPages
from workers.dashboard.hub import SnapshotHub
from workers.dashboard.routes import build_router
from workers.environment.data_folder import DataFolder
from workers.environment.folder_owner import claim_effects
from workers.environment.key_file import seal_keys
from workers.environment.ledger_access import ledger_place
from workers.environment.ledger_clock import LedgerClock
from workers.environment.ledger_mark import mark_in, mark_of
from workers.environment.principal_limits import limits_of_principals
from workers.environment.settings import Settings
from workers.environment.shown_settings import shown_settings
from workers.environment.tls_identity import certificates_in
from workers.external_effects.performer import ExternalEffects
from workers.gateway.cluster import Callbacks, GatewayCluster, share_sessions
from workers.gateway.dashboard_source import LiveSource, cleared_hubs
from workers.gateway.followers import (
    SHARDS,
    Followers,
    GatewayLoop,
    Run,
    concerns_others,
    items_of,
    requests_of,
)
from workers.gateway.loops.binding_routing import BindingRouting
from workers.gateway.loops.bulk_work import BulkWork
from workers.gateway.loops.chart_sampling import ChartSampling, CommitSamples
from workers.gateway.loops.damage_recording import DamageRecording
from workers.gateway.loops.due_round_sealing import DueRoundSealing
from workers.gateway.loops.evidence_confirmation import EvidenceConfirmation
from workers.gateway.loops.extraction_restarts import ExtractionRestarts
from workers.gateway.loops.receipt_sealing import ReceiptSealing
from workers.gateway.loops.registered_queues import RegisteredQueues
from workers.gateway.loops.run_sealing import RunSealing
from workers.gateway.metrics import GatewayMeasures, GatewayMetrics, metrics_router
from workers.gateway.page_source import LivePages
from workers.gateway.tracing_switch import Traces, gateway_traces
from workers.implications.detecting_process import DetectingProcess
from workers.implications.detection import IMPLICATIONS, ImplicationDetection
from workers.implications.disposed_motions import DETECTORS
from workers.models.configured_model import close_model, model_of
from workers.plugins.installed import elimination_store_plugin
from workers.publication.log_publishing import LogPublishing, publishing_of
from workers.telemetry.http_metrics import Measured
from workers.use_cases.access import AccessTable
from workers.use_cases.authority_sweeps import DeferredCascades, FencedWrite
from workers.use_cases.denial_recording import DenialRecording
from workers.use_cases.log_archiving import retention_policy
from workers.use_cases.principal_use import PrincipalUses
from workers.use_cases.provider_login import ProviderLogin
from workers.use_cases.rollbacks import confirmations_of
from workers.views.readiness import Health
from workers.views.surroundings import FleetServices, WorkServices


@dataclass(frozen=True, slots=True)
class Gateway:
    """A gateway, ready to be run beside a server of its application."""

    app: Application
    services: Services
    sharing: GatewayCluster
    loops: Sequence[GatewayLoop]
    stops: Sequence[Callable[[], None]]
    """What ends streams and waits, so that the server can finish its requests."""

    begun: Callable[[], Awaitable[None]]
    """Wait until its loops know what the first request may ask for."""

    leave: Callable[[], Awaitable[None]]
    """Finish what is in hand and release the shards; to be called after the last request."""

    closing: Sequence[Callable[[], Awaitable[None]]]

    async def run(self, serving: Awaitable[None], *runs: Run) -> None:
        """Run everything for as long as the server serves; `runs` begin again when they end."""
        async with anyio.create_task_group() as tasks:
            for loop in (*self.loops, *map(GatewayLoop, runs)):
                if loop.is_vital:
                    tasks.start_soon(loop.run)
                else:
                    tasks.start_soon(keep_running, loop.run.__qualname__, loop.run)
            await self.begun()
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
    traces, measures, followers = gateway_traces(settings), GatewayMeasures(), Followers()
    model, commits = model_of(settings), CommitSamples()
    work = _work(settings, ledger, redis, traces)
    writes = _writes(settings, ledger, work.leases, followers, (measures, commits), halted=halted)
    sharing = share_sessions(
        ledger,
        writes.committer,
        redis,
        settings,
        name,
        _tombstones(settings, ledger),
        Callbacks(
            followers.wake_for_shards,
            measures.count_refused_mail,
            traces.note_batch,
            followers.wake_for_work,
        ),
        Sealing(seal_keys(settings.seal_key), settings.round_sessions),
    )
    if isinstance(ledger.store, SharedStore):
        ledger.store.share(name, sharing.keeper.is_dead)
    following = _following_loops(settings, ledger, work, writes, sharing, followers)
    registered = _registered_queues(settings, ledger, work, traces, sharing, followers)
    publication = _publication(settings, ledger, writes.write)
    sampling = ChartSampling(
        ledger, writes.write, commits, work.queues, sharing.held_shards, version("rotulus")
    )
    health = Health(
        stalled_s=lambda: writes.committer.stalled_s,
        clock_problem=clock.problem,
        went_back=partial(_problem_of, ledger, halted),
        tree=DataFolder(settings.data_dir).read_runtime,
    )
    services = _services(settings, traces, work, writes, sharing, publication.log, model, health)
    doors = _doors(settings, traces, measures, writes, services, followers, sharing)

    async def leave() -> None:
        await writes.refusals.record()
        if services.door is not None:
            await services.door.denials.record()
        await sharing.leave()
        await publication.receipts.seal_outcomes()
        await publication.runs.stop()
        await publication.log.publish_last()

    loops = [GatewayLoop(work.redis_watch.run, is_vital=True), GatewayLoop(work.redis_watch.follow)]
    if not halted:
        loops += [
            GatewayLoop(sharing.run, is_vital=True),
            GatewayLoop(
                DueRoundSealing(ledger, writes.write, sharing.sealing, settings.round_s).run
            ),
            GatewayLoop(DamageRecording(ledger, writes.write).run),
            GatewayLoop(clock.keep),
            GatewayLoop(sampling.run),
            *writes.loops,
            *following,
            GatewayLoop(registered.run),
            *publication.loops,
            *doors.loops,
        ]
    return Gateway(
        doors.app,
        services,
        sharing,
        loops=loops,
        stops=(*doors.stops, publication.log.stop),
        begun=_wait_nothing if halted else registered.wait_looked,
        leave=_wait_nothing if halted else leave,
        closing=(
            redis.aclose,
            partial(close_model, model),
            publication.log.aclose,
            partial(anyio.to_thread.run_sync, close, ledger),
            traces.close,
        ),
    )


@dataclass(frozen=True, slots=True)
class _Writes:
    """How something is written: the kernel's committer, and units for which nobody waits."""

    committer: Committer
    write: FencedWrite
    refusals: RefusalRecorder
    loops: Sequence[GatewayLoop]


def _writes(
    settings: Settings,
    ledger: Ledger,
    leases: CapacityLeases,
    followers: Followers,
    measures: Sequence[GatewayMeasures | CommitSamples],
    *,
    halted: bool,
) -> _Writes:
    refusals = RefusalRuns()
    capacity = LeasedCapacity(
        leases,
        settings.kernel_capacities,
        f"gateway-{ledger.host.random_bytes(8).hex()}",
        round(settings.kernel_capacity_period_s * 1000),
        time.monotonic,
    )
    kernel = Kernel(
        idempotency_window_hours=settings.kernel_idempotency_window_hours,
        dev_mode=settings.kernel_dev_mode,
        capacity=capacity,
        throttle_ops_per_sec=settings.kernel_emergency_throttle_ops_per_sec or None,
        refusals=refusals,
    )

    def note_transaction(batch: CommittedTransaction) -> None:
        for each in measures:
            each.note_transaction(batch)

    committer = Committer(
        ledger,
        kernel,
        Orchestrator(ledger.host, settings.kernel_causal_window_minutes),
        batch_max_units=settings.batch_max,
        committed=followers.wake,
        measured=note_transaction,
    )
    write = writing_alone(ledger, kernel) if halted else writing(committer)
    recorder = RefusalRecorder(refusals, write)
    loops = (
        GatewayLoop(committer.run, is_vital=True),
        GatewayLoop(capacity.run),
        GatewayLoop(recorder.run),
    )
    return _Writes(committer, write, recorder, loops)


def _work(settings: Settings, ledger: Ledger, redis: RedisClient, traces: Traces) -> WorkServices:
    queues = {queue: traces.queue(redis, queue) for queue in QUEUE_KINDS}
    slots = dict.fromkeys(queues, settings.lease_slots) | {
        CAPACITY_RESOURCE: settings.binding_slots
    }
    return WorkServices(
        queues,
        CapacityLeases(redis),
        Heartbeats(redis),
        redis,
        RedisWatch(redis, mark_of(ledger, settings)),
        slots,
    )


def _following_loops(
    settings: Settings,
    ledger: Ledger,
    work: WorkServices,
    writes: _Writes,
    sharing: GatewayCluster,
    followers: Followers,
) -> list[GatewayLoop]:
    """Return the loops that carry on what the record asks for, each woken by what concerns it."""
    write, leases = writes.write, sharing.work_leases
    folder = DataFolder(settings.data_dir).path
    relays = {
        name: OutboxRelay(ledger, queue, time.monotonic, leases[name])
        for name, queue in work.queues.items()
    }
    external = ExternalEffects(
        ledger,
        writes.committer,
        folder,
        ledger.host.random_bytes,
        time.monotonic,
        sharing.held_shards,
        claim=_claiming_effects(settings, folder),
    )
    cascades = DeferredCascades(ledger, write, leases[CASCADE_QUEUE])
    routing, confirmation = BindingRouting(ledger, write), EvidenceConfirmation(ledger, write)
    restarts, bulk = ExtractionRestarts(ledger, write), BulkWork(ledger, write, work.queues)
    implications = ImplicationDetection(
        ledger,
        write,
        DETECTORS,
        DetectingProcess(ledger_place(settings), DETECTORS, damage=ledger.damage),
        time.monotonic,
        leases[IMPLICATIONS],
    )
    for queue, relay in relays.items():
        followers.add(relay.notify, items_of(queue))
    followers.add(cascades.notify, requests_of(CASCADE_QUEUE))
    followers.add(routing.notify, lambda recorded: recorded.routing_marks)
    followers.add(bulk.notify, lambda recorded: recorded.bulk_operations)
    followers.add(restarts.notify, lambda recorded: recorded.running_extractions)
    followers.add(confirmation.notify, lambda recorded: recorded.operations)
    followers.add(implications.notify, lambda recorded: recorded.operations)
    followers.add(external.notify, requests_of(EXTERNAL_QUEUE), of=(SHARDS,))
    followers.add(sharing.work_notices.notify, concerns_others, of=())
    runs = [external.run, cascades.run, routing.run, restarts.run, confirmation.run]
    runs += [implications.run, bulk.run, *(relay.run for relay in relays.values())]
    return [GatewayLoop(run) for run in runs]


def _registered_queues(
    settings: Settings,
    ledger: Ledger,
    work: WorkServices,
    traces: Traces,
    sharing: GatewayCluster,
    followers: Followers,
) -> RegisteredQueues:
    """Return what serves the queues that workers register while this gateway runs."""
    relays: dict[str, OutboxRelay] = {}

    def forget(name: str) -> None:
        if name in relays:
            followers.remove(relays.pop(name).notify)
        for places in (work.queues, work.slots, sharing.work_leases):
            places.pop(name, None)

    def serve(name: str) -> Run:
        forget(name)
        queue = work.queues[name] = traces.queue(work.redis, name)
        work.slots[name] = settings.lease_slots
        relay = OutboxRelay(ledger, queue, time.monotonic, sharing.lease_work(name))
        relays[name] = relay
        followers.add(relay.notify, items_of(name))
        return relay.run

    registered = RegisteredQueues(ledger, serve, forget)
    followers.add(registered.notify, lambda recorded: recorded.registrations)
    return registered


@dataclass(frozen=True, slots=True)
class _Publication:
    """What seals receipts and runs, and publishes the log over them."""

    log: LogPublishing
    receipts: ReceiptSealing
    runs: RunSealing
    loops: Sequence[GatewayLoop]


def _publication(settings: Settings, ledger: Ledger, write: FencedWrite) -> _Publication:
    receipts = ReceiptSealing(ledger, write, settings.receipts_seal_s, time.monotonic)
    runs = RunSealing(ledger, write, settings.landscape_run_rows, time.monotonic)
    log = publishing_of(settings, ledger, time.monotonic, receipts.seal_outcomes)
    return _Publication(
        log, receipts, runs, [GatewayLoop(part.run) for part in (runs, receipts, log)]
    )


def _services(
    settings: Settings,
    traces: Traces,
    work: WorkServices,
    writes: _Writes,
    sharing: GatewayCluster,
    publishing: LogPublishing,
    model: Any,
    health: Health,
) -> Services:
    ledger, sessions = writes.committer.ledger, traces.sessions(sharing.sessions)
    return Services(
        ledger=ledger,
        sessions=sessions,
        synthesis=Synthesis(
            ledger, sessions, model, ledger.host, call_timeout_s=settings.model_timeout_s
        ),
        work=work,
        fleet=FleetServices(
            sharing.held_shards,
            sharing.mail,
            sharing.owner_url,
            sharing.absent_owner,
            sharing.absent_owners,
            lambda: sharing.gateway_urls.urls,
        ),
        health=health,
        write=traces.write(writes.write),
        report=traces.report(reporting(writes.committer)),
        confirmations=confirmations_of(
            settings.user_confirmation_key, settings.architect_confirmation_key
        ),
        replay=replaying(writes.write, ActiveModels(settings.current_model_versions)),
        outcomes=OutcomeWatch(ledger),
        admission=Admission(settings.requests_max),
        worker_token=_secret(settings.worker_token),
        door=_door(settings, ledger, writes.write),
        provider=_provider(settings, ledger),
        webhook_secret=_secret(settings.webhook_secret),
        sealing=sharing.sealing,
        publishing=publishing,
        retention=retention_policy(settings),
    )


def _provider(settings: Settings, ledger: Ledger) -> ProviderLogin | None:
    if not settings.takes_keys or settings.oidc_issuer is None:
        return None
    # The library of signatures takes a while to load.
    from workers.use_cases.openid_login import OpenIdLogin, OpenIdSettings  # noqa: PLC0415

    stated = OpenIdSettings(
        settings.oidc_issuer,
        str(settings.oidc_client_id),
        _secret(settings.oidc_client_secret),
        str(settings.oidc_redirect_url),
        settings.oidc_scopes,
        settings.oidc_name_claim,
        settings.oidc_groups_claim,
    )
    return OpenIdLogin(stated, ledger.host.now_us)


def _door(settings: Settings, ledger: Ledger, write: Write) -> Door | None:
    if not settings.takes_keys:
        return None
    table = AccessTable(ledger)
    return Door(
        table,
        _secret(settings.worker_token),
        settings.webhook_secret is not None,
        PrincipalUses(limits_of_principals(settings.principal_limits), time.monotonic),
        DenialRecording(write, ledger.host.now_us),
    )


@dataclass(frozen=True, slots=True)
class _Doors:
    """The application of HTTP, and what pushes to those who listen."""

    app: Application
    loops: Sequence[GatewayLoop]
    stops: Sequence[Callable[[], None]]


def _doors(
    settings: Settings,
    traces: Traces,
    measures: GatewayMeasures,
    writes: _Writes,
    services: Services,
    followers: Followers,
    sharing: GatewayCluster,
) -> _Doors:
    outcomes = services.outcomes
    followers.add(outcomes.notify, lambda recorded: recorded.outcomes, of=())
    loops = [GatewayLoop(outcomes.run)]
    if services.door is not None:
        table = services.door.table
        followers.add(table.notify, lambda recorded: recorded.access, of=())
        loops += [GatewayLoop(table.run), GatewayLoop(services.door.denials.run)]
    hub = SnapshotHub(LiveSource(services, settings.lease_slots))
    cleared = cleared_hubs(services, settings.lease_slots)
    hubs = (hub, *cleared.values())
    metrics = GatewayMetrics(
        measures, services, writes.committer, sharing.runtime, settings, traces.spans
    )
    app = build_app(
        services,
        build_router(hub, LivePages(services, shown_settings(settings)), cleared),
        metrics_router(metrics),
        hosts=settings.host_names,
        host=services.ledger.host,
        reader_send=ErrorPages().reader_send,
    )
    app.add_middleware(Measured, observe=measures.note_answer)
    traces.install(app)
    if settings.path_prefix:
        app.add_middleware(PathPrefixMiddleware, prefix=settings.path_prefix)
    return _Doors(
        app,
        [*(GatewayLoop(each.run) for each in hubs), *loops],
        (*(each.stop for each in hubs), outcomes.stop, services.streams.stop),
    )


def _secret(value: SecretStr | None) -> str | None:
    return None if value is None else value.get_secret_value()


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


async def _wait_nothing() -> None:
    return


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

    def known_universe(session_id: str) -> frozenset[str] | None:
        return ledger.read(lambda view: declared_universe(view, session_id))

    file = settings.tee_ca_file
    authorities = None if file is None else certificates_in(file)
    token = _secret(settings.worker_token) if settings.takes_keys else None
    store = TeeStore(
        settings.tee_target, known=known_universe, authorities=authorities, token=token
    )
    return AsyncEliminationStore(store)
