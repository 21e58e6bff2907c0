"""Requests that were given up: listed by their error signature, asked for anew, or dismissed.

An outcome is final, so requeuing makes a request of its own that names the dead one (`requeues`).
Its key follows from the dead one's id, so requeuing twice is requeuing once. It has the priority
that was first asked for and no delay. The list is read from the record, so a lost Redis loses none;
a call looks at 10,000 dead letters at most and says where to go on. Authorities that were given up
are listed and not requeued: their next trigger asks again. What was dismissed is on no list, and
may still be requeued by its id. Each call that changes something is an operation of the log, which
says who decided it and why, and which every receipt of the call names.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import orjson

from kernel.algebra.verbs import REQUEST_DISMISS, REQUEST_REQUEUE
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerTransaction, LedgerView, Request
from kernel.ledger.receipts import append_receipt
from kernel.ledger.store.tables import PAGE_ROWS, Row, TableQuery, rows_in_pages
from kernel.model.receipt import Receipt
from kernel.records.operator_decisions import Decide, OperatorDecision, said_of
from kernel.values.host import iso_time
from kernel.work.errors import WorkRefused
from kernel.work.outcomes import storable
from kernel.work.queue_kinds import asked_kind, not_asked
from kernel.work.receipts import DISMISSED
from kernel.work.requests import (
    WorkReceipt,
    WorkRequest,
    closing_ids,
    dismissed_id,
    enqueue,
    outcome_of,
    request_id_of,
    requeue_key,
    requeued_as,
)

SCANNED_MAX = 10_000
"""Dead letters of all queues, requeued ones included, that are looked at for one list."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A request that was given up and not requeued."""

    request_id: str
    queue: str
    item_key: str
    priority: str
    error_signature: str
    closed_at: str


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """A page of the dead letters of a queue, or of all."""

    by_signature: Mapping[str, int]
    """How many of each signature were looked at; that begins with the page and may go beyond it."""

    dead_letters: tuple[DeadLetter, ...]
    """The dead letters in the order of their ids."""

    next_after: str | None
    """Where the next page begins; None after the last. A page may be empty and not the last."""

    complete: bool
    """Whether everything from there on was looked at; False where it was `SCANNED_MAX` only."""


def dead_letters(
    view: LedgerView, queue: str | None, *, error_signature: str | None, after: str, limit: int
) -> DeadLetters:
    """List the dead letters of a queue or of all, of one signature or of all."""
    counts: Counter[str] = Counter()
    page: list[DeadLetter] = []
    scanned, has_more, last = 0, False, after
    outcomes = _looked_at(view, after)
    while some := list(islice(outcomes, PAGE_ROWS)):
        scanned, last = scanned + len(some), some[-1]["request_id"]
        for letter in _standing(view, queue, some):
            counts[letter.error_signature] += 1
            if error_signature in (None, letter.error_signature):
                has_more = len(page) == limit
                page += [] if has_more else [letter]
    complete = scanned < SCANNED_MAX
    next_after = page[-1].request_id if has_more else None if complete else last
    return DeadLetters(dict(counts.most_common()), tuple(page), next_after, complete)


def requeue(
    transaction: LedgerTransaction,
    queue: str,
    request_ids: Sequence[str],
    decided_by: str,
    decide: Decide,
) -> list[WorkReceipt]:
    """Ask anew for dead letters: for all that are named, or for none.

    Raises:
        WorkRefused: `work_request_unknown`, `work_request_not_dead`, or what `enqueue` raises.
    """
    if asked_kind(queue) is None:
        raise WorkRefused("work_queue_unknown", not_asked(queue), "queue")
    documents = _given_up(transaction, queue, request_ids)
    fresh = tuple(dead for dead in documents if requeued_as(transaction, queue, dead) is None)
    decision = OperatorDecision(REQUEST_REQUEUE, fresh, storable(decided_by), "")
    said = said_of(decision, decide) if fresh else {}
    anew = [
        WorkRequest(
            queue,
            requeue_key(dead),
            documents[dead]["content"],
            documents[dead]["priority"],
            requeues=dead,
            said=said,
        )
        for dead in request_ids
    ]
    return list(enqueue(transaction, anew))


@dataclass(frozen=True, slots=True)
class DeadLetterDismissal:
    """Why a dead letter needs nobody any more."""

    reason: str
    decided_by: str = ""


