"""Logs each job that is done, for somebody who reads along; failures are logged in any case."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import anyio
import structlog

from kernel.values.foreign_code import message_of
from workers.plugins import JobContext, QueuePlugin

SHOWN_CHARS_MAX: Final = 200
JOB_DONE: Final = "job_done"

_log = structlog.get_logger(__name__)


def log_jobs(plugin: QueuePlugin) -> QueuePlugin:
    """Return a queue whose handler logs what it returned, and how long it took."""

    async def handle(job: JobContext[Any]) -> Mapping[str, Any] | None:
        began_s = anyio.current_time()
        result = await plugin.handler(job)
        _log.info(
            JOB_DONE,
            queue=plugin.name,
            request_id=job.request_id,
            attempt=job.attempt,
            took_ms=round(1000 * (anyio.current_time() - began_s)),
            result=message_of(result)[:SHOWN_CHARS_MAX],
        )
        return result

    return replace(plugin, handler=handle)
