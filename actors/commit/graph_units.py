"""Merges a delta into the causal graph, and opens an incident over it: two units."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from actors.commit.elimination_units import DeclareUnit, ReplayedSessions
from actors.commit.unit_context import CommitContext
from actors.commit.units import IntentUnit
from actors.orchestrator.graph_merge import merge_operations
from kernel.belief.terms import OntologyBundle
from kernel.model.result import RejectedResult
from kernel.records.causal_graph import (
    CausalEdge,
    CausalNode,
    Merge,
    all_edges,
    described_nodes,
    plan_merge,
)
from kernel.values.errors import KernelError

GRAPH = "main"


class GraphRefused(KernelError):
    """The kernel refused an operation of a merge; nothing of the merge was written."""

    def __init__(self, rejected: RejectedResult) -> None:
        super().__init__(rejected.rejection.message, code=rejected.rejection.reason_code)
        self.retry_after_s = rejected.rejection.retry_after_s


@dataclass(frozen=True, slots=True)
class MergeGraphUnit:
    """Merge a delta into the graph."""

    nodes: Iterable[CausalNode]
    edges: Iterable[CausalEdge]

    def run(self, context: CommitContext) -> Merge:
        """Submit the operations of the merge; raises `ProvenanceFull` or `GraphRefused`."""
        plan = plan_merge(context.transaction, self.nodes, self.edges)
        for intent in merge_operations(plan, context.transaction.host):
            result = IntentUnit(intent, None, "system").run(context)
            if isinstance(result, RejectedResult):
                raise GraphRefused(result)
        return plan


@dataclass(frozen=True, slots=True)
class OpenIncidentUnit:
    """Declare a session over the record ids of the graph."""

    sessions: ReplayedSessions
    session_id: str

    def run(self, context: CommitContext) -> bool:
        """Declare it over the graph as it is now, and return whether it was not there."""
        view = context.transaction
        ontology = OntologyBundle("causal-graph", "", GRAPH, str(view.head().ec_sequence_number))
        universe = chain(
            (node.record_id for node in described_nodes(view)),
            (edge.key.record_id for edge in all_edges(view)),
        )
        return DeclareUnit(self.sessions, self.session_id, ontology, universe).run(context)
