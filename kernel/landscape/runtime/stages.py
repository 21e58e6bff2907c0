"""Names the stages of the runtime's own pipeline (ruling L1), and the one of an operation.

Each is a node of the runtime's run. A record that no later stage has made came in from outside: its
stage is the intake. Every operation passes the commit last.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from kernel.ledger.ledger import Document
from kernel.model.bindings.selectors import PHASES
from kernel.model.receipt import MANIFEST_RECEIPT
from kernel.model.recomputes import RECALCULATE

Stage = Literal[
    "intake",
    "normalization",
    "relationship_resolution",
    "binding_evaluation",
    "firing",
    "extraction",
    "recompute",
    "commit",
]

_OF_INTENT: Mapping[str, Stage] = MappingProxyType(
    {
        RECALCULATE: "recompute",
        "extraction_state_change": "extraction",
        "binding_fire_record": "firing",
    }
)
_OF_PHASE: Mapping[str, Stage] = MappingProxyType(
    {
        "post_group_o_normalization": "normalization",
        "post_relationship_resolution": "relationship_resolution",
    }
)

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


def stage_of(envelope: Document) -> Stage:
    """Return the stage in which an operation was made, by its envelope."""
    effects = envelope.get("primitive_effects", [])
    if any(effect.get("receipt_subkind") == MANIFEST_RECEIPT for effect in effects):
        return "binding_evaluation"
    if envelope.get("binding_fire") is not None:
        return "firing"
    if any("extracted" in effect.get("payload", {}) for effect in effects):
        return "extraction"
    return _OF_INTENT.get(envelope.get("semantic_intent", "")) or _of_phases(effects)


def _of_phases(effects: list[Document]) -> Stage:
    """Return the stage of the last phase that is completed in what is written of a source."""
    completed = {
        phase
        for effect in effects
        for phase in _phases_in(effect.get("payload", {}).get("completed_phases"))
    }
    last = next((phase for phase in reversed(PHASES) if phase in completed), None)
    return _OF_PHASE.get(last or "", "intake")


def _phases_in(stated: object) -> list[str]:
    return [name for name in stated if isinstance(name, str)] if isinstance(stated, dict) else []
