"""Describes the record as JSON: operations, nodes, and what became of requests."""

from typing import Any, NotRequired, cast

from typing_extensions import TypedDict

from kernel.audit.log import LogRowDocument, log_document, superseded_row
from kernel.audit.operations import ask_ahead_of_operation, envelope_of, row_document
from kernel.authority.graph import is_understanding
from kernel.authority.requests import ask_ahead_of_understanding, stale_since
from kernel.ledger.applied_effects import effects_of
from kernel.ledger.store.tables import Row
from kernel.records.access.readable_view import ReadableView
from kernel.values.host import iso_time
from kernel.work.outcomes import ask_ahead_of_counts, open_by_queue
from kernel.work.queue_kinds import QUEUE_KINDS


class NodeDocument(TypedDict):
    """A node's record; `payload` has the fields of its kind."""

    node_id: str
    node_kind: str
    state: str
    visibility_class: str
    version: int
    payload: dict[str, Any]
    created_by_operation_id: str
    updated_by_operation_id: str
    updated_at: str
    authority_stale_since: NotRequired[str | None]
    """Of an understanding: since when its authority waits for a recompute."""


class AppliedEffectRow(TypedDict):
    """An effect as it was applied; a hash is empty where there was, or is, no record."""

    effect_id: str
    effect_kind: str
    canonical_kind: str
    store: str
    record_key: str
    pre_image_hash: str
    post_image_hash: str
    applied_at: str


class SupersededDocument(TypedDict):
    """The lite operation whose place an operation took."""

    row: LogRowDocument
    envelope: dict[str, Any] | None


class OperationRecordDocument(TypedDict):
    """What the record says of an operation; of a refused one it has receipts alone."""

    operation_id: str
    row: NotRequired[LogRowDocument]
    archived_at: NotRequired[str | None]
    """When its row was moved to the archive, from where it was read; None where it was not."""

    envelope: NotRequired[dict[str, Any] | None]
    """None where it was erased."""

    effects: NotRequired[list[AppliedEffectRow]]
    receipts: list[dict[str, Any]]
    superseded: NotRequired[SupersededDocument]


class RequestCounts(TypedDict):
    """How many requests were recorded, and what became of them."""

    recorded: int
    open: int
    open_by_queue: dict[str, int]
    oldest_open_at: dict[str, str]
    """When the oldest open request was recorded, by queue, for the queues that have any."""

    outcomes: dict[str, int]
    """By how they ended: `completed`, `dead_letter`, `cancelled`."""


def describe_node(view: ReadableView, node_id: str) -> NodeDocument | None:
    """Return a node's record; reading an authority computes nothing (INV-A-AUTHORITY-EAGER-1)."""
    ask_ahead_of_understanding(view, node_id)
    record = view.node(node_id)
    if record is not None and is_understanding(record):
        record = record | {"authority_stale_since": stale_since(view, node_id)}
    return cast("NodeDocument | None", record)


def describe_operation(view: ReadableView, operation_id: str) -> OperationRecordDocument | None:
    """Return everything that the record says of an operation, refused ones included.

    Raises:
        RangeQuarantined: it cannot be read, and is quarantined; else its row says that it is.
    """
    ask_ahead_of_operation(view, operation_id)
    row = view.log_row_of(operation_id)
    receipts = view.receipts_of(operation_id)
    if row is None:
        return {"operation_id": operation_id, "receipts": receipts} if receipts else None
    lite = superseded_row(view, row)
    described: OperationRecordDocument = {
        "operation_id": operation_id,
        "row": log_document(view, row if lite is None else lite),
        "archived_at": _archived_at(view, row),
        "envelope": envelope_of(view, row),
        "effects": cast("list[AppliedEffectRow]", effects_of(view, row)),
        "receipts": receipts,
    }
    if lite is not None:
        described["superseded"] = {
            "row": cast(
                "LogRowDocument", row_document(view, lite) | {"row_hash": lite["row_hash"]}
            ),
            "envelope": envelope_of(view, lite),
        }
    return described


def _archived_at(view: ReadableView, row: Row) -> str | None:
    archived_us = view.archived_at_us(row["ec_sequence_number"])
    return None if archived_us is None else iso_time(archived_us)


def count_requests(view: ReadableView) -> RequestCounts:
    """Return how many requests were recorded and how they ended."""
    ask_ahead_of_counts(view)
    recorded = view.count_requests()
    still_open = view.count_open_requests()
    dead = view.count_outcomes("dead_letter")
    cancelled = view.count_outcomes("cancelled")
    outcomes = {
        "completed": recorded - still_open - dead - cancelled,
        "dead_letter": dead,
        "cancelled": cancelled,
    }
    by_queue = dict.fromkeys(QUEUE_KINDS, 0) | open_by_queue(view)
    return {
        "recorded": recorded,
        "open": still_open,
        "open_by_queue": by_queue,
        "oldest_open_at": {
            queue: iso_time(request.enqueued_at_us)
            for queue, count in by_queue.items()
            if count
            for request in view.open_requests(queue=queue, limit=1)
        },
        "outcomes": outcomes,
    }
