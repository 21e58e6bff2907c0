"""Merges nodes and edges into the causal graph, from which nothing is taken back, and reads it.

A delta is merged element by element, in its own order:

1. A node keeps the type and the label that were written first. A delta that proposes others has
   that conflict reported; the rest of the delta is merged.
2. `hypothetical` becomes false once a delta says so, and stays false.
3. Provenance is a set by (source, trigger), and of two alike the first is kept, with its time. An
   element has 64 provenances at most; a delta that would add one more is refused as a whole.
4. An edge is identified by its ends and its type. An end that nobody has described is kept as a
   node that no reading shows until somebody describes it (decision kernel/0160).

Nodes and edges are those of the kernel's graph. Their ids begin with `causal-node:` and
`causal-edge:`, and the runtime alone may write those and the kind `CausalNode`, so that whoever
reads the graph finds what a merge put there. Nothing in this module writes.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import orjson

from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.store.tables import PAGE_ROWS
from kernel.model.node_kinds import CAUSAL_EDGE_PREFIX, CAUSAL_NODE, CAUSAL_NODE_PREFIX
from kernel.values.errors import KernelError, LedgerCorrupt

PROVENANCE_MAX = 64
"""Marks of one element; the limit keeps its record, and so an envelope, within their bounds."""


class ProvenanceFull(KernelError):
    """An element has as many provenances as it may have; nothing of the delta was merged."""

    code = "causal_provenance_full"


class Mark(NamedTuple):
    """Who brought something into the graph, why and when (RFC 3339, or empty)."""

    source: str
    trigger: str
    timestamp: str = ""


class EdgeKey(NamedTuple):
    """The source, target and type that tell one edge from another."""

    source: str
    target: str
    type: str

    @property
    def record_id(self) -> str:
        """The edge's id in the kernel's graph; the length keeps two ends apart."""
        return f"{CAUSAL_EDGE_PREFIX}{self.type}:{len(self.source)}:{self.source}{self.target}"


@dataclass(frozen=True, slots=True)
class CausalNode:
    """A node; its type is a name such as ``SERVICE``."""

    id: str
    type: str
    label: str
    hypothetical: bool
    provenance: tuple[Mark, ...]

    @property
    def record_id(self) -> str:
        """The node's id in the kernel's graph."""
        return node_record_id(self.id)


@dataclass(frozen=True, slots=True)
class CausalEdge:
    """An edge; its type is a name such as ``DEPENDS_ON``."""

    key: EdgeKey
    provenance: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class FieldConflict:
    """A proposal for a field that has another value."""

    id: EdgeKey | str
    field: str
    existing_value: str
    proposed_value: str


@dataclass(slots=True)
class Merge:
    """The result of merging a delta: the answer to its sender, and what has to be written."""

    created: list[EdgeKey | str] = field(default_factory=list)
    merged: list[EdgeKey | str] = field(default_factory=list)
    conflicts: list[FieldConflict] = field(default_factory=list)
    nodes: dict[str, CausalNode | None] = field(default_factory=dict)
    """Each node that changes, as it will be; None for an end that nobody has described."""
    edges: dict[EdgeKey, CausalEdge] = field(default_factory=dict)
    written_by: dict[str, str] = field(default_factory=dict)
    """The operation that last wrote an element that was there before, by record id."""


def node_record_id(node_id: str) -> str:
    """Return a node's id in the kernel's graph."""
    return f"{CAUSAL_NODE_PREFIX}{node_id}"


def node_id_of(record_id: str) -> str | None:
    """Return the node that a record id stands for, None where it stands for an edge."""
    if not record_id.startswith(CAUSAL_NODE_PREFIX):
        return None
    return record_id.removeprefix(CAUSAL_NODE_PREFIX)


def edge_key_of(record_id: str) -> EdgeKey:
    """Return the edge that a record id stands for."""
    kind, length, ends = record_id.removeprefix(CAUSAL_EDGE_PREFIX).split(":", 2)
    return EdgeKey(ends[: int(length)], ends[int(length) :], kind)


def plan_merge(view: LedgerView, nodes: Iterable[CausalNode], edges: Iterable[CausalEdge]) -> Merge:
    """Decide what a delta comes to.

    Raises:
        ProvenanceFull: when an element would have more provenances than it may.
    """
    plan = Merge()
    for node in nodes:
        _merge_node(view, plan, node)
    for edge in edges:
        _merge_edge(view, plan, edge)
    return plan


def _merge_node(view: LedgerView, plan: Merge, proposed: CausalNode) -> None:
    known = _planned_node(view, plan, proposed.id)
    if known is None:
        plan.created.append(proposed.id)
        plan.nodes[proposed.id] = replace(proposed, provenance=_union((), proposed.provenance))
        return
    plan.merged.append(proposed.id)
    for name in ("type", "label"):
        existing, proposed_value = getattr(known, name), getattr(proposed, name)
        if existing != proposed_value:
            plan.conflicts.append(FieldConflict(proposed.id, name, existing, proposed_value))
    merged = replace(
        known,
        hypothetical=known.hypothetical and proposed.hypothetical,
        provenance=_union(known.provenance, proposed.provenance),
    )
    if merged != known:
        plan.nodes[proposed.id] = merged


def _merge_edge(view: LedgerView, plan: Merge, proposed: CausalEdge) -> None:
    known = _planned_edge(view, plan, proposed.key)
    if known is None:
        plan.created.append(proposed.key)
        plan.edges[proposed.key] = CausalEdge(proposed.key, _union((), proposed.provenance))
        for end in proposed.key[:2]:
            if end not in plan.nodes and view.node(node_record_id(end)) is None:
                plan.nodes[end] = None
        return
    plan.merged.append(proposed.key)
    merged = CausalEdge(proposed.key, _union(known.provenance, proposed.provenance))
    if merged != known:
        plan.edges[proposed.key] = merged


def _planned_node(view: LedgerView, plan: Merge, node_id: str) -> CausalNode | None:
    if node_id in plan.nodes:
        return plan.nodes[node_id]
    record = view.node(node_record_id(node_id))
    if record is None:
        return None
    plan.written_by[record["node_id"]] = record["updated_by_operation_id"]
    return _node_of(record)


def _planned_edge(view: LedgerView, plan: Merge, key: EdgeKey) -> CausalEdge | None:
    if key in plan.edges:
        return plan.edges[key]
    record = view.record(schema.edges, key.record_id)
    if record is None:
        return None
    plan.written_by[key.record_id] = record["updated_by_operation_id"]
    return _edge_of(record)


def _union(known: tuple[Mark, ...], added: tuple[Mark, ...]) -> tuple[Mark, ...]:
    marks = {(mark.source, mark.trigger): mark for mark in known}
    for mark in added:
        marks.setdefault((mark.source, mark.trigger), mark)
    if len(marks) > PROVENANCE_MAX:
        raise ProvenanceFull(f"an element has at most {PROVENANCE_MAX} provenances")
    return tuple(marks.values())


# --- as it is stored -------------------------------------------------------------------------


def node_payload(node: CausalNode | None) -> Document:
    """Return the fields of a node's record."""
    if node is None:
        return {"described": False}
    return {
        "described": True,
        "causal_type": node.type,
        "label": node.label,
        "hypothetical": node.hypothetical,
        "provenance": [list(mark) for mark in node.provenance],
    }


