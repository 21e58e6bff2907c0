"""Records the receipts that cause what no operation causes, and what each writes.

A producer's request and its outcome are rows of the outbox (decision kernel/0125), an operator's
pause is a row of the pauses (decision kernel/0265), a worker's queue a row of the registrations
(decision kernel/0670). A receipt holds all that its row says and lies
in the chain between two operations, and verification makes the same rows of it again.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import orjson

from kernel.algebra.verbs import QUEUE_PAUSE, QUEUE_RESUME
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerTransaction
from kernel.ledger.outbox import NO_TAGS, add_request, end_request, settle_request
from kernel.ledger.receipts import append_receipt
from kernel.model.receipt import Receipt
from kernel.records.binding_cycles import note_outcome
from kernel.records.binding_pairs import end_pair, hand_over
from kernel.records.conflicts.adjudications import is_outcome_to_review, note_outcome_to_review
from kernel.values.canonical import canonicalize
from kernel.values.host import iso_time
from kernel.values.priorities import PRIORITIES_OF
from kernel.work.contents import BINDING_QUEUE
from kernel.work.pair_routing import route_page

REQUESTED = "work_requested"
CLOSED = "work_request_closed"
CAPACITY_REJECTED = "binding_fire_capacity_rejected"
PENDING = "binding_outcome_pending"
EVALUATION = "evaluation"
"""The field of a binding's outcome that says on what it rests, and which manifest will name it."""

DISMISSED = "work_request_dismissed"

PAUSED = "work_queue_paused"
RESUMED = "work_queue_resumed"
SWITCHED_BY = MappingProxyType({QUEUE_PAUSE: PAUSED, QUEUE_RESUME: RESUMED})
"""By the verb of the operation that decides it."""

ROUTED = "binding_routing_page"
PRIORITIZED = "work_request_prioritized"
BULK_BEGUN = "bulk_operation_begun"
BULK_ADVANCED = "bulk_operation_advanced"
REGISTERED = "work_queue_registered"
REGISTRATION = (
    *("queue", "content_schema", "item_key"),
    *("priorities", "default_priority", "priority_field"),
)
"""The fields by which a queue is known."""


def record(transaction: LedgerTransaction, kind: str, receipt_id: str, body: Document) -> None:
    """Append one of the receipts and write what it says, at the head's place and clock."""
    append_receipt(transaction, receipt_id, Receipt(kind, body), None)
    WRITES[kind](transaction, body)


def _open(transaction: LedgerTransaction, body: Document) -> None:
    head = transaction.head_now
    head.request_sequence += 1
    names = ("request_id", "queue", "item_key", "priority", "request_key", "content")
    document = {name: body[name] for name in names}
    document |= {
        name: body[name] for name in ("delay_s", "run_at", "requeues", "tags") if name in body
    }
    document["enqueued_at"] = iso_time(head.committed_at_us)
    row = {name: body[name] for name in ("request_id", "queue", "item_key")}
    row["priority"] = _priority(body["queue"], body["priority"])
    add_request(
        transaction.tables,
        {
            **row,
            "request_sequence": head.request_sequence,
            "cause_sequence": head.ec_sequence_number,
            "enqueued_at_us": head.committed_at_us,
            "request_bytes": canonicalize(document),
        },
        body.get("tags", NO_TAGS),
    )
    if "requeues" in body:
        settle_request(transaction.tables, body["requeues"])
        hand_over(transaction, body["requeues"], body["request_id"])


def _close(transaction: LedgerTransaction, body: Document) -> None:
    head = transaction.head_now
    if "pair_state" in body:
        end_pair(transaction, body["request_id"], body["pair_state"])
    end_request(
        transaction.tables,
        body["request_id"],
        error_signature=body.get("reason", ""),
        outcome=body["outcome"],
        operation_id=body.get("closed_by_operation_id"),
        closed_sequence=head.ec_sequence_number,
        closed_at_us=head.committed_at_us,
    )
    if is_outcome_to_review(body):
        request = transaction.tables.get(schema.outbox, body["request_id"])
        if request is not None:
            receipt_id = closing_receipt_id(body["request_id"])
            note_outcome_to_review(transaction, receipt_id, request["request_sequence"])
    if EVALUATION in body.get("result", {}):
        request_id, event = body["request_id"], body["result"]["source_event_id"]
        note_outcome(transaction, event, request_id, closing_receipt_id(request_id))


def _note_pending(transaction: LedgerTransaction, body: Document) -> None:
    request_id = body["request_id"]
    receipt_id = pending_id(request_id, body["result"]["outcome_reason_code"])
    note_outcome(transaction, body["source_event_id"], request_id, receipt_id)


