"""Requests to recompute as they are written down: by a trigger, or in pages (§8.2, §8.4, K12).

A trigger asks for everything below it in its own transaction, parents first, as long as that is
at most `CASCADE_REQUESTS_MAX` understandings. What reaches more leaves one request in the queue of
cascades instead, whoever runs the ledger plans it on a snapshot (`plan_deferred`), and operations
of the verb `enqueue_recalculate_authority` write it down a page at a time. Nothing is recomputed
before the last page, so nothing is ever computed from an input whose turn was not written down yet.

The same operations carry what is asked for without a change: a user's request (which cascades by
itself), the decay tick, the backfill.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from kernel.authority.cascade import CascadePlan, CascadeTooWide, plan_cascade
from kernel.authority.graph import (
    dependents_of,
    eager_dependents_of,
    few_dependents_of,
    is_nightly,
    is_understanding,
)
from kernel.authority.requests import (
    AUTHORITY_QUEUE,
    CASCADE_QUEUE,
    CASCADES,
    PRIORITIES,
    RANKS,
    close_request,
    forget_cascades,
)
from kernel.authority.triggers import (
    ENQUEUED_KINDS,
    INPUT_UPDATE,
    Trigger,
    ranks_of,
)
from kernel.canonical import canonicalize_plain
from kernel.errors import EffectInapplicable
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerTransaction, LedgerView, Request
from kernel.model.envelope import Envelope
from kernel.model.node_kinds import UNDERSTANDING
from kernel.model.receipt import Receipt
from kernel.stores.record import Operation

ENQUEUED_RECEIPT = "authority_recompute_enqueued"
DEFERRED_RECEIPT = "authority_cascade_deferred"

CASCADE_REQUESTS_MAX = 1024
"""How many understandings a trigger may ask for in its own transaction."""

PAGE_REQUESTS_MAX = 256
"""How many one operation of `ENQUEUE` may ask for by name."""

_RECENT_REQUESTS = 64

Name = Annotated[str, StringConstraints(min_length=1, max_length=512)]
Names = Annotated[list[Name], Field(max_length=PAGE_REQUESTS_MAX)]
Priority = Literal[
    "user_initiated_critical",
    "user_active_session",
    "high_access_frequency",
    "background_normal",
    "background_low_priority",
]


class _Stated(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class EnqueuedRequest(_Stated):
    """One recompute that is asked for by name."""

    target_cu_id: Name
    trigger_kind: Name
    priority: Priority


class Enqueued(_Stated):
    """What an operation of `ENQUEUE` asks for, as its one effect states it."""

    trigger_source_id: Name
    requests: Annotated[list[EnqueuedRequest], Field(max_length=PAGE_REQUESTS_MAX)]
    cascades: bool = False
    """Whether what depends on the targets is asked for with them; a page names it itself."""

    cyclic: Names = []
    beyond_cap: Names = []
    """What the plan had to leave out, in part: each page tells of its own."""

    cascade_request_id: Name | None = None
    """The deferred cascade to which the page belongs."""

    closes_cascade: bool = False


@dataclass(frozen=True, slots=True)
class _Asking:
    """How the triggers of one operation reach understandings, in a transaction or on a snapshot."""

    triggers: tuple[Trigger, ...]
    direct_rank: int
    rank: int

    @property
    def dependents(self) -> Callable[[LedgerView, str], list[str]]:
        asked = any(trigger.kind in ENQUEUED_KINDS for trigger in self.triggers)
        return dependents_of if asked else eager_dependents_of

    def plan(
        self,
        view: LedgerView,
        below: Callable[[str], list[str]],
        limit: int | None,
    ) -> tuple[CascadePlan, dict[str, str]]:
        """Return the plan, and the kind of trigger of each understanding where it begins."""
        kinds: dict[str, str] = {}
        for trigger in self.triggers:
            targets: Iterable[str] = trigger.targets
            if trigger.kind not in ENQUEUED_KINDS:
                targets = [one for one in targets if not is_nightly(view.node(one))]
            kinds |= dict.fromkeys(targets, trigger.kind)
            if trigger.below is not None:
                kinds |= dict.fromkeys(below(trigger.below), trigger.kind)

        def rank_of(node: str) -> int:
            return _rank_of(view, node, self.direct_rank if node in kinds else self.rank)

        return plan_cascade(kinds, below, rank_of, limit), kinds

    def document(self) -> Document:
        return {
            "triggers": [
                {"trigger_kind": one.kind, "target_cu_ids": [*one.targets], "below": one.below}
                for one in self.triggers
            ],
            "direct_priority": PRIORITIES[self.direct_rank],
            "priority": PRIORITIES[self.rank],
        }

    @classmethod
    def of_document(cls, document: Document) -> "_Asking":
        triggers = tuple(
            Trigger(one["trigger_kind"], tuple(one["target_cu_ids"]), one["below"])
            for one in document["triggers"]
        )
        return cls(triggers, RANKS[document["direct_priority"]], RANKS[document["priority"]])


def record_requests(operation: Operation, envelope: Envelope, triggers: list[Trigger]) -> None:
    """Write a request for every understanding that the triggers reach, or one for all of them."""
    if not triggers:
        return
    now_us = operation.transaction.head_now.committed_at_us
    ranks = ranks_of(operation.transaction, envelope, now_us)
    _record(operation, _Asking(tuple(triggers), *ranks), operation.operation_id)


def record_enqueued(operation: Operation, envelope: Envelope) -> None:
    """Write what an operation of `ENQUEUE` asks for.

    Raises:
        EffectInapplicable: `authority_enqueue_invalid`, `authority_target_unknown`, or
            `authority_cascade_closed` for a page that comes too late.
    """
    stated = [
        one.payload for one in envelope.primitive_effects if one.receipt_subkind == ENQUEUED_RECEIPT
    ]
    if len(stated) != 1:
        raise _invalid(f"states {ENQUEUED_RECEIPT} once")
    try:
        asked = Enqueued.model_validate(stated[0])
    except ValidationError as error:
        raise _invalid(error.errors(include_url=False)[0]["msg"]) from None
    if asked.cascades:
        _record_asked_for(operation, asked)
    else:
        _record_page(operation, asked)


def plan_deferred(view: LedgerView, request: Request) -> list[Enqueued]:
    """Return the pages of a deferred cascade that are not on the record yet, in their order."""
    document = request.document
    asking = _Asking.of_document(document)
    plan, kinds = asking.plan(view, lambda node: asking.dependents(view, node), None)
    root = document["trigger_source_id"]
    steps = [
        one
        for one in _requests_of(plan, kinds)
        if not _is_asked(view, one.target_cu_id, one.trigger_kind, root)
    ]
    pages = _pages(root, steps, plan) or [Enqueued(trigger_source_id=root, requests=[])]
    owned = [one.model_copy(update={"cascade_request_id": request.request_id}) for one in pages]
    return [*owned[:-1], owned[-1].model_copy(update={"closes_cascade": True})]


def plan_sweep(
    view: LedgerView, targets: Iterable[str], trigger_kind: str, trigger_source_id: str
) -> list[Enqueued]:
    """Return the pages that ask for some understandings and all below, parents first (§8.6)."""
    low = RANKS["background_low_priority"]
    asking = _Asking((Trigger(trigger_kind, tuple(targets)),), low, low)
    plan, kinds = asking.plan(view, lambda node: dependents_of(view, node), None)
    return _pages(trigger_source_id, _requests_of(plan, kinds), plan)


def _requests_of(plan: CascadePlan, kinds: Mapping[str, str]) -> list[EnqueuedRequest]:
    return [
        EnqueuedRequest(
            target_cu_id=one.node_id,
            trigger_kind=kinds.get(one.node_id, INPUT_UPDATE),
            priority=PRIORITIES[one.rank],
        )
        for one in plan.steps
    ]


def _pages(source: str, requests: list[EnqueuedRequest], plan: CascadePlan) -> list[Enqueued]:
    """Cut a plan into what one operation may carry, in its order."""
    longest = max(len(requests), len(plan.cyclic), len(plan.beyond_cap))
    pages = (
        slice(start, start + PAGE_REQUESTS_MAX) for start in range(0, longest, PAGE_REQUESTS_MAX)
    )
    return [
        Enqueued(
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
    rows = view.tables.select(
        schema.outbox,
        {"queue": AUTHORITY_QUEUE, "item_key": target_cu_id},
        order_by="request_sequence",
        descending=True,
        limit=_RECENT_REQUESTS,
    )
    asked = (Request.of_row(row) for row in rows)
    named = (trigger_kind, trigger_source_id)
    return next((one for one in asked if _named(one.document) == named), None)


def _named(document: Document) -> tuple[Any, Any]:
    return document["trigger_kind"], document["trigger_source_id"]


def _is_asked(view: LedgerView, node_id: str, kind: str, source: str) -> bool:
    """Whether the same source has asked for it already and has no answer yet."""
    waiting = view.open_requests_of(AUTHORITY_QUEUE, node_id)
    return any(_named(one.document) == (kind, source) for one in waiting)


def _record(operation: Operation, asking: _Asking, source: str) -> None:
    transaction = operation.transaction

    def below(node: str) -> list[str]:
        few = few_dependents_of(transaction, node, CASCADE_REQUESTS_MAX)
        if few is None:
            raise CascadeTooWide
        if asking.dependents is dependents_of:
            return few
        return [one for one in few if not is_nightly(transaction.node(one))]

    try:
        plan, kinds = asking.plan(transaction, below, CASCADE_REQUESTS_MAX)
    except CascadeTooWide:
        _defer(operation, asking, source)
        return
    planned = {step.node_id for step in plan.steps}
    for step in plan.steps:
        kind = kinds.get(step.node_id, INPUT_UPDATE)
        _record_request(operation, step.node_id, kind, source, PRIORITIES[step.rank])
        _raise_parents(transaction, step.node_id, step.rank, planned)
    _report(operation, source, plan.cyclic, plan.beyond_cap)


def _record_asked_for(operation: Operation, asked: Enqueued) -> None:
    view, source = operation.transaction, asked.trigger_source_id
    if len(asked.requests) != 1 or asked.cascade_request_id or asked.closes_cascade:
        raise _invalid("who lets a request cascade states that one alone")
    [one] = asked.requests
    if one.trigger_kind not in ENQUEUED_KINDS:
        raise _invalid(f"{one.trigger_kind} is set off, not asked for")
    if not is_understanding(view.node(one.target_cu_id)):
        raise EffectInapplicable(
            f"{one.target_cu_id} is not an understanding",
            code="authority_target_unknown",
            field="target_refs.0",
        )
    if _is_asked(view, one.target_cu_id, one.trigger_kind, source):
        return
    rank = RANKS[one.priority]
    trigger = Trigger(one.trigger_kind, (one.target_cu_id,))
    _record(operation, _Asking((trigger,), rank, rank), source)


def _record_page(operation: Operation, asked: Enqueued) -> None:
    transaction, source = operation.transaction, asked.trigger_source_id
    if asked.cascade_request_id is not None:
        waiting = transaction.open_requests_of(CASCADE_QUEUE, CASCADES)
        if not waiting or waiting[0].request_id != asked.cascade_request_id:
            raise EffectInapplicable(
                "a page belongs to the oldest cascade that is open",
                code="authority_cascade_closed",
                field="primitive_effects.0.payload.cascade_request_id",
            )
    for one in asked.requests:
        target, kind = one.target_cu_id, one.trigger_kind
        if not is_understanding(transaction.node(target)):
            continue  # it is gone since the plan was made
        if _is_asked(transaction, target, kind, source):
            continue
        _record_request(operation, target, kind, source, one.priority)
        _raise_parents(transaction, target, RANKS[one.priority], ())
    _report(operation, source, tuple(asked.cyclic), tuple(asked.beyond_cap))
    if asked.closes_cascade and asked.cascade_request_id is not None:
        close_request(
            transaction,
            asked.cascade_request_id,
            outcome="completed",
            operation_id=operation.operation_id,
            closed_sequence=operation.sequence,
            closed_at_us=transaction.head_now.committed_at_us,
        )
        forget_cascades(transaction)


def _defer(operation: Operation, asking: _Asking, source: str) -> None:
    fields = {"trigger_source_id": source, **asking.document()}
    priority = PRIORITIES[asking.direct_rank]
    request_id = _append(operation, CASCADE_QUEUE, CASCADES, priority, fields)
    forget_cascades(operation.transaction)
    body = {"request_id": request_id, "trigger_source_id": source, "priority": priority}
    operation.emit(Receipt(DEFERRED_RECEIPT, body))


def _record_request(
    operation: Operation, node_id: str, kind: str, source: str, priority: str
) -> None:
    fields = {
        "target_cu_id": node_id,
        "trigger_kind": kind,
        "trigger_source_id": source,
        "priority": priority,
    }
    request_id = _append(operation, AUTHORITY_QUEUE, node_id, priority, fields)
    body = {
        "request_id": request_id,
        "target_cu_id": node_id,
        "trigger_kind": kind,
        "priority": priority,
    }
    operation.emit(Receipt("authority_recompute_request", body))


def _append(
    operation: Operation, queue: str, item_key: str, priority: str, fields: Mapping[str, Any]
) -> str:
    head = operation.transaction.head_now
    head.request_sequence += 1
    request_id = f"request:{head.request_sequence}:{item_key}"
    document = {"request_id": request_id, **fields, "enqueued_at": operation.applied_at}
    operation.transaction.tables.append(
        schema.outbox,
        {
            "request_id": request_id,
            "request_sequence": head.request_sequence,
            "queue": queue,
            "item_key": item_key,
            "priority": priority,
            "cause_sequence": operation.sequence,
            "open": 1,
            "enqueued_at_us": head.committed_at_us,
            "request_bytes": canonicalize_plain(document),
        },
    )
    return request_id


def _rank_of(view: LedgerView, node_id: str, rank: int) -> int:
    """The trigger's urgency, the understanding's own, or of what it waits for: the most urgent."""
    node = view.node(node_id)
    own = "" if node is None else str(node["payload"].get("recompute_priority"))
    waiting = (RANKS[one.priority] for one in view.open_requests_of(AUTHORITY_QUEUE, node_id))
    return min(rank, RANKS.get(own, rank), *waiting)


def _raise_parents(
    transaction: LedgerTransaction, node_id: str, rank: int, planned: Iterable[str]
) -> None:
    """Let what waits above be as urgent; where it is already, what is above that is as well."""
    waiting = [node_id]
    while waiting:
        for parent in transaction.input_sources(waiting.pop(), UNDERSTANDING):
            if parent in planned:
                continue
            slower = [
                one
                for one in transaction.open_requests_of(AUTHORITY_QUEUE, parent)
                if RANKS[one.priority] > rank
            ]
            for one in slower:
                values = {"priority": PRIORITIES[rank]}
                transaction.tables.update(schema.outbox, (one.request_id,), values)
            if slower:
                waiting.append(parent)


def _report(
    operation: Operation, source: str, cyclic: tuple[str, ...], beyond_cap: tuple[str, ...]
) -> None:
    for kind, nodes in (
        ("cu_authority_cycle_detected", cyclic),
        ("cascade_depth_exceeded", beyond_cap),
    ):
        if nodes:
            body = {"trigger_source_id": source, "node_refs": [*nodes]}
            operation.emit(Receipt(kind, body))


def _invalid(message: str) -> EffectInapplicable:
    return EffectInapplicable(
        message, code="authority_enqueue_invalid", field="primitive_effects.0.payload"
    )
