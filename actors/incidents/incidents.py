"""Incidents over the causal graph, all of it on the record (seed 000 §5).

A merge of the graph is up to four kinds of operation in one transaction: new nodes, changed nodes,
new edges, changed edges, with 64 elements each, because an operation names at most 64 causes. If
the kernel refuses one of them nothing is merged, and no receipt of the refusal stays.

An incident is a belief session called `incident:` and its id. Its universe is the record ids of the
graph as of its opening, with the sequence as `causal_graph_version`, so a later merge changes no
incident that exists. Its tombstones are the session's eliminations. A tombstone of a record that
the incident's graph does not hold is kept in the audit and eliminates nothing. What is answered is
durable, and asking again is always safe.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Literal, TypeVar

from actors.commit.unit_context import CommitContext
from actors.commit.units import IntentUnit
from actors.incidents.ledger_elimination_store import LedgerEliminationStore, ReplayedSession
from actors.orchestrator.intents import WriteCausalGraph
from actors.orchestrator.resolvers import make_effect
from kernel.belief.elimination_store import EliminationProvenance
from kernel.belief.errors import BeliefError
from kernel.belief.terms import OntologyBundle
from kernel.canonical import canonicalize
from kernel.causal_graph import (
    CausalEdge,
    CausalNode,
    EdgeKey,
    Merge,
    all_edges,
    described_nodes,
    edge_key_of,
    edge_metadata,
    node_id_of,
    node_payload,
    node_record_id,
    plan_merge,
)
from kernel.errors import KernelError
from kernel.ledger.ledger import Document, Ledger, LedgerView
from kernel.model.node_kinds import CAUSAL_NODE
from kernel.model.result import RejectedResult

SESSION_PREFIX = "incident:"
CORPUS = "corpus:causal-graph"
GRAPH = "main"

ELEMENTS_AN_OPERATION = 64
"""Elements of one operation: its causal parents at most; a new node is three effects of 256."""

OPERATION_MAX_BYTES = 512 * 1024

Found = TypeVar("Found")
Verb = Literal["create", "annotate", "document_relationship_create", "document_relationship_update"]


class GraphRefused(KernelError):
    """The kernel refused an operation of a merge; nothing of the merge was written."""

    def __init__(self, rejected: RejectedResult) -> None:
        super().__init__(rejected.rejection.message, code=rejected.rejection.reason_code)
        self.retry_after_s = rejected.rejection.retry_after_s


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes by id and edges by source, target and type."""

    nodes: tuple[CausalNode, ...]
    edges: tuple[CausalEdge, ...]


@dataclass(frozen=True, slots=True)
class Tombstones:
    """The tombstones of an incident."""

    nodes: tuple[str, ...]
    edges: tuple[EdgeKey, ...]


@dataclass(frozen=True, slots=True)
class Struck:
    """The result for each record id that was to be struck, in order."""

    applied: tuple[str, ...]
    already: tuple[str, ...]
    unmatched: tuple[str, ...]


