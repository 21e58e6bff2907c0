"""Lists requests that were given up by error signature, asks for them anew or dismisses them.

An outcome is final, so requeuing makes a request of its own that names the dead one (`requeues`).
Its key follows from the dead one's id, so requeuing twice is requeuing once. It has the priority
that was first asked for and no delay. The list is read from the record, so a lost Redis loses none.
Authorities that were given up are listed and not requeued: their next trigger asks again. A
dismissed request is on no list, and may still be requeued by its id. Each call that changes
something is an operation of the log, which says who decided it and why, and which every receipt of
the call names.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from kernel.algebra.verbs import REQUEST_DISMISS, REQUEST_REQUEUE
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerTransaction, LedgerView, Request
from kernel.ledger.outbox import NO_TAGS
from kernel.ledger.store.tables import Row, TableQuery, distinct_look, distinct_values
from kernel.records.operator_decisions import Decide, OperatorDecision, record_decision
from kernel.values.host import iso_time
from kernel.work import receipts
from kernel.work.errors import WorkRefused
from kernel.work.outcomes import known_queues, storable
from kernel.work.queue_kinds import is_requestable, not_asked
from kernel.work.request_lists import RequestSummary, summaries_of
from kernel.work.request_search import (
    RequestSearch,
    closing_times_of,
    find_requests,
    looks_for_queues,
    recorded_queues,
)
from kernel.work.requests import (
    WorkReceipt,
    WorkRequest,
    dismissal_receipt_id,
    enqueue,
    outcome_of,
    requeue_key,
    requeue_of,
)

SIGNATURES_MAX = 100
"""Error signatures of which one call says how many dead letters have each."""

COUNTED_MAX = 1000
"""Dead letters of one signature and one queue that are counted."""

GROUPS_MAX = 40
"""Groups of which one call says how large each is."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A request that was given up and not settled."""

    request_id: str
    request_sequence: int
    queue: str
    item_key: str
    priority: str
    error_signature: str
    closed_at: str


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """A page of the dead letters of a queue, or of all."""

    by_signature: Mapping[str, int]
    """How many of the queue, or of all, have each signature, most first; see `complete`."""

    dead_letters: tuple[DeadLetter, ...]
    """The dead letters, those first that were asked for last."""

    next_after: int | None
    """Where the next page begins; None after the last."""

    complete: bool
    """Whether everything was counted; False beyond `COUNTED_MAX` and `SIGNATURES_MAX`."""


@dataclass(frozen=True, slots=True)
class DeadGroup:
    """The dead letters of a queue that stand and failed alike."""

    queue: str
    error_signature: str
    count: int
    """Up to `COUNTED_MAX`."""

    first_closed_at: str
    """When the first of them was given up."""


def dead_groups(view: LedgerView) -> list[DeadGroup]:
    """Return the dead letters that stand by queue and signature, at most `GROUPS_MAX` groups."""
    groups: list[tuple[str, str, int, int]] = []
    columns = ("error_signature",)
    for queue in recorded_queues(view):
        where = {"settled": 0, "queue": queue}
        query = TableQuery(schema.dead_letters, where, columns=columns)
        for signature in islice(distinct_values(view.tables, query), GROUPS_MAX - len(groups)):
            same = TableQuery(schema.dead_letters, {**where, "error_signature": signature})
            first = same._replace(columns=("request_sequence",), order_by="request_sequence")
            [(sequence,)] = view.tables.scan(first._replace(limit=1))
            count = view.tables.count(same._replace(limit=COUNTED_MAX))
            groups.append((queue, signature, count, sequence))
    firsts = [first for _, _, _, first in groups]
    rows = view.tables.scan(TableQuery(schema.outbox, any_of=("request_sequence", firsts)))
    closed_at_us = closing_times_of(view, rows)
    at = {row["request_sequence"]: iso_time(closed_at_us[row["request_id"]]) for row in rows}
    return [
        DeadGroup(queue, signature, count, at[first]) for queue, signature, count, first in groups
    ]


def dead_letters(
    view: LedgerView,
    queue: str | None,
    *,
    error_signature: str | None,
    after: int | None,
    limit: int,
) -> DeadLetters:
    """List the dead letters of a queue or of all, of one signature or of all.

    A signature is why they were given up, or that of their newest attempt.
    """
    queues = known_queues() if queue is None else (queue,)
    looks = [*map(distinct_look, map(_signatures_of, queues)), *looks_for_queues()]
    view.ask_ahead(others=looks)
    search = RequestSearch(queue, error_signature=error_signature, state="standing")
    fitting = find_requests(view, search, after=after, limit=limit)
    sequences = [row["request_sequence"] for row in fitting.rows]
    signatures = TableQuery(
        schema.dead_letters,
        any_of=("request_sequence", sequences),
        columns=("request_sequence", "error_signature"),
    )
    signature_of = dict(view.tables.scan(signatures))
    closed_at_us = closing_times_of(view, fitting.rows)
    letters = tuple(
        DeadLetter(
            row["request_id"],
            row["request_sequence"],
            row["queue"],
            row["item_key"],
            row["priority"],
            signature_of[row["request_sequence"]],
            iso_time(closed_at_us[row["request_id"]]),
        )
        for row in fitting.rows
    )
    counts, is_complete = _by_signature(view, queue)
    return DeadLetters(counts, letters, fitting.next_after, is_complete)


