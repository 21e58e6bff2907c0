"""Decides whether a gateway traces; the modules of tracing are loaded only if it does."""

from typing import TYPE_CHECKING, TypeAlias

from actors.sessions.runtime import Sessions
from queues.queue.work_queue import WorkQueue
from queues.redis.connection import RedisClient
from workers.api.application import Application
from workers.api.services import Report, Write
from workers.environment.settings import Settings

if TYPE_CHECKING:
    from workers.gateway.request_spans import GatewayTraces


Traces: TypeAlias = "Untraced | GatewayTraces"


def gateway_traces(settings: Settings) -> Traces:
    """Return what emits the spans of a gateway, or nothing where no collector is set."""
    if settings.traces_url is None:
        return Untraced()
    from workers.gateway.request_spans import GatewayTraces  # noqa: PLC0415 - see above
    from workers.telemetry.span_exporter import open_spans  # noqa: PLC0415

    return GatewayTraces(open_spans(settings.traces_url, "gateway", settings.traces_sample))


class Untraced:
    """The traces of a gateway that has none."""

    spans = None
    note_batch = None

    def queue(self, redis: RedisClient, name: str) -> WorkQueue:
        """Return a queue whose items carry no trace."""
        return WorkQueue(redis, name)

    def sessions(self, sessions: Sessions) -> Sessions:
        """Return the same sessions."""
        return sessions

    def write(self, write: Write) -> Write:
        """Return the same way to the next commit."""
        return write

    def report(self, report: Report) -> Report:
        """Return the same way to the next commit."""
        return report

    def install(self, _: Application) -> None:
        """Leave an application as it is."""

    async def close(self) -> None:
        """Have nothing to send any more."""