class Incidents:
    """The causal graph of a ledger and the incidents over it; any thread may call it."""

    def __init__(self, ledger: Ledger, store: LedgerEliminationStore | None = None) -> None:
        self._ledger = ledger
        self._store = store or LedgerEliminationStore(ledger)

    def merge(self, nodes: Iterable[CausalNode], edges: Iterable[CausalEdge]) -> Merge:
        """Merge a delta into the graph, all of it or nothing.

        Raises:
            ProvenanceFull: when an element has too many provenances.
            GraphRefused: when the kernel refuses it.
        """

        def record(context: CommitContext) -> Merge:
            plan = plan_merge(context.transaction, nodes, edges)
            for intent in _operations(context, plan):
                result = IntentUnit(intent, None, "system").run(context)
                if isinstance(result, RejectedResult):
                    raise GraphRefused(result)
            return plan

        return self._store.write("", record)

    def create(self, incident_id: str) -> bool:
        """Open an incident over the graph as it is now; tell whether it was not there."""
        session_id = _session_id(incident_id)

        def record(context: CommitContext) -> bool:
            view = context.transaction
            if view.belief_session(session_id) is not None:
                return False
            anchor = str(view.head().ec_sequence_number)
            universe = chain(
                (node.record_id for node in described_nodes(view)),
                (edge.key.record_id for edge in all_edges(view)),
            )
            ontology = OntologyBundle("causal-graph", "", GRAPH, anchor)
            return self._store.declare(context, session_id, ontology, universe)

        return self._store.write(session_id, record)

    def strike(
        self,
        incident_id: str,
        record_ids: Sequence[str],
        provenance: EliminationProvenance,
        timestamp: str,
    ) -> Struck:
        """Write tombstones of nodes or edges, named by their record ids."""
        session_id = _session_id(incident_id)
        stated = {"timestamp": timestamp} if timestamp else {}

        def record(context: CommitContext) -> Struck:
            replayed = self._session(context.transaction, session_id, incident_id)
            struck = _classify(replayed, record_ids)
            claimed = frozenset(record_ids)
            self._store.strike(context, session_id, claimed, provenance, **stated)
            return struck

        return self._store.write(session_id, record)

    def opened_at(self, incident_id: str) -> tuple[str, Tombstones]:
        """Return when an incident was opened (ISO 8601), and its tombstones."""
        return self._read(
            incident_id, lambda replayed: (replayed.declared_at, _tombstones(replayed))
        )

    def tombstones(self, incident_id: str) -> Tombstones:
        """Return what is struck in an incident."""
        return self._read(incident_id, _tombstones)

    def live_view(self, incident_id: str) -> Graph:
        """Return the incident's graph without what is struck and what touches a struck node."""
        survivors, struck = self._read(
            incident_id,
            lambda replayed: (replayed.belief.survivors, replayed.outside | replayed.eliminated),
        )
        # The graph may be newer than the tombstones: what it has gained since is no survivor.
        with self._ledger.view() as view:
            return _sorted(
                (node for node in described_nodes(view) if node.record_id in survivors),
                (
                    edge
                    for edge in all_edges(view)
                    if edge.key.record_id in survivors
                    and struck.isdisjoint(map(node_record_id, edge.key[:2]))
                ),
            )

    def main_graph(self) -> Graph:
        """Return the whole graph as it is now."""
        with self._ledger.view() as view:
            return _sorted(described_nodes(view), all_edges(view))

    def _read(self, incident_id: str, work: Callable[[ReplayedSession], Found]) -> Found:
        session_id = _session_id(incident_id)
        try:
            return self._store.read(session_id, work)
        except BeliefError as error:
            raise _of_incident(error, incident_id) from None

    def _session(self, view: LedgerView, session_id: str, incident_id: str) -> ReplayedSession:
        try:
            return self._store.session(view, session_id)
        except BeliefError as error:
            raise _of_incident(error, incident_id) from None


def _session_id(incident_id: str) -> str:
    return f"{SESSION_PREFIX}{incident_id}"


def _of_incident(error: BeliefError, incident_id: str) -> BeliefError:
    if error.code != "SESSION_NOT_FOUND":
        return error
    return BeliefError(error.code, "no such incident", {"incident_id": incident_id})


def _sorted(nodes: Iterable[CausalNode], edges: Iterable[CausalEdge]) -> Graph:
    return Graph(
        tuple(sorted(nodes, key=lambda node: node.id)),
        tuple(sorted(edges, key=lambda edge: edge.key)),
    )


def _tombstones(replayed: ReplayedSession) -> Tombstones:
    record_ids = replayed.outside | replayed.eliminated
    nodes = {record_id: node_id_of(record_id) for record_id in record_ids}
    return Tombstones(
        tuple(sorted(name for name in nodes.values() if name is not None)),
        tuple(sorted(edge_key_of(record_id) for record_id, name in nodes.items() if name is None)),
    )