def closing_receipt_id(request_id: str) -> str:
    """Return the id of the receipt that closes a request."""
    return f"receipt:{request_id}:closed"


def dead_letter_id(request_id: str) -> str:
    """Return the id of the receipt that gives a recompute up."""
    return f"receipt:{request_id}:dead_letter"


def prioritized_id(request_id: str, operation_id: str) -> str:
    """Return the id of the receipt that an operation gave a request another priority."""
    return f"receipt:{request_id}:prioritized:{operation_id}"


def switch_receipt_id(operation_id: str) -> str:
    """Return the id of the receipt of a pause, or of its end, by the operation that decides it."""
    return f"receipt:{operation_id}:switched"


def pending_id(request_id: str, reason: str) -> str:
    """Return the id of the receipt that an evaluation was put off for a reason."""
    return f"receipt:{request_id}:pending:{reason}"


def _route(transaction: LedgerTransaction, body: Document) -> None:
    route_page(transaction, body["mark_id"])


def _retry_as(transaction: LedgerTransaction, body: Document) -> None:
    changes = {"priority": _priority(BINDING_QUEUE, body["retry_priority"])}
    transaction.tables.update(schema.outbox, (body["request_id"],), changes)


def _dismiss(transaction: LedgerTransaction, body: Document) -> None:
    settle_request(transaction.tables, body["request_id"])


def _prioritize(transaction: LedgerTransaction, body: Document) -> None:
    changes = {"priority": _priority(body["queue"], body["priority"])}
    transaction.tables.update(schema.outbox, (body["request_id"],), changes)


_BULK_FIELDS = (
    *("bulk_number", "verb", "search", "priority", "reason", "decided_by"),
    *("decided_by_operation_id", "begun_at", "counted", "counted_all", "upper_sequence"),
    *("cursor", "done", "refused", "asked_to_stop", "state", "ended_at", "stopped_by"),
)


def _put_bulk(transaction: LedgerTransaction, body: Document) -> None:
    number = body["bulk_number"]
    before = transaction.tables.get(schema.bulk_operations, number)
    record = {} if before is None else orjson.loads(before["record"])
    record |= {name: body[name] for name in _BULK_FIELDS if name in body}
    row = {
        "ec_sequence_number": number,
        "running": 1 if record["state"] == "running" else None,
        "record": canonicalize(record),
    }
    transaction.tables.put(schema.bulk_operations, row)


def _pause(transaction: LedgerTransaction, body: Document) -> None:
    transaction.tables.put(
        schema.queue_pauses,
        {
            "pause_key": pause_key(body),
            "queue": body["queue"],
            "priority": body.get("priority"),
            "paused_at_us": transaction.head_now.committed_at_us,
            "decided_by": body["decided_by"],
            "reason": body["reason"],
        },
    )


def _resume(transaction: LedgerTransaction, body: Document) -> None:
    transaction.tables.delete(schema.queue_pauses, pause_key(body))


def _register(transaction: LedgerTransaction, body: Document) -> None:
    if "replaces" in body:
        transaction.tables.delete(schema.queue_registrations, body["replaces"])
    definition = {name: body[name] for name in REGISTRATION if name in body}
    transaction.tables.put(
        schema.queue_registrations,
        {
            "queue": body["queue"],
            "registered_at_us": transaction.head_now.committed_at_us,
            "definition": canonicalize(definition),
        },
    )


def pause_key(body: Document) -> str:
    """Return the key of the pause of which a receipt tells."""
    return f"{body['queue']}|{body.get('priority') or ''}"


def _priority(queue: str, name: str) -> str:
    """Return the priority, which must be one of the queue's; a plug-in's may not be known here."""
    if queue in PRIORITIES_OF and name not in PRIORITIES_OF[queue]:
        raise ValueError(f"{queue} has no priority {name!r}")
    return name


WRITES: Mapping[str, Callable[[LedgerTransaction, Document], None]] = MappingProxyType(
    {
        REQUESTED: _open,
        CLOSED: _close,
        CAPACITY_REJECTED: _retry_as,
        PENDING: _note_pending,
        DISMISSED: _dismiss,
        PAUSED: _pause,
        RESUMED: _resume,
        ROUTED: _route,
        PRIORITIZED: _prioritize,
        BULK_BEGUN: _put_bulk,
        BULK_ADVANCED: _put_bulk,
        REGISTERED: _register,
    }
)
"""By the kind of receipt; verification reads the same table."""
