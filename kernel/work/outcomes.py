"""Records the one outcome of a request, and what happens before it (§14.3, §14.5, K19)."""

from typing import Literal

from kernel.authority.requests import CASCADE_QUEUE
from kernel.ledger import schema
from kernel.ledger.ledger import (
    Document,
    LedgerTransaction,
    LedgerView,
    Request,
    first_open_query,
    open_query,
    outcome_queries,
)
from kernel.records.binding_pairs import PairEnd
from kernel.records.external import EXTERNAL_QUEUE
from kernel.values.host import iso_time
from kernel.work import receipts
from kernel.work.contents import BINDING_QUEUE
from kernel.work.errors import WorkRefused
from kernel.work.queue_kinds import QUEUE_KINDS, is_requestable
from kernel.work.reports import CapacityRejected, SuccessfulAttempt

ClosedAs = Literal["completed", "dead_letter", "cancelled"]

REASON_CHARS_MAX = 200


def open_request(view: LedgerView, request_id: str) -> Request | None:
    """Return an open request of asked-for work, None where it has its outcome.

    Raises:
        WorkRefused: `work_request_unknown`, when nobody asked under this id.
    """
    row = view.tables.get(schema.outbox, request_id)
    if row is None or not is_requestable(row["queue"]):
        raise WorkRefused("work_request_unknown", f"nobody asked for {request_id}", "request_id")
    return Request.of_row(row) if row["open"] else None


def recorded_request(view: LedgerView, request_id: str) -> Request:
    """Return a request of any queue, open or not, whoever asked for it.

    Raises:
        WorkRefused: `work_request_unknown`.
    """
    row = view.tables.get(schema.outbox, request_id)
    if row is None:
        raise WorkRefused("work_request_unknown", f"nobody asked for {request_id}", "request_id")
    return Request.of_row(row)


def close(  # noqa: PLR0913 - each outcome states other parts
    transaction: LedgerTransaction,
    request_id: str,
    outcome: ClosedAs,
    *,
    operation_id: str | None = None,
    reason: str | None = None,
    result: Document | None = None,
    handler_result: Document | None = None,
    attempt: SuccessfulAttempt | None = None,
    pair_end: PairEnd | None = None,
    said: Document | None = None,
) -> bool:
    """Give a request its outcome, with a durable receipt; False where it has one already.

    `handler_result` is what a plug-in's handler returned, which the record does not read.
    `attempt` is the one that came to it.
    `said` is who cancelled it, and the operation that says so.
    `pair_end` is what the evaluation came to for the pair that asked for it, where one did (§13.2).

    Raises:
        WorkRefused: `work_request_unknown`.
        PairTransitionDisallowed: the pair's binding was disabled or changed meanwhile.
    """
    request = open_request(transaction, request_id)
    if request is None:
        return False
    body: Document = {"request_id": request_id, "queue": request.queue, "outcome": outcome}
    fields: Document = {"closed_by_operation_id": operation_id, "result": result}
    fields |= {"handler_result": handler_result, "pair_state": pair_end}
    if attempt is not None:
        fields |= {"took_ms": attempt.took_ms, "worker": attempt.worker}
    fields |= said or {}
    fields["reason"] = None if reason is None else storable(reason)
    body |= {name: value for name, value in fields.items() if value is not None}
    transaction.next_commit_time_us()
    receipts.record(transaction, receipts.CLOSED, receipts.closing_receipt_id(request_id), body)
    return True


def put_off(transaction: LedgerTransaction, request: Request, result: Document) -> bool:
    """Record once for each reason that an evaluation was put off; False where it is on record.

    `result` is a pending `BindingOutcomeRecord` and the manifest that will name it. The request
    stays open.
    """
    receipt_id = receipts.pending_id(request.request_id, result["outcome_reason_code"])
    if transaction.has_receipt(receipt_id):
        return False
    transaction.next_commit_time_us()
    body: Document = {
        "request_id": request.request_id,
        "source_event_id": request.item_key,
        "result": result,
    }
    receipts.record(transaction, receipts.PENDING, receipt_id, body)
    return True


def reject_for_capacity(transaction: LedgerTransaction, report: CapacityRejected) -> bool:
    """Record that capacity ran out under an evaluation; it waits at its retry's priority (§14.5).

    It is retried as background, a user's at their own priority (§14.3). False, and nothing
    recorded, where the request has its outcome.

    Raises:
        WorkRefused: `work_request_unknown`.
    """
    request_id = report.request_id
    request = open_request(transaction, request_id)
    if request is None:
        return False
    if request.queue != BINDING_QUEUE:
        raise WorkRefused("work_request_unknown", f"{request_id} is no binding's", "request_id")
    stated = request.document["content"]
    retry = "user_initiated" if request.priority == "user_initiated" else "background"
    transaction.next_commit_time_us()
    body: Document = {
        "request_id": request_id,
        "binding_id": stated["binding_id"],
        "source_event_id": stated["source_event_id"],
        "rejected_at": iso_time(transaction.head_now.committed_at_us),
        "retry_eligible": report.retry_eligible,
        "retry_priority": retry,
        "capacity_signal_at_rejection": report.capacity_signal_at_rejection.model_dump(),
    }
    if report.binding_evaluation_id is not None:
        body["binding_evaluation_id"] = report.binding_evaluation_id
    receipt_id = f"receipt:{transaction.host.new_id()}"
    receipts.record(transaction, receipts.CAPACITY_REJECTED, receipt_id, body)
    return True


def prioritize(
    transaction: LedgerTransaction, request: Request, priority: str, said: Document
) -> None:
    """Let an open request wait at another priority of its queue, as `said` says who decided."""
    transaction.next_commit_time_us()
    request_id = request.request_id
    body: Document = {"request_id": request_id, "queue": request.queue, "priority": priority}
    receipt_id = receipts.prioritized_id(request_id, said["decided_by_operation_id"])
    receipts.record(transaction, receipts.PRIORITIZED, receipt_id, body | said)


def storable(text: str) -> str:
    """Return a text as every store can hold it, cut at `REASON_CHARS_MAX` characters."""
    return text[:REASON_CHARS_MAX].encode("utf-8", "replace").decode().replace("\x00", "\ufffd")


def ask_ahead_of_counts(view: LedgerView) -> None:
    """Ask ahead how many requests are open and had an outcome, and for the first open ones."""
    queues = known_queues()
    view.ask_ahead(
        others=[first_open_query(queue, 1) for queue in queues],
        counts=[
            open_query(),
            *map(open_query, queues),
            *outcome_queries("dead_letter"),
            *outcome_queries("cancelled"),
        ],
    )


def known_queues() -> tuple[str, ...]:
    """Return the names of the queues that this program knows."""
    return (CASCADE_QUEUE, EXTERNAL_QUEUE, *QUEUE_KINDS)


def open_by_queue(view: LedgerView) -> dict[str, int]:
    """Return how many requests of each queue are open, for the queues that have any."""
    counted = {queue: view.count_open_requests(queue) for queue in known_queues()}
    return {queue: number for queue, number in counted.items() if number}
