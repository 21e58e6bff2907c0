"""The process tree of one machine: Redis, a gateway, workers, all children of one parent.

With `ROTULUS_REDIS_URL` set the tree has no Redis of its own; nothing else differs. The parent
holds the data folder's lock, brings an older ledger in it forward, and makes the token by which
its workers are known.
"""

import secrets
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from kernel.canonical import sha256_hex
from kernel.errors import LedgerSchemaDiffers, LedgerUnavailable
from queues.embedded.server import EmbeddedRedis, find_server
from workers.clients.gateway import GatewayClient
from workers.environment.data_folder import DataFolder
from workers.environment.ledger_access import LedgerPlace, ledger_place, migrate_ledger, open_store
from workers.environment.settings import Settings, child_environment
from workers.process_tree.child_process import ChildSpec, ServiceSpec
from workers.process_tree.supervisor import Supervisor

TOKEN_BYTES = 32


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree that stands."""

    supervisor: Supervisor
    folder: DataFolder
    ledger_place: LedgerPlace
    gateway_url: str
    worker_metrics_urls: tuple[str, ...] = ()


@asynccontextmanager
async def running_tree(settings: Settings, *, workers: int = 1) -> AsyncIterator[Tree]:
    """Run the whole tree for the time of a block; leaving stops all of it within two seconds.

    Raises:
        DataFolderBusyError: another tree runs on this data folder.
        LedgerSchemaDiffers: the data folder holds a ledger that this program cannot read.
        EmbeddedServerError: there is no Redis and no server to start.
        SettingsError: there are not as many ports as workers to measure.
        SupervisorError: a process could not be started, or dies again and again.
    """
    folder = DataFolder(settings.data_dir)
    with folder.locked():
        await anyio.to_thread.run_sync(_bring_forward, ledger_place(settings))
        port = settings.port or _free_port(settings.host)
        gateway_url = f"http://{_url_host(settings.host)}:{port}"
        shared = settings.replaced(
            port=port,
            gateway_url=gateway_url,
            worker_token=secrets.token_urlsafe(TOKEN_BYTES),
            gateway_id=settings.gateway_id or _gateway_id(folder),
        )
        redis = None if settings.redis_url else EmbeddedRedis(folder.path, find_server())

        def environment(**more: int) -> dict[str, str]:
            known = shared if redis is None else shared.replaced(redis_url=redis.url)
            return child_environment(known.replaced(**more) if more else known)

        ports = _metrics_ports(settings, workers)
        metrics_urls = tuple(
            f"http://{_url_host(settings.host)}:{one['worker_metrics_port']}/metrics"
            for one in ports
            if one
        )

        async with GatewayClient(gateway_url) as client:

            async def ready() -> bool:
                return await client.answers("/readyz")

            command = (sys.executable, "-m", "workers")
            specs: list[ChildSpec | ServiceSpec] = []
            if redis is not None:
                specs.append(ServiceSpec("redis", redis))
            specs.append(ChildSpec("gateway", (*command, "gateway"), environment, ready))
            specs += [
                ChildSpec(f"worker-{number}", (*command, "worker"), partial(environment, **port))
                for number, port in enumerate(ports, start=1)
            ]
            async with Supervisor(specs) as supervisor:
                folder.write_runtime({"gateway_url": gateway_url, "pids": supervisor.pids()})
                try:
                    yield Tree(
                        supervisor, folder, ledger_place(settings), gateway_url, metrics_urls
                    )
                finally:
                    folder.remove_runtime()


def _bring_forward(place: LedgerPlace) -> None:
    """Migrate the tree's own file; a database may have other users and waits for its operator."""
    if not isinstance(place, Path):
        return
    try:
        open_store(place, read_only=True).close()
    except LedgerUnavailable:
        return  # The gateway makes what is not there, and says what is wrong with what is.
    except LedgerSchemaDiffers as error:
        if error.code != "ledger_schema_older":
            raise
        migrate_ledger(place)


def _gateway_id(folder: DataFolder) -> str:
    """The same for every tree on a folder, of which there is one at a time."""
    return f"{socket.gethostname()}:{sha256_hex(str(folder.path).encode())[:8]}"


def _metrics_ports(settings: Settings, workers: int) -> list[dict[str, int]]:
    """The port at which each worker can be measured, the same when it is started again."""
    first = settings.worker_metrics_port
    if first is None:
        return [{}] * workers
    found = [
        {"worker_metrics_port": first + number if first else _free_port(settings.host)}
        for number in range(workers)
    ]
    settings.replaced(**found[-1])  # raises where there are not as many ports
    return found


def _free_port(host: str) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def _url_host(host: str) -> str:
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - a comparison
    return f"[{reachable}]" if ":" in reachable else reachable
