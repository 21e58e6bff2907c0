"""Creates, reclassifies and removes edges; a removed edge stays as a record (§4.3.2).

An active edge that carries an essentiality into a ConsolidatedUnderstanding feeds its authority.
"""

from kernel.algebra.effects import MAKING_EDGES
from kernel.ledger import schema
from kernel.ledger.ledger import Document
from kernel.model.envelope import KernelEffect
from kernel.records.comparison import Comparison
from kernel.records.record import Applied, Operation, write_record
from kernel.values.errors import EffectInapplicable

_REMOVING = ("edge_remove", "detach_source_binding")

ESSENTIALITIES = ("core", "supporting", "tangential")

_FIELDS = ("source_node_id", "target_node_id", "edge_type")


def _payload_fields(kind: str, payload: Document) -> Document | None:
    if kind not in MAKING_EDGES and kind != "edge_reclassify":
        return None
    metadata = payload.get("edge_metadata")
    fields = dict(metadata) if isinstance(metadata, dict) else {}
    fields.pop("merge_provenance", None)
    return fields | {name: payload[name] for name in _FIELDS if name in payload}


def _record_fields(record: Document) -> Document:
    return {**record["edge_metadata"], **{name: record[name] for name in _FIELDS}}


COMPARISON = Comparison(_payload_fields, _record_fields, is_whole=MAKING_EDGES.__contains__)


def apply_edge_write(effect: KernelEffect, operation: Operation) -> Applied:
    """Create, remove or reclassify an edge."""
    edge_id = effect.target_ref
    if edge_id is None:
        raise EffectInapplicable(
            "an edge effect names its edge", code="effect_target_missing", field="target_ref"
        )
    before = operation.transaction.record(schema.edges, edge_id)
    if effect.effect_kind in MAKING_EDGES:
        record = _new_edge(effect, operation, edge_id, before)
    else:
        if before is None or before["state"] == "removed":
            raise EffectInapplicable(
                f"no edge {edge_id}", code="edge_not_found", field="target_ref"
            )
        change = (
            _edge_after_removal if effect.effect_kind in _REMOVING else _edge_after_reclassification
        )
        record = change(effect, operation, before)
    return write_record(operation, schema.edges, edge_id, record)


def _new_edge(
    effect: KernelEffect, operation: Operation, edge_id: str, before: Document | None
) -> Document:
    if before is not None and before["state"] == "active":
        raise EffectInapplicable(
            f"edge {edge_id} exists", code="edge_already_exists", field="target_ref"
        )
    payload = effect.payload
    for end in ("source_node_id", "target_node_id"):
        node_id = payload.get(end)
        if not isinstance(node_id, str) or operation.transaction.node(node_id) is None:
            raise EffectInapplicable(
                f"no node {node_id}", code="edge_endpoint_missing", field=f"payload.{end}"
            )
    return {
        "edge_id": edge_id,
        "source_node_id": payload["source_node_id"],
        "target_node_id": payload["target_node_id"],
        "edge_type": _edge_type(payload.get("edge_type")),
        "edge_metadata": _metadata(payload.get("edge_metadata", {})),
        "state": "active",
        "version": 1 if before is None else before["version"] + 1,
        "updated_by_operation_id": operation.operation_id,
        "updated_at": operation.applied_at,
    }


def _edge_after_removal(_: KernelEffect, operation: Operation, before: Document) -> Document:
    return {
        **before,
        "state": "removed",
        "version": before["version"] + 1,
        "removed_by_operation_id": operation.operation_id,
        "removed_at": operation.applied_at,
        "updated_by_operation_id": operation.operation_id,
        "updated_at": operation.applied_at,
    }


def _edge_after_reclassification(
    effect: KernelEffect, operation: Operation, before: Document
) -> Document:
    stated = _metadata(effect.payload.get("edge_metadata", {}))
    return {
        **before,
        "edge_type": _edge_type(effect.payload.get("edge_type", before["edge_type"])),
        "edge_metadata": {**before["edge_metadata"], **stated},
        "version": before["version"] + 1,
        "updated_by_operation_id": operation.operation_id,
        "updated_at": operation.applied_at,
    }


def _edge_type(edge_type: object) -> str:
    if not isinstance(edge_type, str) or not edge_type:
        raise EffectInapplicable(
            "an edge has a type", code="edge_type_missing", field="payload.edge_type"
        )
    return edge_type


def _metadata(metadata: object) -> Document:
    if not isinstance(metadata, dict):
        raise EffectInapplicable(
            "edge_metadata is an object",
            code="edge_metadata_invalid",
            field="payload.edge_metadata",
        )
    if metadata.get("essentiality", "core") not in ESSENTIALITIES:
        raise EffectInapplicable(
            f"essentiality is one of {', '.join(ESSENTIALITIES)}",
            code="edge_essentiality_invalid",
            field="payload.edge_metadata.essentiality",
        )
    return metadata
