"""Runs the process tree of one machine: Redis, a gateway, workers, all children of one parent.

With `ROTULUS_REDIS_URL` set the tree has no Redis of its own; nothing else differs. The parent
holds the data folder's lock and every port, and makes the token by which its workers are known.

Before it starts a process the parent migrates an older `ledger.db` of its data folder: the lock
says that nothing else runs on it, and the migration is one transaction, so nothing is copied
before. There is no way back to an older program. A database may have other users and `rotulus
gateway` holds no lock, so both refuse instead (`ledger_schema_older`) and name `rotulus migrate`.
The parent also compares the schema of its file, so that an altered one is a refusal and not a
gateway that is started again and again.

On a full disk the tree waits, at its start and with whatever ends meanwhile, says so, and goes on
by itself when there is room (decision workers/0106). Processes that run need no restart for that.

After a clean end the ledger is one file: writers fold the write-ahead log when they close, and the
tree once more when its last process is gone, also one that was killed. Readers leave no file behind
where there was one. A log that a killed writer left stays as evidence until somebody writes.
"""

import secrets
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import anyio
import anyio.to_thread

from kernel.ledger.store.catalog import refuse_differences
from kernel.values.canonical import sha256_hex
from kernel.values.errors import LedgerSchemaDiffers, LedgerUnavailable
from queues.embedded.server import EmbeddedRedis, find_server
from workers.client.errors import GatewayError
from workers.client.typed.gateway import GatewayClient
from workers.environment.child_environment import Kind, child_environment
from workers.environment.data_folder import ROOM_BYTES, DataFolder, DataFolderError
from workers.environment.ledger_access import (
    DAMAGED,
    LedgerPlace,
    file_of,
    fold_ledger,
    ledger_place,
    migrate_ledger,
    open_record,
)
from workers.environment.listening import listen, port_of
from workers.environment.machine_limits import expect_fit
from workers.environment.output import forward
from workers.environment.settings import Settings, variable_of
from workers.process_tree.child_process import ChildSpec, ServiceSpec
from workers.process_tree.supervisor import AlikeDeaths, Supervisor, wait_until_unhindered

TOKEN_BYTES = 32


@dataclass(frozen=True, slots=True)
class Tree:
    """A process tree that has started."""

    supervisor: Supervisor
    folder: DataFolder
    ledger_place: LedgerPlace
    gateway_url: str
    further_worker: ChildSpec
    """A worker that waits until it is let begin, for whoever starts and stops it by itself."""

    worker_metrics_urls: tuple[str, ...] = ()


@asynccontextmanager
async def running_tree(
    settings: Settings,
    *,
    workers: int = 1,
    died_alike: Callable[[AlikeDeaths], None] = lambda _: None,
    sink: Callable[[bytes], None] = forward,
    port_from: str = "ROTULUS_PORT",
) -> AsyncIterator[Tree]:
    """Run the whole tree for the time of a block; leaving stops all of it within two seconds.

    `sink` takes each line that a process writes, `port_from` is what another port is named by.

    The tree binds every port itself before anything is started, and its processes inherit what it
    bound: a port that is taken is an error at once, and what answers there later is the tree's.

    Raises:
        MachineUnfitError: a limit of the machine leaves its processes no room to work.
        DataFolderError: another tree runs on this data folder, or others could open it.
        AddressUnusableError: somebody else listens at a port.
        LedgerSchemaDiffers: the data folder holds a ledger that this program cannot read.
        EmbeddedServerError: there is no Redis and no server to start.
        SettingsError: there are not as many ports as workers to measure.
        SupervisorError: a process could not be started, or dies again and again.
    """
    folder, place = DataFolder(settings.data_dir), ledger_place(settings)
    expect_fit(folder.path)  # what is tight, each of its processes says

    async def full_disk() -> str:
        with suppress(DataFolderError):  # whoever uses the folder next says what is wrong with it
            if not await anyio.to_thread.run_sync(folder.has_room):
                return f"no room for {ROOM_BYTES >> 20} MiB on the disk of {folder.path}"
        return ""

    await wait_until_unhindered(full_disk, "tree")
    with folder.lock(), ExitStack() as sockets:
        listening = sockets.enter_context(listen(settings.host, settings.port, port_from))
        measured = metrics_sockets(settings, workers, sockets)
        await anyio.to_thread.run_sync(bring_forward, place)
        gateway_url = _gateway_url(settings, listening)
        # The same for every tree on a folder, of which there is one at a time.
        name = f"{socket.gethostname()}:{sha256_hex(str(folder.path).encode())[:8]}"
        shared = settings.with_changes(
            port=port_of(listening),
            gateway_url=gateway_url,
            worker_token=secrets.token_urlsafe(TOKEN_BYTES),
            gateway_id=settings.gateway_id or name,
        )
        redis = None
        if not settings.redis_url:
            redis = EmbeddedRedis(folder.path, find_server(), settings.redis_prefix)

        def environment(
            kind: Kind, listening: socket.socket | None, *, waits: bool = False
        ) -> dict[str, str]:
            known = shared if redis is None else shared.with_changes(redis_url=redis.url)
            return child_environment(kind, known, listening, waits=waits)

        def child(
            name: str,
            kind: Kind,
            listening: socket.socket | None,
            ready: Callable[[], Awaitable[bool]] | None = None,
        ) -> ChildSpec:
            command = (sys.executable, "-m", "rotulus", kind)
            return ChildSpec(name, command, partial(environment, kind, listening), ready, listening)

        async with GatewayClient(gateway_url) as client:
            specs: list[ChildSpec | ServiceSpec] = []
            if redis is not None:
                specs.append(ServiceSpec("redis", redis))
            specs.append(child("gateway", "gateway", listening, partial(_is_up, client)))
            specs += [
                child(f"worker-{number}", "worker", door)
                for number, door in enumerate(measured, start=1)
            ]
            metrics_urls = tuple(
                f"{_url_of(settings, door)}/metrics" for door in measured if door is not None
            )
            try:
                alike: dict[str, dict[str, Any]] = {}

                def note_deaths(deaths: AlikeDeaths) -> None:
                    alike[deaths.name] = {**asdict(deaths), "at": datetime.now(UTC).isoformat()}
                    write_facts()
                    died_alike(deaths)

                def write_facts() -> None:
                    facts = {"gateway_url": gateway_url, "pids": supervisor.pids()}
                    folder.write_runtime(facts | {"died_alike": list(alike.values())})

                supervisor = Supervisor(
                    specs, died_alike=note_deaths, hindrance=full_disk, sink=sink
                )
                async with supervisor:
                    write_facts()
                    try:
                        waiting = replace(
                            child("worker", "worker", None),
                            env=partial(environment, "worker", None, waits=True),
                            waits=True,
                        )
                        yield Tree(supervisor, folder, place, gateway_url, waiting, metrics_urls)
                    finally:
                        folder.remove_runtime()
            finally:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(fold_ledger, place)


