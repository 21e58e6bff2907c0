"""Checks the graph of a pipeline once, in one order, with the edges that a run records.

1. A node is declared after those that it follows, so the order of declaration is an order of the
   graph and no way leads back.
2. A node with several successors forks its tokens, one branch for each; a gate chooses by label
   among its own. An error edge leads from a node to the sink for what fails there.
3. A join merges what one fork sent apart: the fork is the node nearest above it through which every
   way to it leads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from actors.errors import PipelineInvalid
from kernel.landscape.canonical_types import stable_hash
from kernel.landscape.run_checkpoints import topology_hash
from workers.pipelines.engine.node import NodePort, PipelineNode

NODES_MAX = 200
CONTINUE = "continue"
ERROR = "error"
"""The label of an edge to the sink for what fails; no gate and no node is called so."""

_CALLED = frozenset({"transform", "gate", "coalesce", "aggregation"})


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """A way from a node to another."""

    from_node: str
    to_node: str
    label: str
    mode: str = "move"


class PipelineGraph:
    """Nodes in the order of the graph, and the edges between them.

    Raises:
        PipelineInvalid: what is wrong, and at which node.
    """

    def __init__(self, nodes: Sequence[PipelineNode]) -> None:
        self.nodes = tuple(nodes)
        self.by_name = {node.name: node for node in nodes}
        self.place = {node.name: place for place, node in enumerate(nodes)}
        self._check_nodes()
        self.successors = self._successors()
        self._check_ways()
        self.edges = self._edges()
        self.forks = {
            node.name: self._dominator(node) for node in nodes if node.node_type == "coalesce"
        }
        """Of each join the node whose branches it merges."""

        self.takes_step = frozenset(
            node.name for node in nodes if node.node_type in _CALLED and node.takes_step
        )
        """The nodes whose functions take a `NodeStep`; asking a function each time is slow."""

        self._check_joins()

    @property
    def source(self) -> PipelineNode:
        """Where rows come from."""
        return self.nodes[0]

    @cached_property
    def records(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The nodes and edges as a run records them, as far as they say what the graph is."""
        nodes = [
            {
                "node_id": node.name,
                "plugin_name": _plugin_name(node.function),
                "plugin_version": node.version,
                "node_type": node.node_type,
                "determinism": node.determinism,
                "config_hash": stable_hash(node.configuration()),
            }
            for node in self.nodes
        ]
        edges = [
            {
                "from_node_id": edge.from_node,
                "to_node_id": edge.to_node,
                "label": edge.label,
                "default_mode": edge.mode,
            }
            for edge in self.edges
        ]
        return nodes, edges

    @cached_property
    def topology(self) -> str:
        """The hash of all that the nodes and edges are."""
        return topology_hash(*self.records)

    def _check_nodes(self) -> None:
        if not 1 <= len(self.nodes) <= NODES_MAX:
            raise PipelineInvalid(f"{len(self.nodes)} nodes, from 1 to {NODES_MAX} are allowed")
        if len(self.by_name) < len(self.nodes):
            raise PipelineInvalid("two nodes have one name")
        sources = [node.name for node in self.nodes if node.node_type == "source"]
        if sources != [self.nodes[0].name]:
            raise PipelineInvalid("the first node, and no other, is the source")
        if all(node.node_type != "sink" for node in self.nodes):
            raise PipelineInvalid("there is no sink")
        for node in self.nodes:
            target = self.by_name.get(node.on_error) if node.on_error is not None else None
            if node.on_error is not None and (target is None or target.node_type != "sink"):
                raise PipelineInvalid(f"{node.name}: on_error {node.on_error!r} names no sink")

    def _successors(self) -> Mapping[str, Mapping[str, str]]:
        """Of each node its successors by label, in the order of the graph."""
        ways: dict[str, list[tuple[str | None, str]]] = {node.name: [] for node in self.nodes}
        for node in self.nodes:
            if len(set(node.after)) < len(node.after):
                raise PipelineInvalid(f"{node.name} follows the same node twice")
            for port in node.after:
                before = self.place.get(port.node, len(self.nodes))
                if before >= self.place[node.name]:
                    raise PipelineInvalid(f"{node.name} follows {port.node!r}, which is not above")
                ways[port.node].append((port.label, node.name))
        return {node.name: _successors_by_label(node, ways[node.name]) for node in self.nodes}

    def _check_ways(self) -> None:
        error_sinks = {node.on_error for node in self.nodes}
        for node in self.nodes:
            ways = self.successors[node.name]
            if node.node_type == "sink" and ways:
                raise PipelineInvalid(f"nothing follows the sink {node.name}")
            if node.node_type != "sink" and not ways:
                raise PipelineInvalid(f"nothing follows {node.name}; every way ends in a sink")
            is_reached = node.after or node.name in error_sinks or node.node_type == "source"
            if not is_reached:
                raise PipelineInvalid(f"no way leads to {node.name}")

    def _edges(self) -> tuple[GraphEdge, ...]:
        edges = []
        for node in self.nodes:
            ways = self.successors[node.name]
            mode = "copy" if node.node_type != "gate" and len(ways) > 1 else "move"
            edges += [GraphEdge(node.name, to, label, mode) for label, to in ways.items()]
            if node.on_error is not None:
                edges.append(GraphEdge(node.name, node.on_error, ERROR))
        return tuple(edges)

    def _dominator(self, node: PipelineNode) -> str:
        """Return the last node before a join through which every way to it leads."""
        dominators: dict[str, list[str]] = {}
        for each in self.nodes[: self.place[node.name] + 1]:
            before = [dominators[port.node] for port in each.after]
            shared = (
                [name for name in before[0] if all(name in d for d in before)] if before else []
            )
            dominators[each.name] = [*shared, each.name]
        return dominators[node.name][-2]

    def _check_joins(self) -> None:
        for name, fork in self.forks.items():
            if len(self.by_name[name].after) < 2:
                raise PipelineInvalid(f"the join {name} follows one node alone")
            within = self.nodes[self.place[fork] + 1 : self.place[name]]
            reached = {fork}
            for node in within:
                if any(port.node in reached for port in node.after):
                    reached.add(node.name)
                    if node.node_type == "aggregation" and self._leads(node.name, name):
                        text = f"between {fork} and the join {name} is the aggregation {node.name}"
                        raise PipelineInvalid(f"{text}: rows that it mixed cannot be told apart")

    def _leads(self, name: str, to: str) -> bool:
        ways = self.successors[name].values()
        return to in ways or any(self._leads(each, to) for each in ways)


