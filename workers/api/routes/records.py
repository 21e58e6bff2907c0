"""Reading the record over HTTP: sessions, and the state of the queues."""

from typing import Annotated

from fastapi import Path
from typing_extensions import TypedDict

from kernel.work.pauses import Pause, pauses_of
from queues.fleet.worker_heartbeats import WorkerBeat
from workers.api.json_routes import json_router
from workers.api.services import Given
from workers.environment.system_host import now_ms
from workers.views.backlog import Backlog, backlog
from workers.views.late_workers import is_late
from workers.views.records import (
    RequestCounts,
    count_requests,
)

PAGE_MAX = 500
TEXT_MAX = 512
"""The longest name that the record can hold."""

RecordId = Annotated[str, Path(min_length=1, max_length=TEXT_MAX)]

router = json_router(prefix="/v1", tags=["records"])


class DepthDocument(TypedDict):
    """How many items a queue holds."""

    ready: dict[str, int]
    suspended: dict[str, int]
    delayed: int
    in_flight: int
    dead: int
    backlog: Backlog
    oldest_eligible_age_ms: dict[str, int]
    paused: bool
    paused_priorities: list[str]


class QueuesDocument(TypedDict):
    """What the record asks for, what each queue holds, what is paused, and who works.

    Late workers are those of the fleet that missed a beat.
    """

    requests: RequestCounts
    queues: dict[str, DepthDocument]
    pauses: list[Pause]
    workers: list[str]
    fleet: list[WorkerBeat]
    late_workers: list[str]


@router.get("/queues")
async def queues(services: Given) -> QueuesDocument:
    """Return what the record asks for, what each queue holds, what is paused, and who works."""
    requests = await services.read(count_requests)
    pauses = await services.read(pauses_of)
    depths = {name: await queue.depth() for name, queue in services.work.queues.items()}
    beats, at_ms = await services.work.heartbeats.alive(), now_ms()
    return {
        "requests": requests,
        "queues": {
            name: {
                "ready": depth.ready,
                "suspended": depth.suspended,
                "delayed": depth.delayed,
                "in_flight": depth.in_flight,
                "dead": depth.dead,
                "backlog": backlog(depth, requests["open_by_queue"].get(name, 0)),
                "oldest_eligible_age_ms": depth.oldest_eligible_age_ms,
                "paused": depth.paused,
                "paused_priorities": sorted(depth.paused_priorities),
            }
            for name, depth in depths.items()
        },
        "pauses": pauses,
        "workers": [beat.worker_id for beat in beats],
        "fleet": beats,
        "late_workers": [beat.worker_id for beat in beats if is_late(beat, at_ms)],
    }