async def _is_up(client: GatewayClient) -> bool:
    """Tell whether the gateway works, or is red for what an operator mends while it runs.

    That is damaged records (L3), a ledger that went back, and a Redis that refuses: what is asked
    for meanwhile is on the record and is done then (decision workers/0370).
    """
    try:
        readiness = await client.readiness()
    except GatewayError:
        return False
    problems: Mapping[str, str] = readiness["problems"]
    mended = {*DAMAGED}
    if str(problems.get("redis", "")).startswith("refused"):
        mended.add("redis")
    is_halted = "ledger_went_back" in problems
    return is_halted or readiness["status"] != "not ready" or problems.keys() <= mended


def bring_forward(place: LedgerPlace) -> None:
    """Migrate the tree's own file; a database may have other users and waits for its operator.

    Raises:
        LedgerSchemaDiffers: no migration leads from the file's tables to those of this program.
    """
    file = file_of(place)
    if file is None:
        return
    try:
        with open_record(place) as view:
            # Better here and once than in a gateway that is started again and again.
            refuse_differences(view.schema_faults(), str(file))
    except LedgerUnavailable:
        return  # The gateway makes what is not there, and says what is wrong with what is.
    except LedgerSchemaDiffers as error:
        if error.code != "ledger_schema_older":
            raise
        migrate_ledger(place)


def metrics_sockets(
    settings: Settings, workers: int, sockets: ExitStack
) -> Sequence[socket.socket | None]:
    """Open a socket for the metrics of each worker, or none where the settings name no port.

    A worker has the same address after a restart.

    Raises:
        SettingsError: there are not as many ports.
    """
    first = settings.worker_metrics_port
    if first is None:
        return [None] * workers
    ports = [first + number if first else 0 for number in range(workers)]
    settings.with_changes(worker_metrics_port=ports[-1])  # raises where there are not as many ports
    variable = variable_of("worker_metrics_port")
    return [sockets.enter_context(listen(settings.host, port, variable)) for port in ports]


def _gateway_url(settings: Settings, listening: socket.socket) -> str:
    """Return where a tree's processes reach its gateway: over TLS by a name of its certificate."""
    if settings.tls_cert_file is not None and settings.advertised_url is not None:
        return settings.advertised_url
    return _url_of(settings, listening)


def _url_of(settings: Settings, listening: socket.socket) -> str:
    host, scheme = settings.host, "http" if settings.tls_cert_file is None else "https"
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - a comparison
    name = f"[{reachable}]" if ":" in reachable else reachable
    return f"{scheme}://{name}:{port_of(listening)}"