def _signatures_of(queue: str) -> TableQuery:
    """Return the query of why the dead letters of a queue that stand were given up."""
    where = {"settled": 0, "queue": queue}
    return TableQuery(schema.dead_letters, where, columns=("error_signature",))


def _of_signature(query: TableQuery, signature: str) -> TableQuery:
    return TableQuery(query.table, {**query.where, "error_signature": signature})


def _by_signature(view: LedgerView, queue: str | None) -> tuple[dict[str, int], bool]:
    """Count the dead letters that stand by signature; False where a bound was met."""
    counts: Counter[str] = Counter()
    is_complete, signatures = True, 0
    for name in recorded_queues(view) if queue is None else [queue]:
        query = _signatures_of(name)
        for signature in distinct_values(view.tables, query):
            if signatures == SIGNATURES_MAX:
                return dict(counts.most_common()), False
            same = _of_signature(query, signature)._replace(limit=COUNTED_MAX)
            count = view.tables.count(same)
            counts[signature] += count
            is_complete, signatures = is_complete and count < COUNTED_MAX, signatures + 1
    return dict(counts.most_common()), is_complete


@dataclass(frozen=True, slots=True)
class DeadAlike:
    """The dead letters of a queue that were given up for one reason and are not settled."""

    queue: str
    error_signature: str
    count: int
    is_all: bool
    """False where there are more than were counted (`COUNTED_MAX`)."""

    newest: RequestSummary
    oldest: RequestSummary
    """By the time at which they were asked for."""


def dead_alike(view: LedgerView, queue: str | None) -> tuple[tuple[DeadAlike, ...], bool]:
    """Return the dead letters that stand by queue and reason, most first.

    The second value is False where there are more reasons than `SIGNATURES_MAX`.
    """
    groups: list[DeadAlike] = []
    for name in recorded_queues(view) if queue is None else [queue]:
        query = _signatures_of(name)
        for signature in distinct_values(view.tables, query):
            if len(groups) == SIGNATURES_MAX:
                return _most_first(groups), False
            same = _of_signature(query, signature)
            count = view.tables.count(same._replace(limit=COUNTED_MAX))
            ends = [_end_of(view, same, descending=descending) for descending in (True, False)]
            is_all = count < COUNTED_MAX
            groups.append(DeadAlike(name, signature, count, is_all, *ends))
    return _most_first(groups), True


def _most_first(groups: list[DeadAlike]) -> tuple[DeadAlike, ...]:
    return tuple(sorted(groups, key=lambda group: -group.count))


def _end_of(view: LedgerView, same: TableQuery, *, descending: bool) -> RequestSummary:
    ordered = same._replace(order_by="request_sequence", descending=descending, limit=1)
    [letter] = view.tables.scan(ordered)
    sequence = letter["request_sequence"]
    query = TableQuery(schema.outbox, {"request_sequence": sequence}, order_by="request_sequence")
    [summary] = summaries_of(view, view.tables.scan(query))
    return summary


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
    if not is_requestable(queue):
        raise WorkRefused("work_queue_unknown", not_asked(queue), "queue")
    documents = _dead_requests(transaction, queue, request_ids)
    fresh = tuple(dead for dead in documents if requeue_of(transaction, queue, dead) is None)
    decision = OperatorDecision(REQUEST_REQUEUE, fresh, storable(decided_by), "")
    said = record_decision(decision, decide) if fresh else {}
    anew = [_requeue_request(queue, dead, documents[dead], said) for dead in request_ids]
    return list(enqueue(transaction, anew))


def requeue_requests(
    transaction: LedgerTransaction, dead: Sequence[Request], said: Document
) -> None:
    """Ask anew for dead letters, all or none, as somebody has decided.

    Raises:
        WorkRefused: what `enqueue` raises.
    """
    anew = [_requeue_request(each.queue, each.request_id, each.document, said) for each in dead]
    enqueue(transaction, anew)


def _requeue_request(queue: str, dead: str, document: Document, said: Document) -> WorkRequest:
    return WorkRequest(
        queue,
        requeue_key(dead),
        document["content"],
        document["priority"],
        requeues=dead,
        tags=document.get("tags", NO_TAGS),
        said=said,
    )


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
        for request_id in _dead_requests(transaction, queue, request_ids)
        if not transaction.has_receipt(dismissal_receipt_id(request_id))
    )
    if not fresh:
        return 0
    by, reason = storable(dismissal.decided_by), storable(dismissal.reason)
    said = record_decision(OperatorDecision(REQUEST_DISMISS, fresh, by, reason), decide)
    for request_id in fresh:
        dismiss_request(transaction, queue, request_id, reason, said)
    return len(fresh)


def dismiss_request(
    transaction: LedgerTransaction, queue: str, request_id: str, reason: str, said: Document
) -> None:
    """Settle a dead letter that stands, as somebody has decided."""
    transaction.next_commit_time_us()
    body = {"request_id": request_id, "queue": queue, "reason": reason} | said
    receipts.record(transaction, receipts.DISMISSED, dismissal_receipt_id(request_id), body)


def _dead_requests(view: LedgerView, queue: str, request_ids: Sequence[str]) -> dict[str, Document]:
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
