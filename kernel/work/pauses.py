"""Records pauses of work queues: operators' decisions, with who decided and why.

A queue and each of its priorities are paused and resumed separately. Each decision is an operation
of the log and leaves a durable receipt (`work_queue_paused`, `work_queue_resumed`), and
`queue_pauses` holds the pauses that stand, at most one for each priority and each queue (decision
kernel/0265). The outbox relay sets the same pauses in Redis.
"""

from dataclasses import dataclass

from kernel.algebra.verbs import QUEUE_PAUSE, QUEUE_RESUME
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerTransaction, LedgerView
from kernel.ledger.store.tables import TableQuery
from kernel.records.operator_decisions import (
    Decide,
    OperatorDecision,
    queue_target,
    record_decision,
)
from kernel.values.host import iso_time
from kernel.work import receipts
from kernel.work.errors import WorkRefused
from kernel.work.outcomes import storable
from kernel.work.queue_kinds import QUEUE_KINDS, no_such_queue


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause that stands."""

    queue: str
    priority: str | None
    """The priority that is paused, None for the whole queue."""

    paused_at: str
    decided_by: str
    """Who paused it, as they called themselves; empty where nobody said."""

    reason: str


@dataclass(frozen=True, slots=True)
class PauseDecision:
    """What an operator decides of a queue, or of one of its priorities."""

    queue: str
    priority: str | None = None
    decided_by: str = ""
    reason: str = ""


PAUSES = TableQuery(schema.queue_pauses)


def pauses_of(view: LedgerView) -> list[Pause]:
    """Return the pauses that stand, of every queue."""
    return [
        Pause(
            row["queue"],
            row["priority"],
            iso_time(row["paused_at_us"]),
            row["decided_by"],
            row["reason"],
        )
        for row in view.tables.scan(PAUSES)
    ]


def pause(transaction: LedgerTransaction, decision: PauseDecision, decide: Decide) -> bool:
    """Record a pause; False, and nothing recorded, where it stands.

    Raises:
        WorkRefused: `work_queue_unknown`, `queue_unknown_priority`.
    """
    return _record(transaction, QUEUE_PAUSE, decision, decide)


def resume(transaction: LedgerTransaction, decision: PauseDecision, decide: Decide) -> bool:
    """Record the end of a pause; False, and nothing recorded, where there is none.

    Raises:
        WorkRefused: `work_queue_unknown`, `queue_unknown_priority`.
    """
    return _record(transaction, QUEUE_RESUME, decision, decide)


def _record(
    transaction: LedgerTransaction, verb: str, decision: PauseDecision, decide: Decide
) -> bool:
    body = _body(decision)
    stands = transaction.tables.get(schema.queue_pauses, receipts.pause_key(body)) is not None
    if stands == (verb == QUEUE_PAUSE):
        return False
    targets = (queue_target(decision.queue, decision.priority),)
    said = record_decision(
        OperatorDecision(verb, targets, body["decided_by"], body["reason"]), decide
    )
    transaction.next_commit_time_us()
    receipt_id = receipts.switch_receipt_id(said["decided_by_operation_id"])
    receipts.record(transaction, receipts.SWITCHED_BY[verb], receipt_id, body | said)
    return True


def _body(decision: PauseDecision) -> Document:
    queue, priority = decision.queue, decision.priority
    kind = QUEUE_KINDS.get(queue)
    if kind is None:
        raise WorkRefused("work_queue_unknown", no_such_queue(queue), "queue")
    body = {
        "queue": queue,
        "decided_by": storable(decision.decided_by),
        "reason": storable(decision.reason),
    }
    if priority is None:
        return body
    if not kind.has_priority(priority):
        message = f"{queue} has no priority {priority!r}"
        raise WorkRefused("queue_unknown_priority", message, "priority")
    return {**body, "priority": priority}
