"""Whether a process traces; what it takes is loaded only where it does."""

from typing import TYPE_CHECKING

from fastapi import FastAPI
from redis.asyncio import Redis

from actors.runtime import SessionRuntime, Sessions
from queues.queue import WorkQueue
from workers.api.services import Report, Write
from workers.settings import Settings

if TYPE_CHECKING:
    from workers.gateway_traces import GatewayTraces
    from workers.worker_traces import WorkerTraces


def gateway_traces(settings: Settings) -> "Untraced | GatewayTraces":
    """Return the traces of a gateway."""
    if settings.traces_url is None:
        return Untraced()
    from workers.gateway_traces import GatewayTraces  # noqa: PLC0415 - see above
    from workers.spans import open_spans  # noqa: PLC0415

    return GatewayTraces(open_spans(settings.traces_url, "gateway", settings.traces_sample))


def worker_traces(settings: Settings) -> "WorkerTraces | None":
    """Return the traces of a worker, None where it has none."""
    if settings.traces_url is None:
        return None
    from workers.spans import open_spans  # noqa: PLC0415 - see above
    from workers.worker_traces import WorkerTraces  # noqa: PLC0415

    return WorkerTraces(open_spans(settings.traces_url, "worker", settings.traces_sample))


class Untraced:
    """The traces of a gateway that has none."""

    spans = None

    def queue(self, redis: Redis, name: str) -> WorkQueue:
        """Return a queue."""
        return WorkQueue(redis, name)

    def sessions(self, sessions: Sessions, _: SessionRuntime) -> Sessions:
        """Return the same sessions."""
        return sessions

    def write(self, write: Write) -> Write:
        """Return the same way to the next commit."""
        return write

    def report(self, report: Report) -> Report:
        """Return the same way to the next commit."""
        return report

    def install(self, _: FastAPI) -> None:
        """Leave an application as it is."""

    async def close(self) -> None:
        """Have nothing to send any more."""
