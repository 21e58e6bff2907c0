"""Names a part of a causal graph by a hypothesis id (seed 000 §8.2).

An id that begins with ``edge:`` names an edge, as in ``edge:svc-postgres|svc-redis|DEPENDS_ON``;
every other id is that of a node. So neither end of an edge that is a hypothesis holds a ``|``.
"""

from typing import NamedTuple

from kernel.belief.limits import invalid
from workers.tee.tee_pb2 import EdgeType, NodeType

EDGE_PREFIX = "edge:"


def _names(kind: type[EdgeType] | type[NodeType], prefix: str) -> dict[int, str]:
    return {number: name.removeprefix(prefix) for name, number in kind.items() if number}


EDGE_TYPES = _names(EdgeType, "EDGE_TYPE_")
"""The name of each type of edge in an id, by its number on the wire."""

NODE_TYPES = _names(NodeType, "NODE_TYPE_")

_EDGE_TYPE_NUMBERS = {name: number for number, name in EDGE_TYPES.items()}


class EdgeHypothesis(NamedTuple):
    """The source, target and type of an edge."""

    source: str
    target: str
    type: int

    @property
    def hypothesis_id(self) -> str:
        """The id of the hypothesis that this edge is there."""
        return f"{EDGE_PREFIX}{self.source}|{self.target}|{EDGE_TYPES[self.type]}"

    @property
    def wire_id(self) -> str:
        """How an answer of the service names the edge."""
        return f"{self.source}->{self.target}:{self.type}"


def is_edge(hypothesis_id: str) -> bool:
    """Tell whether an id is that of an edge."""
    return hypothesis_id.startswith(EDGE_PREFIX)


def edge_of(hypothesis_id: str) -> EdgeHypothesis:
    """Read the id of an edge.

    Raises:
        BeliefError: INVALID_REQUEST when it is not `edge:source|target|TYPE`.
    """
    parts = hypothesis_id.removeprefix(EDGE_PREFIX).split("|")
    number = _EDGE_TYPE_NUMBERS.get(parts[-1])
    if len(parts) != 3 or not all(parts) or number is None:
        raise invalid("hypotheses", f"{hypothesis_id!r} is not {EDGE_PREFIX}source|target|TYPE")
    return EdgeHypothesis(parts[0], parts[1], number)
