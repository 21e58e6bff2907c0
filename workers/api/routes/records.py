"""Reading the record over HTTP: operations, the log, nodes, and the state of the queue."""

from typing import Annotated

from fastapi import Path, Query
from typing_extensions import TypedDict

from kernel.audit.log import LogRowDocument, log_document
from kernel.model.numbers import SEQUENCE_MAX
from kernel.work.pauses import Pause, pauses_of
from queues.fleet.worker_heartbeats import WorkerBeat
from workers.api.errors import ApiError
from workers.api.json_routes import json_router
from workers.api.services import Given
from workers.environment.system_host import now_ms
from workers.views.backlog import Backlog, backlog
from workers.views.late_workers import is_late
from workers.views.records import (
    NodeDocument,
    OperationRecordDocument,
    RequestCounts,
    count_requests,
    describe_node,
    describe_operation,
)
from workers.views.session_lists import NewestSessionsDocument, find_sessions

PAGE_MAX = 500
TEXT_MAX = 512
"""The longest name that the record can hold."""

RecordId = Annotated[str, Path(min_length=1, max_length=TEXT_MAX)]

router = json_router(prefix="/v1", tags=["records"])


class LogPage(TypedDict):
    """Rows of the log, in sequence."""

    rows: list[LogRowDocument]


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


@router.get("/operations/{operation_id}")
async def operation(operation_id: RecordId, services: Given) -> OperationRecordDocument:
    """Return an operation: its log row, envelope, effects and receipts."""
    description = await services.read(lambda view: describe_operation(view, operation_id))
    if description is None:
        raise ApiError("not_found", "no such operation is on the record")
    return description


@router.get("/sessions")
async def sessions(
    services: Given,
    words: Annotated[str | None, Query(max_length=TEXT_MAX)] = None,
    after: Annotated[str | None, Query(max_length=TEXT_MAX)] = None,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 100,
) -> NewestSessionsDocument:
    """List belief sessions, the last changed first; go on while there is a `next_after`.

    `words` are part of a session's id or of its title.
    """
    return await services.read(
        lambda view: find_sessions(view, words or None, after=after, limit=limit)
    )


@router.get("/nodes/{node_id:path}")
async def node(node_id: RecordId, services: Given) -> NodeDocument:
    """Return a node's record, and for an understanding since when its authority is stale."""
    description = await services.read(lambda view: describe_node(view, node_id))
    if description is None:
        raise ApiError("not_found", "no such node")
    return description


@router.get("/log")
async def log(
    services: Given,
    after: Annotated[int, Query(ge=0, le=SEQUENCE_MAX)] = 0,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 100,
) -> LogPage:
    """Return log rows in sequence, after one."""
    return {
        "rows": await services.read(
            lambda view: [
                log_document(view, row) for row in view.log_rows(after=after, limit=limit)
            ]
        )
    }


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
