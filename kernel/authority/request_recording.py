"""Records requests to recompute, in the transaction that asks for them (§8.2, §8.4, K12).

A trigger asks for everything below it in its own transaction, parents first, as long as that is at
most `CASCADE_REQUESTS_MAX` understandings. A wider cascade leaves one request in the queue of
cascades, which is written down in pages afterwards (`enqueue_pages.py`); until then nothing is due
(decision kernel/0143).
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kernel.authority.cascade import CascadeTooWide
from kernel.authority.graph import dependents_of, few_dependents_of, is_nightly
from kernel.authority.requests import (
    AUTHORITY_QUEUE,
    CASCADE_QUEUE,
    CASCADES,
    LEAST_URGENT,
    PRIORITIES,
    RANKS,
    forget_cascades,
)
from kernel.authority.triggered_requests import TriggeredRequests
from kernel.authority.triggers import INPUT_UPDATE, ranks_of, triggers_of
from kernel.ledger import schema
from kernel.ledger.ledger import LedgerTransaction
from kernel.ledger.outbox import add_request
from kernel.model.node_kinds import UNDERSTANDING
from kernel.model.receipt import Receipt
from kernel.records.operation_steps import AppliedOperation
from kernel.records.record import Operation
from kernel.values.canonical import canonicalize_plain

DEFERRED_RECEIPT = "authority_cascade_deferred"

CASCADE_REQUESTS_MAX = 1024
"""How many understandings a trigger may ask for in its own transaction."""


def record_requests(operation: AppliedOperation) -> None:
    """Ask for the understandings that an operation sets off, or for one wide cascade."""
    triggers = triggers_of(operation.transaction, operation.applied)
    if not triggers:
        return
    now_us = operation.transaction.head_now.committed_at_us
    ranks = ranks_of(operation.transaction, operation.envelope, now_us)
    record(operation, TriggeredRequests(tuple(triggers), *ranks), operation.operation_id)


def record(operation: Operation, asking: TriggeredRequests, source: str) -> None:
    """Write a request for each understanding that is reached, or one for a wide cascade."""
    transaction = operation.transaction

    def below(node: str) -> list[str]:
        few = few_dependents_of(transaction, node, CASCADE_REQUESTS_MAX)
        if few is None:
            raise CascadeTooWide
        if not few or asking.dependents is dependents_of:
            return few
        return [child for child in few if not is_nightly(transaction.node(child))]

    try:
        plan, kinds = asking.plan(transaction, below, CASCADE_REQUESTS_MAX)
    except CascadeTooWide:
        _defer(operation, asking, source)
        return
    planned = {step.node_id for step in plan.steps}
    for step in plan.steps:
        kind = kinds.get(step.node_id, INPUT_UPDATE)
        record_request(operation, step.node_id, kind, source, step.rank, planned)
    report(operation, source, plan.cyclic, plan.beyond_cap)


def record_request(
    operation: Operation,
    node_id: str,
    kind: str,
    source: str,
    rank: int,
    planned: Iterable[str] = (),
) -> None:
    """Write one request and its receipt, and make what waits above it as urgent."""
    priority = PRIORITIES[rank]
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
    _raise_parents(operation.transaction, node_id, rank, planned)


def report(
    operation: Operation, source: str, cyclic: tuple[str, ...], beyond_cap: tuple[str, ...]
) -> None:
    """Emit the receipts that name what a plan had to leave out."""
    for kind, nodes in (
        ("cu_authority_cycle_detected", cyclic),
        ("cascade_depth_exceeded", beyond_cap),
    ):
        if nodes:
            body = {"trigger_source_id": source, "node_refs": [*nodes]}
            operation.emit(Receipt(kind, body))


def _defer(operation: Operation, asking: TriggeredRequests, source: str) -> None:
    fields = {"trigger_source_id": source, **asking.document()}
    priority = PRIORITIES[asking.direct_rank]
    request_id = _append(operation, CASCADE_QUEUE, CASCADES, priority, fields)
    forget_cascades(operation.transaction)
    body = {"request_id": request_id, "trigger_source_id": source, "priority": priority}
    operation.emit(Receipt(DEFERRED_RECEIPT, body))


def _append(
    operation: Operation, queue: str, item_key: str, priority: str, fields: Mapping[str, Any]
) -> str:
    head = operation.transaction.head_now
    head.request_sequence += 1
    request_id = f"request:{head.request_sequence}:{item_key}"
    document = {"request_id": request_id, **fields, "enqueued_at": operation.applied_at}
    add_request(
        operation.transaction.tables,
        {
            "request_id": request_id,
            "request_sequence": head.request_sequence,
            "queue": queue,
            "item_key": item_key,
            "priority": priority,
            "cause_sequence": operation.sequence,
            "enqueued_at_us": head.committed_at_us,
            "request_bytes": canonicalize_plain(document),
        },
    )
    return request_id


def _raise_parents(
    transaction: LedgerTransaction, node_id: str, rank: int, planned: Iterable[str]
) -> None:
    """Make what waits above as urgent; the walk stops where it already is."""
    waiting = [node_id] if rank < LEAST_URGENT else []
    while waiting:
        for parent in transaction.input_sources(waiting.pop(), UNDERSTANDING):
            if parent in planned:
                continue
            slower = [
                request
                for request in transaction.open_requests_of(AUTHORITY_QUEUE, parent)
                if RANKS[request.priority] > rank
            ]
            for request in slower:
                values = {"priority": PRIORITIES[rank]}
                transaction.tables.update(schema.outbox, (request.request_id,), values)
            if slower:
                waiting.append(parent)