def dismiss(
    transaction: LedgerTransaction,
    queue: str,
    request_ids: Sequence[str],
    dismissal: DeadLetterDismissal,
    decide: Decide,
) -> int:
    """Settle dead letters without asking for them anew: all that are named, or none.

    Returns how many were not dismissed before; durable with the transaction.

    Raises:
        WorkRefused: `work_request_unknown`, `work_request_not_dead`, `work_request_invalid` where
            there is no reason.
    """
    if not dismissal.reason.strip():
        raise WorkRefused("work_request_invalid", "say why", "reason")
    fresh = tuple(
        request_id
        for request_id in _given_up(transaction, queue, request_ids)
        if not transaction.has_receipt(dismissed_id(request_id))
    )
    if not fresh:
        return 0
    by, reason = storable(dismissal.decided_by), storable(dismissal.reason)
    said = said_of(OperatorDecision(REQUEST_DISMISS, fresh, by, reason), decide)
    for request_id in fresh:
        transaction.next_commit_time_us()
        body = {"request_id": request_id, "queue": queue, "reason": reason} | said
        append_receipt(transaction, dismissed_id(request_id), Receipt(DISMISSED, body), None)
    return len(fresh)


def _given_up(view: LedgerView, queue: str, request_ids: Sequence[str]) -> dict[str, Document]:
    """Return the requests that were given up, each once; the first that was not is refused."""
    documents: dict[str, Document] = {}
    for index, request_id in enumerate(request_ids):
        try:
            row = _expect_dead(view, queue, request_id)
        except WorkRefused as refused:
            refused.index = index
            raise
        documents[request_id] = Request.of_row(row).document
    return documents


def _expect_dead(view: LedgerView, queue: str, request_id: str) -> Row:
    """Return the row of a request that was given up."""
    outcome = outcome_of(view, queue, request_id)
    row = view.tables.get(schema.outbox, request_id)
    if outcome is None or row is None:
        raise WorkRefused("work_request_unknown", f"nobody asked for {request_id}", "request_ids")
    if outcome.state != "dead_letter":
        message = f"{request_id} is {outcome.state}, no dead letter"
        raise WorkRefused("work_request_not_dead", message, "request_ids")
    return row


def _looked_at(view: LedgerView, after: str) -> Iterator[Row]:
    """Yield the outcomes of the dead letters of all queues that one call looks at, by id."""
    query = TableQuery(
        schema.outbox_outcomes,
        {"outcome": "dead_letter"},
        order_by="request_id",
        after=after,
        limit=PAGE_ROWS,
    )
    rows = rows_in_pages(
        view.tables,
        query,
    )
    return islice(rows, SCANNED_MAX)


def _standing(view: LedgerView, queue: str | None, outcomes: Sequence[Row]) -> Iterator[DeadLetter]:
    """Yield those of some outcomes that are of a queue and that nobody has settled."""
    ids = [outcome["request_id"] for outcome in outcomes]
    requests = {
        row["request_id"]: row
        for row in view.tables.scan(TableQuery(schema.outbox, any_of=("request_id", ids)))
        if queue in (None, row["queue"])
    }
    again = {
        request_id: request_id_of(row["queue"], requeue_key(request_id))
        for request_id, row in requests.items()
    }
    requeued = view.tables.scan(TableQuery(schema.outbox, any_of=("request_id", [*again.values()])))
    requeues = {row["request_id"] for row in requeued}
    receipt_ids = [
        receipt_id
        for request_id in requests
        for receipt_id in (dismissed_id(request_id), *closing_ids(request_id))
    ]
    receipts = {
        row["receipt_id"]: row["receipt_bytes"]
        for row in view.tables.scan(TableQuery(schema.receipts, any_of=("receipt_id", receipt_ids)))
    }
    for outcome in outcomes:
        request_id = outcome["request_id"]
        row = requests.get(request_id)
        if row is None or again[request_id] in requeues or dismissed_id(request_id) in receipts:
            continue
        closing = next(
            (receipts[each] for each in closing_ids(request_id) if each in receipts), b"{}"
        )
        receipt = orjson.loads(closing)
        yield DeadLetter(
            request_id,
            row["queue"],
            row["item_key"],
            row["priority"],
            str(receipt.get("reason", receipt.get("error_signature", ""))),
            iso_time(outcome["closed_at_us"]),
        )
