"""The receipts that cause what no operation causes, and what each writes.

A producer's request and its outcome are rows of the outbox (decision kernel/0125), an operator's
pause is a row of the pauses (decision kernel/0265). A receipt holds all that its row says and lies
in the chain between two operations, and verification makes the same rows of it again.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from kernel.algebra.verbs import QUEUE_PAUSE, QUEUE_RESUME
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerTransaction
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
"""Nothing is written for it but the receipt itself."""

PAUSED = "work_queue_paused"
RESUMED = "work_queue_resumed"
SWITCHED_BY = MappingProxyType({QUEUE_PAUSE: PAUSED, QUEUE_RESUME: RESUMED})
"""By the verb of the operation that decides it."""

ROUTED = "binding_routing_page"


def record(transaction: LedgerTransaction, kind: str, receipt_id: str, body: Document) -> None:
    """Append one of the receipts and write what it says, at the head's place and clock."""
    append_receipt(transaction, receipt_id, Receipt(kind, body), None)
    WRITES[kind](transaction, body)


def _open(transaction: LedgerTransaction, body: Document) -> None:
    head = transaction.head_now
    head.request_sequence += 1
    names = ("request_id", "queue", "item_key", "priority", "request_key", "content")
    document = {name: body[name] for name in names}
    document |= {name: body[name] for name in ("delay_s", "run_at", "requeues") if name in body}
    document["enqueued_at"] = iso_time(head.committed_at_us)
    row = {name: body[name] for name in ("request_id", "queue", "item_key")}
    row["priority"] = _priority(body["queue"], body["priority"])
    transaction.tables.append(
        schema.outbox,
        {
            **row,
            "request_sequence": head.request_sequence,
            "cause_sequence": head.ec_sequence_number,
            "open": 1,
            "enqueued_at_us": head.committed_at_us,
            "request_bytes": canonicalize(document),
        },
    )
    if "requeues" in body:
        hand_over(transaction, body["requeues"], body["request_id"])


def _close(transaction: LedgerTransaction, body: Document) -> None:
    head = transaction.head_now
    if "pair_state" in body:
        end_pair(transaction, body["request_id"], body["pair_state"])
    transaction.tables.append(
        schema.outbox_outcomes,
        {
            "request_id": body["request_id"],
            "outcome": body["outcome"],
            "operation_id": body.get("closed_by_operation_id"),
            "closed_sequence": head.ec_sequence_number,
            "closed_at_us": head.committed_at_us,
        },
    )
    transaction.tables.update(schema.outbox, (body["request_id"],), {"open": 0})
    if is_outcome_to_review(body):
        request = transaction.tables.get(schema.outbox, body["request_id"])
        if request is not None:
            receipt_id = closed_id(body["request_id"])
            note_outcome_to_review(transaction, receipt_id, request["request_sequence"])
    if EVALUATION in body.get("result", {}):
        request_id, event = body["request_id"], body["result"]["source_event_id"]
        note_outcome(transaction, event, request_id, closed_id(request_id))


def _note_pending(transaction: LedgerTransaction, body: Document) -> None:
    request_id = body["request_id"]
    receipt_id = pending_id(request_id, body["result"]["outcome_reason_code"])
    note_outcome(transaction, body["source_event_id"], request_id, receipt_id)


def closed_id(request_id: str) -> str:
    """Return the id of the receipt that closes a request."""
    return f"receipt:{request_id}:closed"


def dead_letter_id(request_id: str) -> str:
    """Return the id of the receipt that gives a recompute up."""
    return f"receipt:{request_id}:dead_letter"


def switched_id(operation_id: str) -> str:
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
        PAUSED: _pause,
        RESUMED: _resume,
        ROUTED: _route,
    }
)
"""By the kind of receipt; verification reads the same table."""
