"""The record as JSON: operations, nodes, and what became of requests."""

from typing import Any

import orjson

from kernel.audit.log import log_document, superseded_row
from kernel.audit.operations import envelope_of
from kernel.authority.graph import is_understanding
from kernel.authority.requests import stale_since
from kernel.ledger.applied_effects import effects_of
from kernel.ledger.ledger import LedgerView
from kernel.work.outcomes import open_by_queue
from queues.outbox_relay import ROUTES

SEQUENCE_MAX = 2**63 - 1
"""The greatest integer that every store can compare with."""


def describe_node(view: LedgerView, node_id: str) -> dict[str, Any] | None:
    """Return a node's record; reading an authority computes nothing (INV-A-AUTHORITY-EAGER-1)."""
    record = view.node(node_id)
    if record is None or not is_understanding(record):
        return record
    return record | {"authority_stale_since": stale_since(view, node_id)}


def describe_operation(view: LedgerView, operation_id: str) -> dict[str, Any] | None:
    """Return everything that the record says of an operation, refused ones included."""
    row = view.log_row_of(operation_id)
    receipts = view.receipts_of(operation_id)
    if row is None:
        return {"operation_id": operation_id, "receipts": receipts} if receipts else None
    lite = superseded_row(view, row)
    described = {
        "operation_id": operation_id,
        "row": log_document(view, row if lite is None else lite),
        "envelope": view.envelope(operation_id),
        "effects": effects_of(view, row),
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
    still_open = view.count_open_requests()
    dead = view.count_outcomes("dead_letter")
    cancelled = view.count_outcomes("cancelled")
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
