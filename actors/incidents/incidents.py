"""Opens incidents over the causal graph, all of it on the record (seed 000 §5).

A merge of the graph is operations of one transaction (`orchestrator/graph_merge.py`). If the kernel
refuses one of them nothing is merged, and no receipt of the refusal stays.

An incident is a belief session called `incident:` and its id. Its universe is the record ids of the
graph as of its opening, with the sequence as `causal_graph_version`, so a later merge changes no
incident that exists. Its tombstones are the session's eliminations. A tombstone of a record that
the incident's graph does not hold is kept in the audit and eliminates nothing. An answer is
durable, and asking again is always safe.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from actors.commit.elimination_units import ReplayedSession, StrikeUnit, Struck
from actors.commit.graph_units import MergeGraphUnit, OpenIncidentUnit
from actors.incidents.ledger_elimination_store import LedgerEliminationStore
from kernel.belief.elimination_store import EliminationProvenance
from kernel.belief.errors import BeliefError
from kernel.ledger.damage import damage_of
from kernel.ledger.ledger import Ledger
from kernel.records.causal_graph import (
    CausalEdge,
    CausalNode,
    EdgeKey,
    Merge,
    all_edges,
    described_nodes,
    edge_key_of,
    node_id_of,
    node_record_id,
)
from kernel.values.session_names import INCIDENTS
from kernel.verify.violation import record_damage

Found = TypeVar("Found")


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


class Incidents:
    """The causal graph of a ledger and the incidents over it; any thread may call it."""

    def __init__(self, ledger: Ledger, store: LedgerEliminationStore | None = None) -> None:
        self._ledger = ledger
        self._store = store or LedgerEliminationStore(ledger)

    def record_damage(self, error: Exception) -> None:
        """Leave a receipt of the damaged record that an error tells of (L3)."""
        damage = damage_of(error)
        if damage is not None:
            with self._ledger.transaction() as transaction:
                record_damage(transaction, [damage])

    def merge(self, nodes: Iterable[CausalNode], edges: Iterable[CausalEdge]) -> Merge:
        """Merge a delta into the graph, all of it or nothing.

        Raises:
            ProvenanceFull: when an element has too many provenances.
            GraphRefused: when the kernel refuses it.
        """
        merge: Merge = self._store.write("", MergeGraphUnit(nodes, edges))
        return merge

    def create(self, incident_id: str) -> bool:
        """Open an incident over the graph as it is now; tell whether it was not there."""
        session_id = _session_id(incident_id)
        is_new: bool = self._store.write(
            session_id, OpenIncidentUnit(self._store.sessions, session_id)
        )
        return is_new

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
        unit = StrikeUnit(self._store.sessions, session_id, record_ids, provenance, stated)
        with _naming(incident_id):
            struck: Struck = self._store.write(session_id, unit)
            return struck

    def opening_of(self, incident_id: str) -> tuple[str, Tombstones]:
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
            return _sorted_graph(
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
        return self._ledger.read(lambda view: _sorted_graph(described_nodes(view), all_edges(view)))

    def _read(self, incident_id: str, work: Callable[[ReplayedSession], Found]) -> Found:
        with _naming(incident_id):
            return self._store.read(_session_id(incident_id), work)


def _session_id(incident_id: str) -> str:
    return f"{INCIDENTS}{incident_id}"


@contextmanager
def _naming(incident_id: str) -> Iterator[None]:
    """Name the incident, and not its session, where there is none."""
    try:
        yield
    except BeliefError as error:
        if error.code != "SESSION_NOT_FOUND":
            raise
        details = {"incident_id": incident_id}
        raise BeliefError(error.code, "no such incident", details) from None


def _sorted_graph(nodes: Iterable[CausalNode], edges: Iterable[CausalEdge]) -> Graph:
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
