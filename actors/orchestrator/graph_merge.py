"""Makes the operations of a merge of the causal graph, nodes before the edges between them.

There are up to four kinds: new nodes, changed nodes, new edges, changed edges, with 64 elements
each, because an operation names at most 64 causes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from actors.orchestrator.intents import WriteCausalGraph
from actors.orchestrator.resolved_operation import make_effect
from actors.orchestrator.resolvers import creation_effects
from kernel.ledger.ledger import Document
from kernel.model.node_kinds import CAUSAL_NODE
from kernel.records.causal_graph import (
    CausalEdge,
    Merge,
    edge_metadata,
    node_payload,
    node_record_id,
)
from kernel.values.canonical import canonicalize
from kernel.values.host import Host

CORPUS = "corpus:causal-graph"

ELEMENTS_AN_OPERATION = 64
"""Elements of one operation: its causal parents at most; a new node is three effects of 256."""

OPERATION_MAX_BYTES = 512 * 1024

Verb = Literal["create", "annotate", "document_relationship_create", "document_relationship_update"]

_EDGE_CREATE: tuple[Verb, str] = ("document_relationship_create", "edge_create")
_EDGE_UPDATE: tuple[Verb, str] = ("document_relationship_update", "edge_reclassify")


@dataclass(frozen=True, slots=True)
class _Element:
    """One element of a merge: its effects, and the records that it names."""

    effects: tuple[Document, ...]
    node_refs: tuple[str, ...]
    edge_refs: tuple[str, ...] = ()
    written_by: str | None = None
    """The operation that wrote the edge last."""


def merge_operations(plan: Merge, host: Host) -> Iterator[WriteCausalGraph]:
    """Yield the intents that write a merge."""
    parts: dict[Verb, list[_Element]] = {
        "create": [],
        "annotate": [],
        "document_relationship_create": [],
        "document_relationship_update": [],
    }
    for node_id, node in plan.nodes.items():
        record_id, payload = node_record_id(node_id), node_payload(node)
        if record_id in plan.written_by:
            write = make_effect("node_write", record_id, payload)
            parts["annotate"].append(_Element((write,), (record_id,)))
        else:
            effects = creation_effects(record_id, CORPUS, {"node_kind": CAUSAL_NODE, **payload})
            parts["create"].append(_Element(effects, (record_id,)))
    for key, edge in plan.edges.items():
        writer = plan.written_by.get(key.record_id)
        verb, kind = _EDGE_CREATE if writer is None else _EDGE_UPDATE
        ends = (node_record_id(key.source), node_record_id(key.target))
        element = _Element((_edge_effect(kind, edge, *ends),), ends, (key.record_id,), writer)
        parts[verb].append(element)
    for verb, elements in parts.items():
        for page in _pages(elements):
            writers = dict.fromkeys(element.written_by for element in page)
            yield WriteCausalGraph(
                # What is merged was not there, so the same is never written twice.
                intent_key=host.new_id(),
                verb=verb,
                effects=tuple(effect for element in page for effect in element.effects),
                node_refs=tuple(
                    dict.fromkeys(ref for element in page for ref in element.node_refs)
                ),
                edge_refs=tuple(ref for element in page for ref in element.edge_refs),
                seen_operation_ids=tuple(name for name in writers if name is not None),
            )


def _edge_effect(kind: str, edge: CausalEdge, source: str, target: str) -> Document:
    payload = {
        "source_node_id": source,
        "target_node_id": target,
        "edge_type": edge.key.type,
        "edge_metadata": edge_metadata(edge),
    }
    return make_effect(kind, edge.key.record_id, payload)


def _pages(elements: Sequence[_Element]) -> Iterator[list[_Element]]:
    waiting = iter(elements)
    while page := list(islice(waiting, ELEMENTS_AN_OPERATION)):
        start, size = 0, 0
        for position, element in enumerate(page):
            grown = sum(len(canonicalize(effect)) for effect in element.effects)
            if position > start and size + grown > OPERATION_MAX_BYTES:
                yield page[start:position]
                start, size = position, 0
            size += grown
        yield page[start:]
