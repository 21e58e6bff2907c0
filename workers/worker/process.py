"""The worker process: a ledger that it may only read, queues, and a gateway for its reports."""

import os
import random
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from types import MappingProxyType

import anyio
import anyio.to_thread
import structlog

from kernel.authority.requests import AUTHORITY_QUEUE
from kernel.authority.strategy import BetaPosteriorMean
from kernel.ledger.ledger import Ledger
from kernel.work.contents import BINDING_QUEUE, EXTRACTION_QUEUE
from queues.capacity_leases import CapacityLeases
from queues.connection import connect_redis
from queues.cron_claims import Crons
from queues.outbox_relay import ROUTES
from queues.work_queue import WorkQueue
from queues.worker_heartbeats import Heartbeats
from workers.clients.gateway import GatewayClient
from workers.environment.ledger_access import ledger_place, open_store
from workers.environment.ledger_wait import opened
from workers.environment.listening import listen
from workers.environment.settings import Settings
from workers.environment.system_host import system_host
from workers.telemetry.metrics_endpoint import open_door
from workers.worker.arq_runner import WorkerProcess, new_worker_id
from workers.worker.batches import Drainer, Handler
from workers.worker.cron import CronRunner, CronTools
from workers.worker.gateway_reports import HandIn
from workers.worker.handlers.authority import AuthorityHandler
from workers.worker.handlers.binding import BindingHandler
from workers.worker.handlers.binding_evaluator import BindingCapacity, BindingEvaluator
from workers.worker.handlers.extraction import TransitionHandler
from workers.worker.tracing import worker_traces

GATEWAY_PATIENCE_S = 3.0
"""Shorter than a claim is visible, so that a claim is given back before it expires."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Bench:
    """What a handler is handed to work with."""

    ledger: Ledger
    hand_in: HandIn
    leases: CapacityLeases
    queue: WorkQueue
    worker_id: str
    binding_slots: int
    evaluator: BindingEvaluator | None = None


def _authority(bench: Bench) -> Handler:
    return AuthorityHandler(bench.ledger, bench.hand_in, BetaPosteriorMean())


def _binding(bench: Bench) -> Handler:
    capacity = BindingCapacity(bench.leases, bench.queue, bench.binding_slots, bench.worker_id)
    now_us = system_host().now_us
    return BindingHandler(bench.ledger, bench.hand_in, capacity, bench.evaluator, now_us)


def _extraction(bench: Bench) -> Handler:
    return TransitionHandler(bench.hand_in)


HANDLERS: Mapping[str, Callable[[Bench], Handler]] = MappingProxyType(
    {AUTHORITY_QUEUE: _authority, BINDING_QUEUE: _binding, EXTRACTION_QUEUE: _extraction}
)
"""The handler of each queue."""


async def serve_worker(
    settings: Settings,
    redis_url: str,
    evaluator: BindingEvaluator | None = None,
    *,
    measured: socket.socket | None = None,
) -> None:
    """Work until SIGTERM or SIGINT, then finish the batches in hand and return.

    `measured` is where the worker's parent lets it be measured.
    """
    place, host = ledger_place(settings), system_host()
    # The gateway that founds it may still be starting.
    ledger = await opened(lambda: Ledger(open_store(place, read_only=True), host))
    redis = connect_redis(redis_url)
    token = settings.worker_token
    gateway = GatewayClient(
        str(settings.gateway_url),
        worker_token=None if token is None else token.get_secret_value(),
        give_up_after_s=GATEWAY_PATIENCE_S,
    )
    worker_id, leases, hand_in = new_worker_id(), CapacityLeases(redis), HandIn(gateway)
    queues = {name: WorkQueue(redis, name) for name in ROUTES}
    traces = worker_traces(settings)
    drainers, alone = {}, anyio.Lock()
    for name in settings.queue_names:
        bench = Bench(
            ledger,
            hand_in,
            leases,
            queues[name],
            worker_id,
            settings.binding_slots,
            evaluator,
        )
        drainers[name] = Drainer(
            queues[name], HANDLERS[name](bench), hand_in, random.random, traces, alone
        )
    async with gateway:
        process = WorkerProcess(
            redis=redis,
            drainers=drainers,
            leases=leases,
            heartbeats=Heartbeats(redis),
            slots=settings.worker_slots,
            lease_slots=settings.lease_slots,
            worker_id=worker_id,
            pid=os.getpid(),
            crons=CronRunner(CronTools(queues, ledger, hand_in, Crons(redis)), worker_id),
            host=socket.gethostname(),
            version=version("rotulus"),
            spans=None if traces is None else traces.spans,
        )
        _log.info(
            "worker_starts",
            worker_id=process.worker_id,
            queues=list(drainers),
            slots=process.slots,
        )
        with _metrics_door(settings, process, measured):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_stop_on_signal, process)
                await process.run()
                tasks.cancel_scope.cancel()
    await redis.aclose()
    await anyio.to_thread.run_sync(ledger.close)
    if traces is not None:
        await anyio.to_thread.run_sync(traces.spans.close)


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
    with open_door(listening, process.metrics.text, hosts=settings.host_names) as found:
        _log.info("worker_metrics", worker_id=process.worker_id, port=found)
        yield


async def _stop_on_signal(process: WorkerProcess) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            process.stop()
