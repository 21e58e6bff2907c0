"""What an envelope writes into nodes and edges, record by record.

Of a node the fields of its payload, of an edge its ends, its type and its metadata. A visibility
class is not among them: whoever wrote it, the more restricted one holds. Nor is who is let in:
one more grant contradicts none.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Table

from kernel.ledger import schema
from kernel.ledger.ledger import Document
from kernel.model.envelope import Envelope

_OF_NODES = frozenset(
    {"node_write", "node_retract", "rescope", "review_disposition", "quarantine", "unquarantine"}
)
_MAKING_EDGES = frozenset({"edge_write", "edge_create", "attach_source_binding"})
_OF_EDGES = _MAKING_EDGES | {"edge_reclassify"}
_EDGE_FIELDS = ("source_node_id", "target_node_id", "edge_type")
_NOT_COMPARED = frozenset({"node_kind", "visibility_class", "merge_provenance"})


@dataclass(slots=True)
class Write:
    """Everything that one envelope writes into one record."""

    table: Table
    record_key: str
    effect_index: int
    """Of the first effect that writes it."""

    fields: Document
    node_kind: str | None = None
    """Where it is stated."""

    visibility_class: str | None = None
    """Where it is stated."""

    makes_edge: bool = False
    """Whether the fields are a whole edge."""


def writes_of(envelope: Envelope) -> list[Write]:
    """Return what an envelope writes, in the order of its effects."""
    return _gathered(
        (one.effect_kind, one.target_ref, one.payload) for one in envelope.primitive_effects
    )


def fields_written(document: Document, table: Table, record_key: str) -> Document:
    """Return what a stored envelope wrote into one record."""
    effects = document["primitive_effects"]
    writes = _gathered(
        (one["effect_kind"], one.get("target_ref"), one.get("payload", {})) for one in effects
    )
    for write in writes:
        if write.table is table and write.record_key == record_key:
            return write.fields
    return {}


def _gathered(effects: Iterable[tuple[str, str | None, Document]]) -> list[Write]:
    found: dict[tuple[str, str], Write] = {}
    for index, (kind, target, payload) in enumerate(effects):
        table = schema.nodes if kind in _OF_NODES else schema.edges if kind in _OF_EDGES else None
        if table is None or target is None:
            continue
        write = found.setdefault((table.name, target), Write(table, target, index, {}))
        write.fields |= _node_fields(payload) if table is schema.nodes else _edge_fields(payload)
        if table is schema.nodes:
            write.node_kind = payload.get("node_kind", write.node_kind)
            write.visibility_class = payload.get("visibility_class", write.visibility_class)
        write.makes_edge |= kind in _MAKING_EDGES
    return list(found.values())


def _node_fields(payload: Document) -> Document:
    return {name: value for name, value in payload.items() if name not in _NOT_COMPARED}


def _edge_fields(payload: Document) -> Document:
    metadata: Any = payload.get("edge_metadata")
    fields = dict(metadata) if isinstance(metadata, dict) else {}
    fields.pop("merge_provenance", None)
    return fields | {name: payload[name] for name in _EDGE_FIELDS if name in payload}
