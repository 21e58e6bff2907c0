"""Reads messages of the Tee contract into the terms of the graph, and writes them from these.

Reading raises BeliefError INVALID_REQUEST for what the contract does not allow.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from actors.commit.elimination_units import Struck
from actors.incidents.incidents import Graph, Tombstones
from kernel.belief.limits import check_text, invalid
from kernel.records.causal_graph import (
    CausalEdge,
    CausalNode,
    EdgeKey,
    Mark,
    Merge,
    edge_key_of,
    node_id_of,
    node_record_id,
)
from workers.tee import tee_pb2 as wire
from workers.tee.hypothesis_ids import EDGE_TYPES, NODE_TYPES

ID_MAX_CHARS = 200
"""Characters of the id of a node or an incident; an id of the record holds two of them."""

# --- from the wire -----------------------------------------------------------------------------


def read_id(field: str, value: str) -> str:
    """Return an id of a node or an incident."""
    check_text(field, value)
    if len(value) > ID_MAX_CHARS:
        raise invalid(field, f"must have at most {ID_MAX_CHARS} characters")
    if "\x00" in value:
        raise invalid(field, "must not hold the character U+0000")
    return value


def _type(field: str, names: Mapping[int, str], number: int) -> str:
    if number not in names:
        raise invalid(field, "must be one of the types")
    return names[number]


def read_node(node: Any) -> CausalNode:
    """Read a node of a delta."""
    return CausalNode(
        read_id("node.id", node.id),
        _type("node.type", NODE_TYPES, node.type),
        check_text("node.label", node.label),
        node.hypothetical,
        _marks("node.provenance", node.provenance),
    )


def read_edge(edge: Any) -> CausalEdge:
    """Read an edge of a delta."""
    return CausalEdge(_edge_key(edge), _marks("edge.provenance", edge.provenance))


def _edge_key(edge: Any) -> EdgeKey:
    key = EdgeKey(
        read_id("edge.source", edge.source),
        read_id("edge.target", edge.target),
        _type("edge.type", EDGE_TYPES, edge.type),
    )
    if key.source == key.target:
        raise invalid("edge", "must not lead from a node to itself")
    return key


def read_node_name(node_id: str) -> str:
    """Return the record id of a node that is named."""
    return node_record_id(read_id("node_ids", node_id))


def read_edge_name(entry: Any) -> str:
    """Return the record id of an edge that is named."""
    return _edge_key(entry).record_id


def _marks(field: str, values: Sequence[Any]) -> tuple[Mark, ...]:
    if not values:
        raise invalid(field, "is missing")
    return tuple(map(read_mark, values))


def read_mark(provenance: Any) -> Mark:
    """Read who, why and when."""
    source = check_text("provenance.source", provenance.source)
    trigger = check_text("provenance.trigger", provenance.trigger)
    if not provenance.HasField("timestamp"):
        return Mark(source, trigger)
    try:
        return Mark(source, trigger, provenance.timestamp.ToJsonString())
    except ValueError:
        raise invalid("provenance.timestamp", "must be a time of the years 1 to 9999") from None


# --- onto the wire -----------------------------------------------------------------------------

_NODE_NUMBERS = {name: number for number, name in NODE_TYPES.items()}
_EDGE_NUMBERS = {name: number for number, name in EDGE_TYPES.items()}


def _element_id(element: EdgeKey | str) -> str:
    if isinstance(element, str):
        return element
    return f"{element.source}->{element.target}:{_EDGE_NUMBERS[element.type]}"


def merge_result(merge: Merge) -> Any:
    """Return what became of a delta."""
    return wire.HypothesisMergeResult(
        created_ids=map(_element_id, merge.created),
        merged_ids=map(_element_id, merge.merged),
        conflicts=[
            wire.MergeConflict(
                id=_element_id(conflict.id),
                field=conflict.field,
                existing_value=_node_type_name(conflict.field, conflict.existing_value),
                proposed_value=_node_type_name(conflict.field, conflict.proposed_value),
            )
            for conflict in merge.conflicts
        ],
    )


def _record_shown(record_id: str) -> str:
    node_id = node_id_of(record_id)
    return _element_id(edge_key_of(record_id)) if node_id is None else node_id


def _node_type_name(field: str, value: str) -> str:
    return f"NODE_TYPE_{value}" if field == "type" else value


def timestamp_of(text: str) -> Timestamp:
    """Return a time of the record as one of the wire."""
    stamp = Timestamp()
    stamp.FromJsonString(text)
    return stamp


def _provenance(marks: Iterable[Mark]) -> list[Any]:
    return [
        wire.Provenance(
            source=mark.source,
            trigger=mark.trigger,
            timestamp=timestamp_of(mark.timestamp) if mark.timestamp else None,
        )
        for mark in marks
    ]


def causal_graph(graph: Graph) -> Any:
    """Write a graph as a message of the contract."""
    return wire.CausalGraph(
        nodes=[
            wire.Node(
                id=node.id,
                type=wire.NodeType.Name(_NODE_NUMBERS[node.type]),
                label=node.label,
                hypothetical=node.hypothetical,
                provenance=_provenance(node.provenance),
            )
            for node in graph.nodes
        ],
        edges=[
            wire.Edge(
                source=edge.key.source,
                target=edge.key.target,
                type=wire.EdgeType.Name(_EDGE_NUMBERS[edge.key.type]),
                provenance=_provenance(edge.provenance),
            )
            for edge in graph.edges
        ],
    )


def tombstone_set(tombstones: Tombstones) -> Any:
    """Return what is struck."""
    return wire.TombstoneSet(
        node_ids=tombstones.nodes,
        edge_entries=[
            wire.EdgeTombstoneEntry(
                source=key.source,
                target=key.target,
                type=wire.EdgeType.Name(_EDGE_NUMBERS[key.type]),
            )
            for key in tombstones.edges
        ],
    )


def tombstone_result(struck: Struck) -> Any:
    """Return what became of tombstones."""
    return wire.TombstoneMergeResult(
        applied_ids=map(_record_shown, struck.applied),
        already_tombstoned_ids=map(_record_shown, struck.already),
        unmatched_ids=map(_record_shown, struck.unmatched),
    )
