"""The gateway process: opens the ledger, serves what `wiring` puts together, and stops in order.

A gateway takes its shards before its first request, so that one alone answers as soon as it
listens. A stop has an order: streams end, the server finishes its requests, the shards are handed
over, the actors and the committer end, the ledger is closed.
"""

import socket
from functools import partial

import anyio
import anyio.to_thread
import structlog

from kernel.ledger.ledger import Ledger
from kernel.ledger.receipts import purge_expired
from queues.connection import connect_redis
from workers.api.app import work_out_routes
from workers.environment.data_folder import DataFolder
from workers.environment.folder_owner import claim_folders
from workers.environment.ledger_access import LedgerPlace, file_of, founded_ledger, ledger_place
from workers.environment.ledger_clock import LedgerClock
from workers.environment.ledger_mark import mark_of
from workers.environment.ledger_wait import WAIT_S, answered, opened
from workers.environment.listening import listen, port_of
from workers.environment.memory import keep_trimming, settle_memory
from workers.environment.settings import Settings
from workers.environment.system_host import system_host
from workers.gateway.cluster import gateway_name
from workers.gateway.server import GatewayServer, server_config
from workers.gateway.wiring import build_gateway
from workers.plugins.installed import queue_plugins

_log = structlog.get_logger(__name__)


async def serve_gateway(
    settings: Settings, redis_url: str, listening: socket.socket | None = None
) -> None:
    """Run a gateway until it has to stop, on a socket that its parent has bound or on its own.

    Raises:
        AddressUnusableError: somebody else listens at the address.
        DataFolderError: the folder cannot be used, or others could.
        FolderOfAnotherLedgerError: what lies in one of its folders is another ledger's.
        RedisOfAnotherLedgerError: the keys of the prefix are another ledger's.
        Exception: when the ledger can no longer be trusted; whoever supervises starts it again.
    """
    folder = DataFolder(settings.data_dir)
    with listening or listen(settings.host, settings.gateway_port) as bound:
        folder.make()
        await _serve(settings, redis_url, bound)


async def _serve(settings: Settings, redis_url: str, listening: socket.socket) -> None:
    queue_plugins()  # their queues are in the table from here on
    place, clock = ledger_place(settings), LedgerClock()
    # A server may be away for a moment; an error of a file is there to stay.
    opening = partial(_open, place, clock, settings.database_connections)
    wait_s = 0 if file_of(place) is not None else WAIT_S
    ledger = await opened(opening, wait_s)
    name = gateway_name(settings, port_of(listening))
    redis = connect_redis(redis_url, settings.redis_prefix)
    gateway = build_gateway(settings, ledger, redis, name, clock)
    server = GatewayServer(server_config(gateway.app), gateway.leave, *gateway.stops)
    settle_memory()
    try:
        await work_out_routes(gateway.app)
        await answered(gateway.sharing.found, wait_s)
        if (mark := await mark_of(ledger, settings)()) is not None:
            await anyio.to_thread.run_sync(claim_folders, settings, mark)
        await gateway.services.redis_watch.refuse_another()
        await answered(gateway.sharing.begin, wait_s)
        _log.info("gateway_listens", port=port_of(listening), gateway=name)
        await gateway.run(server.serve([listening]), server.slow.run, keep_trimming)
    finally:
        with anyio.CancelScope(shield=True):
            await gateway.aclose()


def _open(place: LedgerPlace, clock: LedgerClock, connections: int) -> Ledger:
    """Open a ledger, found it if it is new, and delete what has expired."""
    host = system_host(clock.now_us)
    ledger = founded_ledger(place, host, connections=connections, clock=clock)
    try:
        with ledger.transaction() as transaction:
            purge_expired(transaction)
    except BaseException:
        ledger.close()
        raise
    return ledger
