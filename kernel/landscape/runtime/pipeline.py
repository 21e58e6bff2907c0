"""The graph of the runtime's run: its stages, and the ways from one to the next (ruling L1)."""

from collections.abc import Mapping
from types import MappingProxyType

from kernel.landscape.runtime.stages import Stage

REVIEW = "review"
"""Where a batch of memberships is reviewed; a node of runs that have such a batch."""

NODES: Mapping[Stage, str] = MappingProxyType(
    {
        "intake": "source",
        "normalization": "transform",
        "relationship_resolution": "transform",
        "binding_evaluation": "gate",
        "firing": "transform",
        "extraction": "transform",
        "recompute": "coalesce",
        "commit": "sink",
    }
)
"""What kind of node each stage is."""

EDGES: tuple[tuple[str, str, str], ...] = (
    ("intake", "completed_phase", "normalization"),
    ("normalization", "completed_phase", "relationship_resolution"),
    ("intake", "binding-evaluation", "binding_evaluation"),
    ("normalization", "binding-evaluation", "binding_evaluation"),
    ("relationship_resolution", "binding-evaluation", "binding_evaluation"),
    ("binding_evaluation", "fired", "firing"),
    ("firing", "extraction-transition", "extraction"),
    ("intake", "authority-recompute", "recompute"),
    ("firing", "authority-recompute", "recompute"),
    ("extraction", "authority-recompute", "recompute"),
    *((stage, "committed", "commit") for stage in NODES if stage != "commit"),
)
"""Where from, along what, where to; a hand-over by a queue is called as the queue is."""

STAGE_OF_QUEUE: Mapping[str, Stage] = MappingProxyType(
    {
        "authority-recompute": "recompute",
        "binding-evaluation": "binding_evaluation",
        "extraction-transition": "extraction",
    }
)
"""Any other queue is a node by its own name."""
