"""Keeps materialized views: stale once told so, or once what they show was written (§4.3.6).

A view may name the node that it shows. It then keeps which operation had written the node when it
was computed, so every later write of the node makes it stale, and a write that is undone makes it
what it was; nothing is written into the view for it. An event of the write tells whoever computes
views again (§4.3.1; decision kernel/0239).
"""

from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.model.envelope import KernelEffect
from kernel.model.receipt import Receipt
from kernel.records.operation_steps import AppliedOperation
from kernel.records.record import Applied, Operation, write_record
from kernel.values.errors import EffectInapplicable

VIEWS_NAMED_MAX = 64
"""Views that one event names; where there are more it says so."""


def apply_view_invalidation(effect: KernelEffect, operation: Operation) -> Applied:
    """Mark a view as stale, or as computed again from its node as it stands now."""
    view_id, view = effect.target_ref, operation.transaction
    if view_id is None:
        raise EffectInapplicable(
            "a view effect names its view", code="effect_target_missing", field="target_ref"
        )
    before = view.record(schema.materialized_views, view_id) or {}
    node_ref = effect.payload.get("node_ref", before.get("node_ref"))
    stale = effect.effect_kind == "materialized_view_invalidation"
    record = {
        "view_id": view_id,
        "stale": stale,
        "updated_by_operation_id": operation.operation_id,
        "updated_at": operation.applied_at,
    }
    if node_ref is not None:
        node = view.node(node_ref) if isinstance(node_ref, str) else None
        if node is None:
            raise EffectInapplicable(
                "a view shows a node that is there",
                code="view_node_not_found",
                field="payload.node_ref",
            )
        shown = before.get("shows") if stale else node["updated_by_operation_id"]
        record |= {"node_ref": node_ref, "shows": shown}
    return write_record(operation, schema.materialized_views, view_id, record)


def is_stale(view: LedgerView, record: Document) -> bool:
    """Tell whether a view has to be computed again before it is shown."""
    if record["stale"] or "node_ref" not in record:
        return bool(record["stale"])
    node = view.node(record["node_ref"])
    return node is None or node["updated_by_operation_id"] != record["shows"]


def emit_node_write_events(operation: AppliedOperation) -> None:
    """Tell of each node that was written which views of it are stale now; none where none are."""
    view = operation.transaction
    written = dict.fromkeys(
        write.record_key for write in operation.writes if write.store == schema.nodes.name
    )
    for node_ref in written:
        views = view.views_of(node_ref, limit=VIEWS_NAMED_MAX + 1)
        stale = [
            str(view_record["view_id"])
            for view_record in views[:VIEWS_NAMED_MAX]
            if is_stale(view, view_record)
        ]
        if stale:
            body = {
                "node_ref": node_ref,
                "view_ids": stale,
                "more_views": len(views) > VIEWS_NAMED_MAX,
            }
            operation.emit(Receipt("node_write_event", body))
