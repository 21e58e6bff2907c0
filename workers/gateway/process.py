"""Runs the gateway process: opens the ledger, serves what `wiring` puts together, stops in order.

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
from kernel.ledger.store.tables import HasStandbys, Store
from kernel.transaction.kernel import Kernel
from queues.redis.connection import connect_redis
from workers.environment.data_folder import DataFolder
from workers.environment.folder_owner import claim_folders
from workers.environment.ledger_access import (
    LedgerPlace,
    file_of,
    ledger_place,
    open_or_create_ledger,
)
from workers.environment.ledger_clock import LedgerClock
from workers.environment.ledger_mark import mark_of
from workers.environment.ledger_wait import WAIT_S, open_patiently, retry_until_answer
from workers.environment.listening import listen, port_of
from workers.environment.machine_limits import begin_within_limits
from workers.environment.memory import keep_trimming, settle_memory
from workers.environment.settings import Settings
from workers.environment.system_host import system_host
from workers.environment.tls_identity import TlsIdentity, tls_identity
from workers.gateway.access import begin_access
from workers.gateway.cluster import gateway_name
from workers.gateway.head_keeper import HeadKeeper
from workers.gateway.server import GatewayServer, server_config
from workers.gateway.wiring import build_gateway, writing_alone
from workers.plugins.installed import queue_plugins
from workers.use_cases.access import AccessChanges

_log = structlog.get_logger(__name__)


async def serve_gateway(
    settings: Settings, redis_url: str, listening: socket.socket | None = None
) -> None:
    """Run a gateway until it has to stop, on a socket that its parent has bound or on its own.

    Raises:
        MachineUnfitError: a limit of the machine leaves it no room to work.
        AddressUnusableError: somebody else listens at the address.
        DataFolderError: the folder cannot be used, or others could.
        FolderOfAnotherLedgerError: what lies in one of its folders is another ledger's.
        TlsUnusable: its certificate or its key cannot be used.
        RedisOfAnotherLedgerError: the keys of the prefix are another ledger's.
        Exception: when the ledger can no longer be trusted; whoever supervises starts it again.
    """
    folder = DataFolder(settings.data_dir)
    begin_within_limits(folder.path)
    with listening or listen(settings.host, settings.port) as bound:
        folder.make()
        await _serve(settings, redis_url, bound)


async def _serve(settings: Settings, redis_url: str, listening: socket.socket) -> None:
    queue_plugins()  # those that are installed; workers register the others
    name = gateway_name(settings, port_of(listening))
    folder = DataFolder(settings.data_dir)
    keeper = HeadKeeper(name, folder.path, settings.checkpoint_key)
    tls = tls_identity(settings)
    while await _serve_one(settings, redis_url, listening, name, keeper, tls):
        _log.warning("gateway_begins_anew", gateway=name)


async def _serve_one(
    settings: Settings,
    redis_url: str,
    listening: socket.socket,
    name: str,
    keeper: HeadKeeper,
    tls: TlsIdentity | None,
) -> bool:
    """Serve from one opening of the ledger to its end; tell whether to begin anew."""
    place, clock = ledger_place(settings), LedgerClock()
    folder = DataFolder(settings.data_dir).path
    # A server may be away for a moment; an error of a file is there to stay.
    opening = partial(_open, place, clock, settings.database_connections, keeper)
    wait_s = 0 if file_of(place) is not None else WAIT_S
    ledger, halted = await open_patiently(opening, wait_s)
    redis = connect_redis(redis_url, settings.redis_prefix)
    gateway = build_gateway(settings, ledger, redis, name, clock, halted=halted, close=keeper.close)
    config = server_config(gateway.app, tls, settings.trusted_proxies)
    server = GatewayServer(config, gateway.leave, *gateway.stops)

    async def watch_head() -> None:
        await keeper.run(ledger, halted=halted, end=server.end)

    settle_memory()
    try:
        if not halted:
            await retry_until_answer(gateway.sharing.initialize_ledger, wait_s)
            if (mark := await mark_of(ledger, settings)()) is not None:
                await anyio.to_thread.run_sync(claim_folders, settings, mark)
            await gateway.services.work.redis_watch.refuse_another()
            await retry_until_answer(gateway.sharing.begin, wait_s)
        changes = AccessChanges(writing_alone(ledger, Kernel()), ledger.host)
        await begin_access(gateway.services.door, changes, folder, halted=halted)
        _log.info("gateway_listens", port=port_of(listening), gateway=name, halted=halted)
        # The server closes what it is given, and the next one listens on the same.
        serving = server.serve([listening.dup()])
        following = () if tls is None else (tls.follow,)
        await gateway.run(serving, watch_head, server.slow.run, keep_trimming, *following)
    finally:
        with anyio.CancelScope(shield=True):
            try:
                await anyio.to_thread.run_sync(keeper.keep, ledger)
            finally:
                await gateway.aclose()
    return server.is_to_begin_anew


def _open(
    place: LedgerPlace, clock: LedgerClock, connections: int, keeper: HeadKeeper
) -> tuple[Ledger, bool]:
    """Open a ledger, found it if it is new, and delete what has expired.

    Also tell whether it went back, so that the gateway stands halted.
    """
    host = system_host(clock.now_us)
    ledger = open_or_create_ledger(place, host, connections=connections, clock=clock)
    try:
        with ledger.transaction() as transaction:
            purge_expired(transaction)
        name_standbys(ledger.store)
        return ledger, keeper.settle(ledger)
    except BaseException:
        ledger.close()
        raise


def name_standbys(store: Store) -> None:
    """Log what a failover from the server to one of its standbys could lose."""
    if isinstance(store, HasStandbys):
        for standby in store.replication().asynchronous:
            _log.warning("standby_asynchronous", standby=standby.name, todo="`rotulus doctor`")
