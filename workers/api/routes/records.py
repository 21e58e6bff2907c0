"""Reading the record over HTTP: operations, the log, nodes, and the state of the queue."""

from dataclasses import asdict
from typing import Annotated, Any

import orjson
from fastapi import Path, Query

from kernel.audit.log import log_document, superseded_row
from kernel.audit.operations import envelope_of
from kernel.authority.graph import is_understanding
from kernel.authority.requests import stale_since
from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.work.outcomes import open_by_queue
from queues.items import QueueDepth
from queues.outbox_relay import ROUTES
from workers.api.errors import ApiError
from workers.api.json_bodies import json_router
from workers.api.services import Given

PAGE_MAX = 500
SEQUENCE_MAX = 2**63 - 1
"""The greatest integer that every store can compare with."""

TEXT_MAX = 512
"""No name on the record is longer."""

RecordId = Annotated[str, Path(min_length=1, max_length=TEXT_MAX)]

router = json_router(prefix="/v1", tags=["records"])


@router.get("/operations/{operation_id}")
async def operation(operation_id: RecordId, services: Given) -> dict[str, Any]:
    """Return an operation: its log row, envelope, effects and receipts."""
    found = await services.read(lambda view: describe_operation(view, operation_id))
    if found is None:
        raise ApiError("not_found", "no such operation is on the record")
    return found


@router.get("/nodes/{node_id:path}")
async def node(node_id: RecordId, services: Given) -> dict[str, Any]:
    """Return a node's record, and for an understanding since when its authority is stale."""
    found = await services.read(lambda view: describe_node(view, node_id))
    if found is None:
        raise ApiError("not_found", "no such node")
    return found


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
    """Return what the record asks for, what each queue holds of it, and who works."""
    requests = await services.read(count_requests)
    depths = {name: await queue.depth() for name, queue in services.queues.items()}
    beats = await services.heartbeats.alive()
    return {
        "requests": requests,
        "queues": {name: describe_depth(depth) for name, depth in depths.items()},
        "workers": [beat.worker_id for beat in beats],
        "fleet": [asdict(beat) for beat in beats],
    }


def describe_node(view: LedgerView, node_id: str) -> dict[str, Any] | None:
    """Return a node's record; reading an authority computes nothing (INV-A-AUTHORITY-EAGER-1)."""
    found = view.node(node_id)
    if found is None or not is_understanding(found):
        return found
    return found | {"authority_stale_since": stale_since(view, node_id)}


def describe_operation(view: LedgerView, operation_id: str) -> dict[str, Any] | None:
    """Return everything that the record says of an operation, refused ones included."""
    row = view.log_row_of(operation_id)
    receipts = view.receipts_of(operation_id)
    if row is None:
        return {"operation_id": operation_id, "receipts": receipts} if receipts else None
    effects = view.tables.select(
        schema.applied_effects,
        {"ec_sequence_number": row["ec_sequence_number"]},
        order_by="ordinal",
    )
    lite = superseded_row(view, row)
    described = {
        "operation_id": operation_id,
        "row": log_document(view, row if lite is None else lite),
        "envelope": view.envelope(operation_id),
        "effects": [orjson.loads(effect["effect_bytes"]) for effect in effects],
        "receipts": receipts,
    }
    if lite is not None:
        described["superseded"] = {
            "row": orjson.loads(lite["row_bytes"]) | {"row_hash": lite["row_hash"]},
            "envelope": envelope_of(view, lite),
        }
    return described


def count_requests(view: LedgerView) -> dict[str, Any]:
    """Return how many requests were recorded and how they ended."""
    recorded = view.head().request_sequence
    still_open = view.tables.count(schema.outbox, {"open": 1})
    dead = view.tables.count(schema.outbox_outcomes, {"outcome": "dead_letter"})
    cancelled = view.tables.count(schema.outbox_outcomes, {"outcome": "cancelled"})
    outcomes = {
        "completed": recorded - still_open - dead - cancelled,
        "dead_letter": dead,
        "cancelled": cancelled,
    }
    by_queue = dict.fromkeys(ROUTES, 0) | open_by_queue(view)
    return {
        "recorded": recorded,
        "open": still_open,
        "open_by_queue": by_queue,
        "outcomes": outcomes,
    }


def describe_depth(depth: QueueDepth) -> dict[str, Any]:
    """Return a queue's depth as JSON has it."""
    return {
        "ready": depth.ready,
        "suspended": depth.suspended,
        "delayed": depth.delayed,
        "in_flight": depth.in_flight,
        "dead": depth.dead,
        "oldest_eligible_age_ms": depth.oldest_eligible_age_ms,
        "paused": depth.paused,
        "paused_priorities": sorted(depth.paused_priorities),
    }
