"""Runs the worker process: a ledger that it may only read, queues, and a gateway."""

import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, NoReturn

import anyio
import anyio.to_thread
import structlog

from actors.synthesis.field_extraction import FieldExtraction
from kernel.ledger.head_watch import HeadWatch, LedgerWentBack
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.values.errors import LedgerUnavailable
from kernel.verify.checked_reading import DoubtedLedger
from queues.redis.connection import connect_redis
from workers.client.failover import FailoverTransport
from workers.client.typed.damage_reports import report_damage
from workers.client.typed.gateway import GatewayClient
from workers.client.typed.worker_proof import WorkerProof
from workers.environment.ledger_access import ledger_place, open_ledger
from workers.environment.ledger_clock import LedgerClock
from workers.environment.ledger_wait import open_patiently
from workers.environment.listening import listen
from workers.environment.machine_limits import begin_within_limits
from workers.environment.settings import Settings
from workers.environment.system_host import end_process, system_host
from workers.environment.tls_identity import tls_identity
from workers.models.configured_model import model_of_settings
from workers.plugins.installed import extractor_plugins, queue_plugins
from workers.telemetry.metrics_endpoint import open_door
from workers.worker.arq_runner import WorkerProcess
from workers.worker.handlers.extractors import (
    CLAIM_AUTHORITY,
    EXTRACTOR_OF,
    Extractors,
    ModelExtractor,
)
from workers.worker.queue_registrations import keep_registered
from workers.worker.wiring import AroundEvaluator, build_worker, itself

GATEWAY_PATIENCE_S = 3.0
"""Shorter than a claim is visible, so that a claim is given back before it expires."""

LOOK_EVERY_S = 1.0
"""Pause between two looks at the head of the ledger of a worker that has nothing to do."""
DAMAGE_EVERY_S = 1.0
"""Pause between two looks whether a damaged record was read."""

_log = structlog.get_logger(__name__)

if TYPE_CHECKING:
    from workers.worker.item_spans import WorkerTraces


async def serve_worker(
    settings: Settings,
    redis_url: str,
    around_evaluator: AroundEvaluator = itself,
    *,
    measured: socket.socket | None = None,
) -> NoReturn:
    """Work until SIGTERM or SIGINT, then finish or give back what is in hand and end the process.

    An evaluation that goes on, on a thread or because it does not end when it is cancelled, ends
    with the process (decision workers/0105). `measured` is where the worker's parent lets it be
    measured.
    """
    begin_within_limits(settings.data_dir)
    # Before anything is waited for, so that one that does not load is said.
    plugins = queue_plugins(settings.app)
    place, clock = ledger_place(settings), LedgerClock()
    host = system_host(clock.now_us)
    # The gateway that founds it may still be starting.
    connections = settings.database_connections
    reading = partial(open_ledger, read_only=True, primary=True, connections=connections)
    opening = partial(reading, place, host)
    ledger = DoubtedLedger(await open_patiently(opening))
    await _wait_until_accepted(ledger)
    redis = connect_redis(redis_url, settings.redis_prefix)
    token, urls = settings.worker_token, settings.gateway_urls
    gateways = FailoverTransport(urls)
    gateway = GatewayClient(
        str(settings.gateway_url),
        auth=None if token is None else WorkerProof(token.get_secret_value()),
        transport=gateways,
        give_up_after_s=GATEWAY_PATIENCE_S,
    )
    traces = worker_traces(settings)
    with suppress(LedgerUnavailable):  # it is measured again
        await anyio.to_thread.run_sync(clock.measure, ledger.store.server_time_us)
    async with gateway, _extractors(settings, ledger) as extractors:
        process = build_worker(
            settings, ledger, redis, gateway, traces, extractors, around_evaluator
        )
        await process.watch.refuse_another()
        _log.info(
            "worker_starts",
            worker_id=process.worker_id,
            queues=list(process.processors),
            slots=process.slots,
        )
        with _metrics_door(settings, process, measured):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_stop_on_signal, process)
                tasks.start_soon(_stop_where_it_went_back, process, ledger)
                tasks.start_soon(clock.keep)
                tasks.start_soon(keep_registered, plugins, gateway)
                tasks.start_soon(_report_damage, ledger, gateway)
                tasks.start_soon(process.watch.run)
                tasks.start_soon(process.watch.follow)
                tasks.start_soon(gateways.follow_table, gateway)
                await process.run()
                tasks.cancel_scope.cancel()
    await redis.aclose()
    await anyio.to_thread.run_sync(ledger.close)
    if traces is not None:
        await anyio.to_thread.run_sync(traces.spans.close)
    end_process()


