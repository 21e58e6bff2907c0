"""Asks for the jobs of plug-ins' schedules: in each period one, under the period's own key.

Whichever worker claims the period asks (`cron.py`). If Redis forgot the claim, another asks for the
same under the same key, which is the same job.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import anyio.to_thread
import structlog

from kernel.values.canonical import canonicalize_readable
from kernel.values.foreign_code import traceback_of
from kernel.work.requests import SCHEDULE_KEY
from queues.fleet.cron_claims import PERIOD_S_MAX
from workers.client.errors import GatewayError
from workers.environment.foreign_threads import call_within
from workers.plugins import QueuePlugin, Schedule
from workers.plugins.cron_expression import CronExpression
from workers.worker.cron import Cron, CronTools

CONTENT_S_MAX = 30.0
"""How long a plug-in may take to say the content of a period's job."""

_REFUSED = frozenset({409, 422})
"""Statuses of a content that is refused each time."""

_log = structlog.get_logger(__name__)


def schedules_of(plugins: Mapping[str, QueuePlugin]) -> dict[str, Cron]:
    """Return the crons of plug-ins, by the queue and the schedule."""
    return {
        f"{plugin.name}/{schedule.name}": _cron(plugin, schedule)
        for plugin in plugins.values()
        for schedule in plugin.schedules
    }


def _cron(plugin: QueuePlugin, schedule: Schedule) -> Cron:
    async def ask(tools: CronTools) -> None:
        now_s = tools.ledger.host.now_us() / 1_000_000
        start_s = cron.start_s(cron.period_at(now_s))
        try:
            request = await anyio.to_thread.run_sync(
                call_within, CONTENT_S_MAX, _request_of, schedule, start_s
            )
        except Exception as error:  # noqa: BLE001 - a foreign program; its next period comes by itself
            _log.error(
                "schedule_failed",
                queue=plugin.name,
                schedule=schedule.name,
                exception=traceback_of(error),
            )
            return
        try:
            path = f"/v1/queues/{plugin.name}/requests"
            await tools.reporter.post(path, {"requests": [request]})
        except GatewayError as error:
            if error.status not in _REFUSED:
                raise  # the period is given back, and tried again
            _log.error(
                "schedule_refused", queue=plugin.name, schedule=schedule.name, why=str(error)
            )
            return
        _log.info("schedule_asked", queue=plugin.name, schedule=schedule.name)

    times = None if schedule.cron is None else CronExpression(schedule.cron)
    cron = Cron(schedule.every_s or PERIOD_S_MAX, ask, schedule.offset_s, times)
    return cron


def _request_of(schedule: Schedule, start_s: int) -> dict[str, Any]:
    """Return what asks for the job of a period; raises where it is nothing that can be sent."""
    content = dict(schedule.content(datetime.fromtimestamp(start_s, UTC)))
    request = {"request_key": f"{SCHEDULE_KEY}{schedule.name}:{start_s}", "content": content}
    if schedule.priority is not None:
        request["priority"] = schedule.priority
    canonicalize_readable(request)
    return request
