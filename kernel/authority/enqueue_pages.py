"""Recomputes that operations of a verb of their own ask for (§8.2, §8.4, §8.6).

These operations carry what no change sets off: a user's request (which cascades by itself), the
decay tick, the backfill; and the pages of a cascade that was too wide for the transaction of its
trigger. Whoever runs the ledger plans the pages on a snapshot and records them in turn.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, cast

from kernel.algebra.verbs import ENQUEUE
from kernel.authority.cascade import CascadePlan
from kernel.authority.graph import dependents_of, is_understanding
from kernel.authority.request_recording import record, record_request, report
from kernel.authority.requests import (
    AUTHORITY_QUEUE,
    CASCADE_QUEUE,
    CASCADES,
    PRIORITIES,
    RANKS,
    forget_cascades,
)
from kernel.authority.triggered_requests import TriggeredRequests
from kernel.authority.triggers import ENQUEUED_KINDS, INPUT_UPDATE, Trigger
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView, Request
from kernel.ledger.outbox import end_request
from kernel.ledger.store.tables import TableQuery
from kernel.model.node_kinds import UNDERSTANDING
from kernel.model.receipt import sole_receipt
from kernel.model.stated_receipts import (
    PAGE_REQUESTS_MAX,
    EnqueuedRequest,
    RecomputePriority,
    RecomputeRequested,
)
from kernel.records.operation_steps import AppliedOperation, Steps
from kernel.records.record import Operation
from kernel.values.errors import EffectInapplicable

ENQUEUED_RECEIPT = "authority_recompute_enqueued"

_RECENT_REQUESTS = 64


def record_enqueued(operation: AppliedOperation) -> None:
    """Write what an operation of `ENQUEUE` asks for.

    Raises:
        EffectInapplicable: `authority_enqueue_invalid`, `authority_target_unknown`, or
            `authority_cascade_closed` for a page that comes too late.
    """
    try:
        page = sole_receipt(operation.envelope, ENQUEUED_RECEIPT, RecomputeRequested)
    except ValueError as error:
        raise _invalid(str(error)) from None
    if page.cascades:
        _record_asked_for(operation, page)
    else:
        _record_page(operation, page)


def plan_deferred(view: LedgerView, request: Request) -> list[RecomputeRequested]:
    """Return the pages of a deferred cascade that are not on the record yet, in their order."""
    document = request.document
    asking = TriggeredRequests.of_document(document)
    plan, kinds = asking.plan(view, lambda node: asking.dependents(view, node), None)
    root = document["trigger_source_id"]
    steps = [
        step
        for step in _requests_of(plan, kinds)
        if not _is_asked(view, step.target_cu_id, step.trigger_kind, root)
    ]
    pages = _pages(root, steps, plan) or [RecomputeRequested(trigger_source_id=root, requests=[])]
    owned = [page.model_copy(update={"cascade_request_id": request.request_id}) for page in pages]
    return [*owned[:-1], owned[-1].model_copy(update={"closes_cascade": True})]


def plan_sweep(
    view: LedgerView, targets: Iterable[str], trigger_kind: str, trigger_source_id: str
) -> list[RecomputeRequested]:
    """Return the pages that ask for understandings and all below them, parents first (§8.6)."""
    low = RANKS["background_low_priority"]
    asking = TriggeredRequests((Trigger(trigger_kind, tuple(targets)),), low, low)
    plan, kinds = asking.plan(view, lambda node: dependents_of(view, node), None)
    return _pages(trigger_source_id, _requests_of(plan, kinds), plan)


def _requests_of(plan: CascadePlan, kinds: Mapping[str, str]) -> list[EnqueuedRequest]:
    return [
        EnqueuedRequest(
            target_cu_id=step.node_id,
            trigger_kind=kinds.get(step.node_id, INPUT_UPDATE),
            priority=cast("RecomputePriority", PRIORITIES[step.rank]),
        )
        for step in plan.steps
    ]


def _pages(
    source: str, requests: list[EnqueuedRequest], plan: CascadePlan
) -> list[RecomputeRequested]:
    """Cut a plan into pages of what one operation may carry."""
    longest = max(len(requests), len(plan.cyclic), len(plan.beyond_cap))
    pages = (
        slice(start, start + PAGE_REQUESTS_MAX) for start in range(0, longest, PAGE_REQUESTS_MAX)
    )
    return [
        RecomputeRequested(
            trigger_source_id=source,
            requests=requests[page],
            cyclic=[*plan.cyclic[page]],
            beyond_cap=[*plan.beyond_cap[page]],
        )
        for page in pages
    ]


def request_of(
    view: LedgerView, target_cu_id: str, trigger_kind: str, trigger_source_id: str
) -> Request | None:
    """Return the newest request for an understanding by its trigger and source, open or not.

    Older requests than the last 64 for one understanding are not looked at.
    """
    query = TableQuery(
        schema.outbox,
        {"queue": AUTHORITY_QUEUE, "item_key": target_cu_id},
        order_by="request_sequence",
        descending=True,
        limit=_RECENT_REQUESTS,
    )
    rows = view.tables.scan(query)
    requests = (Request.of_row(row) for row in rows)
    trigger = (trigger_kind, trigger_source_id)
    return next((request for request in requests if _trigger_of(request.document) == trigger), None)


def _trigger_of(document: Document) -> tuple[Any, Any]:
    return document["trigger_kind"], document["trigger_source_id"]


def _is_asked(view: LedgerView, node_id: str, kind: str, source: str) -> bool:
    """Whether the same source has asked for it already and has no answer yet."""
    waiting = view.open_requests_of(AUTHORITY_QUEUE, node_id)
    return any(_trigger_of(request.document) == (kind, source) for request in waiting)


def _record_asked_for(operation: Operation, page: RecomputeRequested) -> None:
    view, source = operation.transaction, page.trigger_source_id
    if len(page.requests) != 1 or page.cascade_request_id or page.closes_cascade:
        raise _invalid("who lets a request cascade states that one alone")
    [request] = page.requests
    if request.trigger_kind not in ENQUEUED_KINDS:
        raise _invalid(f"{request.trigger_kind} is set off, not asked for")
    if not is_understanding(view.node(request.target_cu_id)):
        raise EffectInapplicable(
            f"{request.target_cu_id} is not an understanding",
            code="authority_target_unknown",
            field="target_refs.0",
        )
    if _is_asked(view, request.target_cu_id, request.trigger_kind, source):
        return
    rank = RANKS[request.priority]
    trigger = Trigger(request.trigger_kind, (request.target_cu_id,))
    record(operation, TriggeredRequests((trigger,), rank, rank), source)


def _record_page(operation: Operation, page: RecomputeRequested) -> None:
    transaction, source = operation.transaction, page.trigger_source_id
    if page.cascade_request_id is not None:
        waiting = transaction.open_requests_of(CASCADE_QUEUE, CASCADES)
        if not waiting or waiting[0].request_id != page.cascade_request_id:
            raise EffectInapplicable(
                "a page belongs to the oldest cascade that is open",
                code="authority_cascade_closed",
                field="primitive_effects.0.payload.cascade_request_id",
            )
    for request in page.requests:
        target, kind = request.target_cu_id, request.trigger_kind
        row = transaction.tables.get(schema.nodes, target)
        if row is None or row["node_kind"] != UNDERSTANDING:
            continue  # it is gone since the plan was made
        if not _is_asked(transaction, target, kind, source):
            record_request(operation, target, kind, source, RANKS[request.priority])
    report(operation, source, tuple(page.cyclic), tuple(page.beyond_cap))
    if page.closes_cascade and page.cascade_request_id is not None:
        end_request(
            transaction.tables,
            page.cascade_request_id,
            outcome="completed",
            operation_id=operation.operation_id,
            closed_sequence=operation.sequence,
            closed_at_us=transaction.head_now.committed_at_us,
        )
        forget_cascades(transaction)


def _invalid(message: str) -> EffectInapplicable:
    return EffectInapplicable(
        message, code="authority_enqueue_invalid", field="primitive_effects.0.payload"
    )


VERB_STEPS = MappingProxyType({ENQUEUE: Steps(after=record_enqueued)})
