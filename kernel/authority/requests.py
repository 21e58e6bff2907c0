"""Requests to recompute: recorded with their cause, closed with their result (§8.2, K12, K19).

A request is written in the transaction of the operation that caused it, and gets its one outcome
in the transaction of the recompute that serves it. A recompute speaks for the snapshot that it
read: it closes the requests caused at or before that sequence and no later one, so work that
arrives while it runs is never lost and never forces it to start again.

It is glitch-free because it is refused while an understanding above it had, at that sequence, a
request of its own without an answer.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

import orjson

from kernel.authority.cascade import CascadePlan, plan_cascade
from kernel.authority.graph import dependents_of, feeding_understandings, is_understanding
from kernel.canonical import canonicalize_plain
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerTransaction, LedgerView, Request
from kernel.ledger.tables import Row
from kernel.model.envelope import Envelope, KernelEffect
from kernel.model.node_kinds import CLAIM, UNDERSTANDING
from kernel.model.receipt import Receipt
from kernel.priorities import PRIORITIES_OF
from kernel.stores.record import Applied, Operation

AUTHORITY_QUEUE = "authority-recompute"

PRIORITIES = tuple(PRIORITIES_OF[AUTHORITY_QUEUE])
"""Most urgent first (§8.3)."""

DEFAULT_PRIORITY = "background_normal"

_RANK = {name: rank for rank, name in enumerate(PRIORITIES)}


class Readiness(Enum):
    """Whether a recompute as of a sequence may be recorded."""

    READY = "ready"
    CLOSED = "closed"
    """No request caused by then is open: the work was done, or never asked for."""

    INPUT_PENDING = "input_pending"
    """An understanding above was still waiting for its own recompute at that sequence."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """Why understandings must be recomputed: the kind of change and what it touched (T1 to T7)."""

    kind: str
    targets: tuple[str, ...]


def readiness(view: LedgerView, node_id: str, as_of_sequence: int) -> Readiness:
    """Tell whether a recompute that read the ledger at a sequence may be recorded now."""
    if not _open_by(view, node_id, as_of_sequence):
        return Readiness.CLOSED
    for parent in feeding_understandings(view, node_id):
        if _was_pending(view, parent, as_of_sequence) and not _on_one_cycle(view, node_id, parent):
            return Readiness.INPUT_PENDING
    return Readiness.READY


def stale_since(view: LedgerView, node_id: str) -> str | None:
    """Return since when a recompute of an understanding is asked for, None where none is (§21.4).

    Until it is recorded the stored authority is the one from before.
    """
    waiting = view.open_requests_of(AUTHORITY_QUEUE, node_id)
    return str(waiting[0].document["enqueued_at"]) if waiting else None


def ready_items(view: LedgerView, requests: Iterable[Request]) -> list[Request]:
    """Return the requests that no understanding above them holds back."""
    keys: dict[str, bool] = {}
    ready = []
    for request in requests:
        if request.queue != AUTHORITY_QUEUE:
            continue
        key = request.item_key
        if key not in keys:
            keys[key] = not any(
                view.open_requests_of(AUTHORITY_QUEUE, parent)
                for parent in feeding_understandings(view, key)
                if not _on_one_cycle(view, key, parent)
            )
        if keys[key]:
            ready.append(request)
    return ready


def triggers_of(
    view: LedgerView, envelope: Envelope, applied: Iterable[tuple[KernelEffect, Applied]]
) -> list[Trigger]:
    """Return what an operation sets off; a recompute itself sets nothing off (K12)."""
    if envelope.semantic_intent == "recalculate_authority":
        return []
    triggers = []
    for _, one in applied:
        if one.store == schema.nodes.name:
            trigger = _node_trigger(view, one)
        elif one.store == schema.edges.name:
            trigger = _edge_trigger(view, one)
        else:
            continue
        if trigger.targets:
            triggers.append(trigger)
    return triggers


def record_requests(
    operation: Operation, envelope: Envelope, triggers: list[Trigger], cause_sequence: int
) -> None:
    """Write a request for every understanding that the triggers reach, parents first."""
    if not triggers:
        return
    transaction = operation.transaction
    rank = _RANK.get(envelope.recompute_priority or "", _RANK[DEFAULT_PRIORITY])
    plan = plan_cascade(
        {target for trigger in triggers for target in trigger.targets},
        lambda node: dependents_of(transaction, node),
        lambda node: _rank_of(transaction, node, rank),
    )
    kinds = {target: trigger.kind for trigger in triggers for target in trigger.targets}
    for step in plan.steps:
        kind = kinds.get(step.node_id, "input_cu_update")
        _record_request(operation, step.node_id, kind, PRIORITIES[step.rank], cause_sequence)
        _raise_parents(transaction, step.node_id, step.rank)
    _report(operation, plan)


def close_requests(
    transaction: LedgerTransaction,
    node_id: str,
    as_of_sequence: int,
    *,
    outcome: str,
    operation_id: str | None,
    closed_sequence: int,
    closed_at_us: int,
) -> list[str]:
    """Give the open requests of an item that were caused by then their outcome."""
    closed = []
    for request in _open_by(transaction, node_id, as_of_sequence):
        transaction.tables.append(
            schema.outbox_outcomes,
            {
                "request_id": request.request_id,
                "outcome": outcome,
                "operation_id": operation_id,
                "closed_sequence": closed_sequence,
                "closed_at_us": closed_at_us,
            },
        )
        transaction.tables.update(schema.outbox, (request.request_id,), {"open": 0})
        closed.append(request.request_id)
    return closed


def cancel_requests_for_removed(operation: Operation, applied: Iterable[Applied]) -> None:
    """Close the requests for understandings that are no longer there: nobody can serve them."""
    transaction = operation.transaction
    for one in applied:
        if one.store == schema.nodes.name and one.post_image_hash is None:
            close_requests(
                transaction,
                one.record_key,
                operation.sequence,
                outcome="cancelled",
                operation_id=operation.operation_id,
                closed_sequence=operation.sequence,
                closed_at_us=transaction.head_now.committed_at_us,
            )


def _open_by(view: LedgerView, node_id: str, as_of_sequence: int) -> list[Request]:
    return [
        request
        for request in view.open_requests_of(AUTHORITY_QUEUE, node_id)
        if request.cause_sequence <= as_of_sequence
    ]


def _was_pending(view: LedgerView, node_id: str, as_of_sequence: int) -> bool:
    for row in view.request_rows_of(AUTHORITY_QUEUE, node_id):
        if row["cause_sequence"] > as_of_sequence:
            continue
        outcome = None if row["open"] else view.outcome_of(row["request_id"])
        if outcome is None or outcome["closed_sequence"] > as_of_sequence:
            return True
    return False


def _on_one_cycle(view: LedgerView, one: str, other: str) -> bool:
    return one == other or one in feeding_understandings(view, other)


def _node_trigger(view: LedgerView, applied: Applied) -> Trigger:
    node = view.node(applied.record_key)
    kind = None if node is None else node["node_kind"]
    if kind == UNDERSTANDING:
        return Trigger("input_cu_update", (applied.record_key,))
    if kind == CLAIM and applied.pre_image_hash is not None:
        targets = tuple(dependents_of(view, applied.record_key))
        return Trigger("versioned_claim_update", targets)
    return Trigger("", ())


def _edge_trigger(view: LedgerView, applied: Applied) -> Trigger:
    edges = [view.record(schema.edges, applied.record_key)]
    if applied.pre_image_hash is not None:
        # An edge that was removed and made anew may have fed somebody else before.
        before = view.tables.get(schema.pre_images, applied.pre_image_hash)
        edges.append(None if before is None else orjson.loads(before["content"]))
    targets = {
        edge["target_node_id"]
        for edge in edges
        if edge is not None and "essentiality" in edge["edge_metadata"]
    }
    fed = tuple(sorted(target for target in targets if is_understanding(view.node(target))))
    return Trigger("edge_essentiality_change", fed)


def _rank_of(view: LedgerView, node_id: str, rank: int) -> int:
    """The trigger's urgency, the understanding's own, or of what it waits for: the most urgent."""
    node = view.node(node_id)
    own = "" if node is None else str(node["payload"].get("recompute_priority"))
    waiting = (_RANK[one.priority] for one in view.open_requests_of(AUTHORITY_QUEUE, node_id))
    return min(rank, _RANK.get(own, rank), *waiting)


def _record_request(
    operation: Operation, node_id: str, kind: str, priority: str, cause_sequence: int
) -> None:
    transaction = operation.transaction
    transaction.head_now.request_sequence += 1
    sequence = transaction.head_now.request_sequence
    document: Document = {
        "request_id": f"request:{sequence}:{node_id}",
        "target_cu_id": node_id,
        "trigger_kind": kind,
        "trigger_source_id": operation.operation_id,
        "priority": priority,
        "enqueued_at": operation.applied_at,
    }
    row: Row = {
        "request_id": document["request_id"],
        "request_sequence": sequence,
        "queue": AUTHORITY_QUEUE,
        "item_key": node_id,
        "priority": priority,
        "cause_sequence": cause_sequence,
        "open": 1,
        "enqueued_at_us": transaction.head_now.committed_at_us,
        "request_bytes": canonicalize_plain(document),
    }
    transaction.tables.append(schema.outbox, row)
    body = {name: document[name] for name in ("request_id", "target_cu_id", "trigger_kind")}
    operation.emit(Receipt("authority_recompute_request", body | {"priority": priority}))


def _raise_parents(transaction: LedgerTransaction, node_id: str, rank: int) -> None:
    for parent in feeding_understandings(transaction, node_id):
        for request in transaction.open_requests_of(AUTHORITY_QUEUE, parent):
            if _RANK[request.priority] > rank:
                transaction.tables.update(
                    schema.outbox, (request.request_id,), {"priority": PRIORITIES[rank]}
                )


def _report(operation: Operation, plan: CascadePlan) -> None:
    if plan.cyclic:
        body = {"trigger_source_id": operation.operation_id, "node_refs": list(plan.cyclic)}
        operation.emit(Receipt("cu_authority_cycle_detected", body))
    if plan.beyond_cap:
        body = {"trigger_source_id": operation.operation_id, "node_refs": list(plan.beyond_cap)}
        operation.emit(Receipt("cascade_depth_exceeded", body))
