"""The worker process: a ledger that it may only read, a queue, and a gateway to hand in to."""

import os
import random
import signal

import anyio
import anyio.to_thread
import structlog

from kernel.authority.requests import AUTHORITY_QUEUE
from kernel.authority.strategy import BetaPosteriorMean
from kernel.errors import LedgerUnavailable
from kernel.ledger.ledger import Ledger
from queues.heartbeats import Heartbeats
from queues.leases import CapacityLeases
from queues.queue import WorkQueue
from workers.fleet import WorkerProcess, new_worker_id
from workers.gateway_client import GatewayClient
from workers.host import system_host
from workers.recompute import AuthorityDrainer
from workers.record import LedgerPlace, ledger_place, open_store, shown_place
from workers.redis_client import connect_redis
from workers.settings import Settings

LEDGER_RETRY_S = 0.1
LEDGER_WAIT_S = 20.0
GATEWAY_PATIENCE_S = 5.0
"""Shorter than a claim is visible, so that a claim is given back before it expires."""

_log = structlog.get_logger(__name__)


async def serve_worker(settings: Settings, redis_url: str) -> None:
    """Work until SIGTERM or SIGINT, then finish the batches in hand and return."""
    ledger = await _open_ledger(ledger_place(settings))
    redis = connect_redis(redis_url)
    queue = WorkQueue(redis, AUTHORITY_QUEUE)
    token = settings.worker_token
    gateway = GatewayClient(
        str(settings.gateway_url),
        worker_token=None if token is None else token.get_secret_value(),
        give_up_after_s=GATEWAY_PATIENCE_S,
    )
    async with gateway:
        process = WorkerProcess(
            redis=redis,
            queue=queue,
            leases=CapacityLeases(redis),
            heartbeats=Heartbeats(redis),
            drainer=AuthorityDrainer(ledger, queue, gateway, BetaPosteriorMean(), random.random),
            slots=settings.worker_slots,
            lease_slots=settings.lease_slots,
            worker_id=new_worker_id(),
            pid=os.getpid(),
        )
        _log.info("worker_starts", worker_id=process.worker_id, slots=process.slots)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_stop_on_signal, process)
            await process.run()
            tasks.cancel_scope.cancel()
    await redis.aclose()
    ledger.close()


async def _stop_on_signal(process: WorkerProcess) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            process.stop()


async def _open_ledger(place: LedgerPlace) -> Ledger:
    """Open the ledger for reading; the gateway that founds it may still be starting."""
    with anyio.move_on_after(LEDGER_WAIT_S):
        while True:
            try:
                return await anyio.to_thread.run_sync(
                    lambda: Ledger(open_store(place, read_only=True), system_host())
                )
            except LedgerUnavailable:
                await anyio.sleep(LEDGER_RETRY_S)
    raise LedgerUnavailable(f"no ledger at {shown_place(place)}: start a gateway on it first")
