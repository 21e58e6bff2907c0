"""Reading the record over HTTP: operations, the log, nodes, and the state of the queue."""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import Path, Query

from kernel.audit.log import log_document
from kernel.work.pauses import pauses_of
from workers.api.errors import ApiError
from workers.api.json_bodies import json_router
from workers.api.services import Given
from workers.views.records import SEQUENCE_MAX, count_requests, describe_node, describe_operation

PAGE_MAX = 500
TEXT_MAX = 512
"""The longest name that the record can hold."""

RecordId = Annotated[str, Path(min_length=1, max_length=TEXT_MAX)]

router = json_router(prefix="/v1", tags=["records"])


@router.get("/operations/{operation_id}")
async def operation(operation_id: RecordId, services: Given) -> dict[str, Any]:
    """Return an operation: its log row, envelope, effects and receipts."""
    description = await services.read(lambda view: describe_operation(view, operation_id))
    if description is None:
        raise ApiError("not_found", "no such operation is on the record")
    return description


@router.get("/nodes/{node_id:path}")
async def node(node_id: RecordId, services: Given) -> dict[str, Any]:
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
) -> dict[str, Any]:
    """Return log rows in sequence, after one."""
    return {
        "rows": await services.read(
            lambda view: [
                log_document(view, row) for row in view.log_rows(after=after, limit=limit)
            ]
        )
    }


@router.get("/queues")
async def queues(services: Given) -> dict[str, Any]:
    """Return what the record asks for, what each queue holds, what is paused, and who works."""
    requests = await services.read(count_requests)
    pauses = await services.read(pauses_of)
    depths = {name: await queue.depth() for name, queue in services.queues.items()}
    beats = await services.heartbeats.alive()
    return {
        "requests": requests,
        "queues": {
            name: asdict(depth) | {"paused_priorities": sorted(depth.paused_priorities)}
            for name, depth in depths.items()
        },
        "pauses": [asdict(pause) for pause in pauses],
        "workers": [beat.worker_id for beat in beats],
        "fleet": [asdict(beat) for beat in beats],
    }