def edge_metadata(edge: CausalEdge) -> Document:
    """Return the metadata of an edge's record."""
    return {"provenance": [list(mark) for mark in edge.provenance]}


def described_nodes(view: LedgerView) -> Iterator[CausalNode]:
    """Read every described node, in the order of their ids."""
    for record in _node_records(view):
        node = _node_of(record)
        if node is not None:
            yield node


def all_edges(view: LedgerView) -> Iterator[CausalEdge]:
    """Read every edge, those of one source after the other."""
    for record in _node_records(view):
        for row in view.edges_out_of(record["node_id"]):
            if row["edge_id"].startswith(CAUSAL_EDGE_PREFIX):
                edge = _edge_of(orjson.loads(row["record"]))
                if edge is not None:
                    yield edge


def _node_records(view: LedgerView) -> Iterator[Document]:
    after: str | None = None
    while page := view.nodes_of_kind(CAUSAL_NODE, after=after, limit=PAGE_ROWS):
        yield from page
        after = page[-1]["node_id"]


def _node_of(record: Document) -> CausalNode | None:
    payload = record["payload"]
    node_id = node_id_of(record["node_id"])
    if not payload.get("described") or node_id is None:
        return None
    with _readable(record["node_id"]):
        return CausalNode(
            node_id,
            payload["causal_type"],
            payload["label"],
            payload["hypothetical"],
            tuple(Mark(*mark) for mark in payload["provenance"]),
        )


def _edge_of(record: Document) -> CausalEdge | None:
    if record["state"] != "active":
        return None
    with _readable(record["edge_id"]):
        marks = record["edge_metadata"]["provenance"]
        return CausalEdge(edge_key_of(record["edge_id"]), tuple(Mark(*mark) for mark in marks))


@contextmanager
def _readable(record_id: str) -> Iterator[None]:
    """Raise `LedgerCorrupt` for a record that does not read back as it was written."""
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise LedgerCorrupt(f"{record_id} is not as a merge writes it") from error