@asynccontextmanager
async def _extractors(settings: Settings, ledger: Ledger) -> AsyncIterator[Extractors]:
    """Yield the extractors of this worker, which has a model where the settings name one."""
    others = extractor_plugins(CLAIM_AUTHORITY, EXTRACTOR_OF)
    model, timeout_s = model_of_settings(settings), settings.model_timeout_s
    if model is None:
        yield Extractors(others=others)
        return
    asking = FieldExtraction(ledger, model, ledger.host.now_us, call_timeout_s=timeout_s)
    try:
        yield Extractors(ModelExtractor(asking, timeout_s), others)
    finally:
        await model.aclose()


@contextmanager
def _metrics_door(
    settings: Settings, process: WorkerProcess, listening: socket.socket | None
) -> Iterator[None]:
    """Serve the worker's metrics while the block runs, if a port was asked for."""
    if listening is None and settings.worker_metrics_port is None:
        yield
        return
    if listening is None:
        port = settings.worker_metrics_port or 0
        listening = listen(settings.host, port, "ROTULUS_WORKER_METRICS_PORT")
    hosts, tls = settings.host_names, tls_identity(settings)
    with open_door(listening, process.metrics.text, hosts=hosts, tls=tls) as listening_port:
        _log.info("worker_metrics", worker_id=process.worker_id, port=listening_port)
        yield


async def _wait_until_accepted(ledger: Ledger) -> None:
    """Wait until somebody has accepted a ledger that went back, and watch it from then on."""
    is_logged = False
    while await anyio.to_thread.run_sync(ledger.read, LedgerView.finding_stands):
        if not is_logged:
            _log.warning("worker_waits_for_accepted_ledger")
        is_logged = True
        await anyio.sleep(LOOK_EVERY_S)
    ledger.watch(HeadWatch(remembered_max=0))


async def _stop_where_it_went_back(process: WorkerProcess, ledger: Ledger) -> None:
    """End the worker, with all that it has in memory, where its ledger is another than it was."""
    while True:
        try:
            await anyio.to_thread.run_sync(ledger.read, LedgerView.head)
        except LedgerWentBack as error:
            _log.critical("ledger_went_back", departure=error.departure)
            process.stop()
            return
        except LedgerUnavailable:
            pass  # whoever has work in hand says so
        await anyio.sleep(LOOK_EVERY_S)


async def _report_damage(ledger: Ledger, gateway: GatewayClient) -> None:
    """Tell the gateway of damaged records that were read here, each until it has taken it."""
    while True:
        await anyio.sleep(DAMAGE_EVERY_S)
        met = ledger.damage.all()
        if met and await report_damage(gateway, met):
            ledger.damage.forget(met)


async def _stop_on_signal(process: WorkerProcess) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            process.stop()


def worker_traces(settings: Settings) -> "WorkerTraces | None":
    """Return the traces of a worker; None, and no module of tracing loaded, where it has none."""
    if settings.traces_url is None:
        return None
    from workers.telemetry.span_exporter import open_spans  # noqa: PLC0415 - only to trace
    from workers.worker.item_spans import WorkerTraces  # noqa: PLC0415

    return WorkerTraces(open_spans(settings.traces_url, "worker", settings.traces_sample))