def _classify(replayed: ReplayedSession, record_ids: Sequence[str]) -> Struck:
    applied: dict[str, None] = {}
    unmatched: dict[str, None] = {}
    already = []
    for record_id in record_ids:
        if record_id in applied or record_id in unmatched or record_id in replayed.outside:
            already.append(record_id)
        elif record_id not in replayed.belief.universe:
            unmatched[record_id] = None
        elif replayed.belief.survives(record_id):
            applied[record_id] = None
        else:
            already.append(record_id)
    return Struck(tuple(applied), tuple(already), tuple(unmatched))


# --- a merge as operations ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Element:
    """One element of a merge: its effects, and the records that it names."""

    effects: tuple[Document, ...]
    node_refs: tuple[str, ...]
    edge_ref: str | None
    written_by: str | None
    """The operation that wrote the edge last."""


def _operations(context: CommitContext, plan: Merge) -> Iterator[WriteCausalGraph]:
    """Yield the operations of a merge: nodes before the edges between them."""
    new_nodes: list[_Element] = []
    changed_nodes: list[_Element] = []
    new_edges: list[_Element] = []
    changed_edges: list[_Element] = []
    for node_id, node in plan.nodes.items():
        record_id = node_record_id(node_id)
        writer = plan.written_by.get(record_id)
        make = _new_node if writer is None else _changed_node
        element = _Element(make(record_id, node_payload(node)), (record_id,), None, None)
        (new_nodes if writer is None else changed_nodes).append(element)
    for key, edge in plan.edges.items():
        writer = plan.written_by.get(key.record_id)
        effect = _edge_effect("edge_create" if writer is None else "edge_reclassify", edge)
        ends = tuple(map(node_record_id, key[:2]))
        element = _Element((effect,), ends, key.record_id, writer)
        (new_edges if writer is None else changed_edges).append(element)
    parts: tuple[tuple[Verb, list[_Element]], ...] = (
        ("create", new_nodes),
        ("annotate", changed_nodes),
        ("document_relationship_create", new_edges),
        ("document_relationship_update", changed_edges),
    )
    for verb, elements in parts:
        for page in _pages(elements):
            refs = dict.fromkeys(ref for element in page for ref in element.node_refs)
            yield WriteCausalGraph(
                # What is merged was not there, so the same is never written twice.
                intent_key=context.transaction.host.new_id(),
                verb=verb,
                effects=tuple(effect for element in page for effect in element.effects),
                node_refs=tuple(refs),
                edge_refs=tuple(
                    element.edge_ref for element in page if element.edge_ref is not None
                ),
                seen_operation_ids=tuple(
                    dict.fromkeys(
                        element.written_by for element in page if element.written_by is not None
                    )
                ),
            )


def _new_node(record_id: str, payload: Document) -> tuple[Document, ...]:
    membership = {"corpus_id": CORPUS, "to_state": "candidate"}
    index = {"index_name": "nodes_by_kind", "entry": {"node_kind": CAUSAL_NODE}}
    return (
        make_effect("node_write", record_id, {"node_kind": CAUSAL_NODE, **payload}),
        make_effect("membership_write", record_id, membership),
        make_effect("index_update", record_id, index),
    )


def _changed_node(record_id: str, payload: Document) -> tuple[Document, ...]:
    return (make_effect("node_write", record_id, payload),)


def _edge_effect(kind: str, edge: CausalEdge) -> Document:
    source, target = map(node_record_id, edge.key[:2])
    payload = {
        "source_node_id": source,
        "target_node_id": target,
        "edge_type": edge.key.type,
        "edge_metadata": edge_metadata(edge),
    }
    return make_effect(kind, edge.key.record_id, payload)


def _pages(elements: list[_Element]) -> Iterator[list[_Element]]:
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
