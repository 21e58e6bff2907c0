"""Defines the units of bulk operations: one begins, takes a page, or is stopped.

A page does what it can of each request: one that the kernel refuses is undone by itself, counted,
and passed. If a queue has no room for what is asked for anew the page ends before it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from actors.commit.binding_units import close_unevaluated
from actors.commit.decision_record import decide_in
from actors.commit.extraction_units import cancel_extraction
from actors.commit.unit_context import CommitContext
from kernel.ledger.ledger import Document, Request
from kernel.work.bulk_operations import (
    BulkOperation,
    BulkPreview,
    BulkRequest,
    advance,
    begin,
    bulk_operation,
    search_in,
    stop,
)
from kernel.work.dead_letters import dismiss_request, requeue_requests
from kernel.work.errors import WorkRefused
from kernel.work.outcomes import prioritize
from kernel.work.queue_kinds import is_extraction_task, is_requestable
from kernel.work.request_search import find_requests

PAGE_REQUESTS: Final = 256
"""Requests that one transaction is about."""

_NO_ROOM: Final = frozenset({"work_requests_too_many"})


@dataclass(frozen=True, slots=True)
class BulkPage:
    """What a page came to."""

    operation: BulkOperation
    """As it stands now."""

    requests: tuple[tuple[str, str], ...] = ()
    """The queue and the id of each request that was done."""


@dataclass(frozen=True, slots=True)
class BeginBulkUnit:
    """Decide something about all requests that fit a search."""

    request: BulkRequest
    counted: BulkPreview

    def run(self, context: CommitContext) -> BulkOperation:
        """Record it; raises `WorkRefused`, `DecisionRefused`."""
        return begin(context.transaction, self.request, self.counted, decide_in(context))


@dataclass(frozen=True, slots=True)
class StopBulkUnit:
    """End a bulk operation where it is."""

    bulk_number: int
    stopped_by: str

    def run(self, context: CommitContext) -> BulkOperation:
        """Record it; raises `WorkRefused`."""
        return stop(context.transaction, self.bulk_number, self.stopped_by)


@dataclass(frozen=True, slots=True)
class BulkPageUnit:
    """Do the next page of a bulk operation, unless another has done it."""

    bulk_number: int
    cursor: int
    """Where the operation stood when the page was asked for."""

    asked_to_stop: int = 0
    """Of the page before, how many were in the hands of workers."""

    def run(self, context: CommitContext) -> BulkPage | None:
        """Return what it came to; None, and nothing recorded, where another has done it."""
        transaction = context.transaction
        before = bulk_operation(transaction, self.bulk_number)
        if before is None or before.state != "running" or before.cursor != self.cursor:
            return None
        search = search_in(before)
        page = find_requests(transaction, search, after=before.cursor, limit=PAGE_REQUESTS)
        requests = [Request.of_row(row) for row in page.rows]
        done = _ACTIONS[before.verb](context, requests, before)
        # What workers had in hand is known once Redis was asked, and recorded with the next page.
        is_last = page.next_after is None and not (done and before.verb == "cancel")
        after = replace(
            before,
            cursor=page.next_after or 0,
            done=before.done + len(done),
            refused=before.refused + len(requests) - len(done),
            asked_to_stop=before.asked_to_stop + self.asked_to_stop,
            state="finished" if is_last else "running",
        )
        after = advance(transaction, before, after)
        return BulkPage(after, tuple((request.queue, request.request_id) for request in done))


_Act = Callable[[CommitContext, Request, BulkOperation], None]
_ActOnPage = Callable[[CommitContext, list[Request], BulkOperation], list[Request]]


def _on_each(act: _Act) -> _ActOnPage:
    """Return what acts on each request of a page by itself, and returns those that were done."""

    def act_on_page(
        context: CommitContext, requests: list[Request], operation: BulkOperation
    ) -> list[Request]:
        done = []
        for request in requests:
            try:
                with context.transaction.savepoint():
                    act(context, request, operation)
            except WorkRefused:
                continue
            done.append(request)
        return done

    return act_on_page


def _decision_fields(operation: BulkOperation) -> Document:
    return {
        "decided_by": operation.decided_by,
        "decided_by_operation_id": operation.decided_by_operation_id,
    }


def _cancel(context: CommitContext, request: Request, operation: BulkOperation) -> None:
    if not is_requestable(request.queue):
        message = f"the record asks for {request.request_id}"
        raise WorkRefused("work_request_not_cancellable", message, "request_id")
    if is_extraction_task(request):
        cancel_extraction(context, request, operation.reason)
    close_unevaluated(context, request, "cancelled", operation.reason, _decision_fields(operation))


def _requeue(
    context: CommitContext, requests: list[Request], operation: BulkOperation
) -> list[Request]:
    """Ask anew for all that can be, together, because counting what is open is dear.

    Raises:
        WorkRefused: `work_requests_too_many`; the page waits for room.
    """
    left = [request for request in requests if is_requestable(request.queue)]
    while left:
        try:
            with context.transaction.savepoint():
                requeue_requests(context.transaction, left, _decision_fields(operation))
        except WorkRefused as refused:
            if refused.index is None and refused.code in _NO_ROOM:
                raise
            # A full item is refused without a place: then they are left out from the first on.
            left = left[: refused.index or 0] + left[(refused.index or 0) + 1 :]
        else:
            break
    return left


def _dismiss(context: CommitContext, request: Request, operation: BulkOperation) -> None:
    dismiss_request(
        context.transaction,
        request.queue,
        request.request_id,
        operation.reason,
        _decision_fields(operation),
    )


def _prioritize(context: CommitContext, request: Request, operation: BulkOperation) -> None:
    assert operation.priority is not None, "it was checked when it began"  # noqa: S101 - for the types
    prioritize(context.transaction, request, operation.priority, _decision_fields(operation))


_ACTIONS: Mapping[str, _ActOnPage] = MappingProxyType(
    {
        "cancel": _on_each(_cancel),
        "requeue": _requeue,
        "dismiss": _on_each(_dismiss),
        "prioritize": _on_each(_prioritize),
    }
)
