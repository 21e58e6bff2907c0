"""Decides once about all requests that fit a search: bulk operations.

A bulk operation is one operation of the log, with a row that says what it is about and how far it
has come. It is about the requests that were on the record when it was counted: its upper sequence
is fixed then, and it goes through what still fits, newest first, a page in each transaction with
the place that it has reached. So a gateway that is killed in between loses nothing, whichever goes
on, and nothing is done twice. Requests that ended meanwhile no longer fit; they are what was
counted and not done. Every receipt of a page names the operation.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from types import MappingProxyType
from typing import Any, Final, Literal

import orjson

from kernel.algebra.verbs import (
    REQUEST_CANCEL,
    REQUEST_DISMISS,
    REQUEST_PRIORITIZE,
    REQUEST_REQUEUE,
)
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerTransaction, LedgerView
from kernel.ledger.store.tables import Row, TableQuery
from kernel.records.operator_decisions import Decide, OperatorDecision, record_decision
from kernel.values.canonical import sha256_hex
from kernel.values.host import iso_time
from kernel.work import receipts
from kernel.work.errors import WorkRefused
from kernel.work.outcomes import storable
from kernel.work.queue_kinds import QUEUE_KINDS, no_such_queue
from kernel.work.request_lists import RequestSummary, list_requests
from kernel.work.request_search import RequestSearch, count_requests, numbers_in

Verb = Literal["cancel", "requeue", "dismiss", "prioritize"]

DECIDED_AS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cancel": REQUEST_CANCEL,
        "requeue": REQUEST_REQUEUE,
        "dismiss": REQUEST_DISMISS,
        "prioritize": REQUEST_PRIORITIZE,
    }
)
"""The verb of the operation, by that of the bulk operation."""

SAMPLES: Final = 10
RUNNING_MAX: Final = 16
"""Bulk operations that may run at once."""

COUNTED_MAX: Final = 100_000
"""Requests that are counted beforehand; more are done, and how many ended meanwhile is not said."""


_SEARCH_FIELDS: Final = frozenset(field.name for field in fields(RequestSearch))


@dataclass(frozen=True, slots=True)
class BulkPreview:
    """What a bulk operation would be about now."""

    count: int
    complete: bool
    """False where there may be more than were counted."""

    upper_sequence: int
    samples: tuple[RequestSummary, ...]
    """The newest ten."""


@dataclass(frozen=True, slots=True)
class BulkRequest:
    """What somebody decides about all requests that fit."""

    verb: Verb
    search: RequestSearch
    reason: str
    decided_by: str
    priority: str | None = None
    """Where they are given another, which one; of one queue then."""

    idempotency_key: str = ""
    """Under which it begins once, however often it is asked for; empty for none."""


@dataclass(frozen=True, slots=True)
class BulkOperation:
    """A bulk operation, and how far it has come."""

    bulk_number: int
    """The sequence of the operation of the log that decided it."""

    verb: Verb
    search: Document
    priority: str | None
    reason: str
    decided_by: str
    decided_by_operation_id: str
    begun_at: str
    counted: int
    """How many requests fitted when it was decided."""

    counted_all: bool
    upper_sequence: int
    """The newest request that it may be about."""

    cursor: int
    """It is through with requests from this sequence on."""

    done: int = 0
    refused: int = 0
    """How many fitted and could not be done, such as those that the record itself asks for."""

    asked_to_stop: int = 0
    """How many of those done were in the hands of a worker, which stops."""

    state: Literal["running", "finished", "stopped"] = "running"
    ended_at: str | None = None
    stopped_by: str | None = None
    ended_meanwhile: int | None = None
    """How many had their outcome before their turn; None while it runs, or nobody can say."""


@dataclass(frozen=True, slots=True)
class BulkOperationsPage:
    """Bulk operations, newest first."""

    bulk_operations: tuple[BulkOperation, ...]
    next_after: int | None
    """Where the next page begins; None after the last."""


def search_of(verb: Verb, search: RequestSearch) -> RequestSearch:
    """Return the search with the state that a verb needs."""
    return replace(search, state="open" if verb in ("cancel", "prioritize") else "standing")


def preview(
    view: LedgerView, verb: Verb, search: RequestSearch, upper_sequence: int | None = None
) -> BulkPreview:
    """Count what fits now, up to a sequence where one is given, with the newest of it."""
    fitting, upper = search_of(verb, search), view.head().request_sequence
    upper = upper if upper_sequence is None else min(upper, upper_sequence)
    count, is_complete = count_requests(view, fitting, COUNTED_MAX, after=upper + 1)
    samples = list_requests(view, fitting, after=upper + 1, limit=SAMPLES).requests
    return BulkPreview(count, is_complete, upper, samples)


def begin(
    transaction: LedgerTransaction, request: BulkRequest, counted: BulkPreview, decide: Decide
) -> BulkOperation:
    """Put a bulk operation on the record; nothing of it is done yet.

    What was begun before under its key is returned as it stands.

    Raises:
        WorkRefused: `work_request_invalid`, `work_queue_unknown`, `queue_unknown_priority`,
            `work_request_conflict`, `bulk_operations_too_many`.
    """
    _check(request)
    fitting = _search_fields(search_of(request.verb, request.search))
    if (known := _begun_under(transaction, request.idempotency_key)) is not None:
        if (known.verb, known.search, known.priority) != (request.verb, fitting, request.priority):
            message = "something else was begun under this key"
            raise WorkRefused("work_request_conflict", message, "idempotency_key")
        return known
    if len(running(transaction)) >= RUNNING_MAX:
        message = f"{RUNNING_MAX} bulk operations are running; ask again"
        raise WorkRefused("bulk_operations_too_many", message)
    queue = request.search.queue
    target = "requests" if queue is None else f"queue:{queue}"
    by, reason = storable(request.decided_by), storable(request.reason)
    decision = OperatorDecision(DECIDED_AS[request.verb], (target,), by, reason)
    said = record_decision(decision, decide)
    transaction.next_commit_time_us()
    operation = BulkOperation(
        bulk_number=transaction.head_now.ec_sequence_number,
        verb=request.verb,
        search=fitting,
        priority=request.priority,
        reason=reason,
        decided_by=by,
        decided_by_operation_id=said["decided_by_operation_id"],
        begun_at=iso_time(transaction.head_now.committed_at_us),
        counted=counted.count,
        counted_all=counted.complete,
        upper_sequence=counted.upper_sequence,
        cursor=counted.upper_sequence + 1,
    )
    receipt_id = _receipt_id(request.idempotency_key or operation.decided_by_operation_id)
    body = {name: value for name, value in asdict(operation).items() if value is not None}
    receipts.record(transaction, receipts.BULK_BEGUN, receipt_id, body)
    return operation


def _begun_under(view: LedgerView, key: str) -> BulkOperation | None:
    receipt = view.receipt(_receipt_id(key)) if key else None
    return None if receipt is None else bulk_operation(view, receipt["bulk_number"])


def _receipt_id(name: str) -> str:
    return f"receipt:bulk:{sha256_hex(name.encode())}"


def advance(
    transaction: LedgerTransaction, before: BulkOperation, after: BulkOperation
) -> BulkOperation:
    """Put on the record how far a bulk operation has come, and return it as it stands then."""
    transaction.next_commit_time_us()
    names = ("bulk_number", "cursor", "done", "refused", "asked_to_stop", "state")
    body = {name: getattr(after, name) for name in names}
    if after.stopped_by is not None:
        body["stopped_by"] = after.stopped_by
    if after.state != "running":
        body["ended_at"] = iso_time(transaction.head_now.committed_at_us)
    receipt_id = f"receipt:{before.decided_by_operation_id}:bulk:{transaction.host.new_id()}"
    receipts.record(transaction, receipts.BULK_ADVANCED, receipt_id, body)
    operation = bulk_operation(transaction, before.bulk_number)
    assert operation is not None, "it has a row"  # noqa: S101 - for the types
    return operation


def stop(transaction: LedgerTransaction, bulk_number: int, stopped_by: str) -> BulkOperation:
    """End a bulk operation where it is; what it has done stays. Again changes nothing.

    Raises:
        WorkRefused: `bulk_operation_unknown`.
    """
    operation = bulk_operation(transaction, bulk_number)
    if operation is None:
        message = f"no bulk operation has the number {bulk_number}"
        raise WorkRefused("bulk_operation_unknown", message, "bulk_number")
    if operation.state != "running":
        return operation
    stopped = replace(operation, state="stopped", stopped_by=storable(stopped_by))
    return advance(transaction, operation, stopped)


def bulk_operation(view: LedgerView, bulk_number: int) -> BulkOperation | None:
    """Return a bulk operation as it stands."""
    row = view.tables.get(schema.bulk_operations, bulk_number)
    return None if row is None else _of_row(row)


def list_bulk_operations(view: LedgerView, *, after: int | None, limit: int) -> BulkOperationsPage:
    """Return bulk operations that were decided before the one that `after` names."""
    query = TableQuery(schema.bulk_operations, after=after, descending=True, limit=limit)
    page = tuple(_of_row(row) for row in view.tables.scan(query))
    return BulkOperationsPage(page, page[-1].bulk_number if len(page) == limit else None)


def running(view: LedgerView) -> list[BulkOperation]:
    """Return the bulk operations that have not ended, in their order.

    One whose search a later release knows more of is not gone on with here: without what is not
    known it would be about other requests.
    """
    query = TableQuery(schema.bulk_operations, {"running": 1}, order_by="ec_sequence_number")
    operations = [_of_row(row) for row in view.tables.scan(query)]
    return [each for each in operations if each.search.keys() <= _SEARCH_FIELDS]


def search_in(operation: BulkOperation) -> RequestSearch:
    """Return the search of a bulk operation; a field of a later release is not known here."""
    search = operation.search
    return RequestSearch(**{name: search[name] for name in search.keys() & _SEARCH_FIELDS})


def _search_fields(search: RequestSearch) -> Document:
    return {name: value for name, value in asdict(search).items() if value is not None}


def _of_row(row: Row) -> BulkOperation:
    record: dict[str, Any] = orjson.loads(row["record"])
    operation = BulkOperation(**({"priority": None} | record))
    if operation.state != "finished" or not operation.counted_all:
        return operation
    ended = operation.counted - operation.done - operation.refused
    return replace(operation, ended_meanwhile=max(0, ended))


def _check(request: BulkRequest) -> None:
    if not request.reason.strip():
        raise WorkRefused("work_request_invalid", "say why", "reason")
    kind = QUEUE_KINDS.get(request.search.queue or "")
    if request.search.numbers is not None:
        numbers_in(request.search.numbers)
    if request.search.queue is not None and kind is None:
        raise WorkRefused("work_queue_unknown", no_such_queue(request.search.queue), "queue")
    if request.verb != "prioritize":
        if request.priority is not None:
            raise WorkRefused("work_request_invalid", "only prioritize takes one", "priority")
        return
    if kind is None:
        raise WorkRefused("work_request_invalid", "priorities are of one queue", "queue")
    if request.priority is None or not kind.has_priority(request.priority):
        message = f"{kind.name} has no priority {request.priority!r}"
        raise WorkRefused("queue_unknown_priority", message, "priority")
