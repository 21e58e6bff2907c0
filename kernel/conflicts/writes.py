"""What an envelope writes into the stores that are compared, record by record.

Of a node the fields of its payload, of an edge its ends, its type and its metadata, of a record of
another store what the effect states. Which stores are compared stands with their tables. A
visibility class is not among them: whoever wrote it, the more restricted one holds. Nor is who is
let in: one more grant contradicts none.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from sqlalchemy import Table

from kernel.algebra.effects import EFFECT_KINDS
from kernel.ledger import schema
from kernel.ledger.ledger import Document
from kernel.ledger.schema import store_of
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
    """All that one envelope writes into one record."""

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
        table = _table_of(kind)
        if table is None or target is None:
            continue
        write = found.setdefault((table.name, target), Write(table, target, index, {}))
        write.fields |= _FIELDS.get(table.name, dict)(payload)
        if table is schema.nodes:
            write.node_kind = payload.get("node_kind", write.node_kind)
            write.visibility_class = payload.get("visibility_class", write.visibility_class)
        write.makes_edge |= kind in _MAKING_EDGES
    return list(found.values())


def _table_of(kind: str) -> Table | None:
    """Return the store that an effect writes, where what it states there is compared."""
    if kind in _OF_NODES:
        return schema.nodes
    if kind in _OF_EDGES:
        return schema.edges
    known = EFFECT_KINDS.get(kind)
    table = None if known is None else schema.STORES.get(known.store)
    if table is None or table in (schema.nodes, schema.edges):
        return None
    store = store_of(table)
    return table if store is not None and store.compared else None


def _node_fields(payload: Document) -> Document:
    return {name: value for name, value in payload.items() if name not in _NOT_COMPARED}


def _edge_fields(payload: Document) -> Document:
    metadata: Any = payload.get("edge_metadata")
    fields = dict(metadata) if isinstance(metadata, dict) else {}
    fields.pop("merge_provenance", None)
    return fields | {name: payload[name] for name in _EDGE_FIELDS if name in payload}


_FIELDS: Mapping[str, Callable[[Document], Document]] = MappingProxyType(
    {"nodes": _node_fields, "edges": _edge_fields}
)
"""By store, how the fields of a write are read; elsewhere they are what the effect states."""