def _plugin_name(function: Any) -> str:
    function = getattr(function, "function", function)
    return str(getattr(function, "__qualname__", type(function).__name__))


def _successors_by_label(
    node: PipelineNode, ways: Sequence[tuple[str | None, str]]
) -> Mapping[str, str]:
    """Return the successors of a node by the label of the way to each."""
    is_gate = node.node_type == "gate"
    labelled: dict[str, str] = {}
    for stated, successor in ways:
        if is_gate != (stated is not None):
            how = f'after={node.name}["LABEL"]' if is_gate else f"after={node.name}"
            raise PipelineInvalid(f"{successor} follows {node.name}, so it states {how}")
        label = stated or (successor if len(ways) > 1 else CONTINUE)
        if label in labelled:
            raise PipelineInvalid(f"two ways out of {node.name} are called {label!r}")
        if label == ERROR:
            raise PipelineInvalid(f"no way is called {ERROR!r}, see on_error")
        labelled[label] = successor
    return labelled


def ports_of(after: Any) -> tuple[NodePort, ...]:
    """Return what `after` states: a node, a gate's way out, a name, or several of them.

    Raises:
        PipelineInvalid: it is none of these.
    """
    if isinstance(after, NodePort):
        return (after,)
    if isinstance(after, PipelineNode):
        return (NodePort(after.name),)
    if isinstance(after, str):
        return (NodePort(after),)
    if isinstance(after, Sequence):
        return tuple(port for each in after for port in ports_of(each))
    raise PipelineInvalid(f"after={after!r} names no node")
