"""How large an envelope may be: looked at before anything of it is read into a model.

What a list too long would cost is what its entries cost, and each of millions that are wrong is an
error of its own. So a door holds an envelope against this table before it hands it to anybody, and
V1 does it again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from kernel.model.envelope import (
    MAX_ADJUDICATED,
    MAX_CAUSAL_PARENTS,
    MAX_EFFECTS,
    MAX_ENVELOPE_BYTES,
    MAX_MODEL_OUTPUTS,
    MAX_REFS,
)

TOO_LARGE = "envelope_too_large"

ENTRIES_MAX: Mapping[tuple[str, ...], int] = MappingProxyType(
    {
        # A rollback has a receipt beside as many inverses; V3 holds other verbs to MAX_EFFECTS.
        ("primitive_effects",): MAX_EFFECTS + 1,
        ("causal_parent_operation_ids",): MAX_CAUSAL_PARENTS,
        ("recorded_model_outputs",): MAX_MODEL_OUTPUTS,
        ("adjudicates_receipt_ids",): MAX_ADJUDICATED,
        ("source_refs",): MAX_REFS,
        ("target_refs",): MAX_REFS,
        ("read_set_refs",): MAX_REFS,
        ("write_set_refs",): MAX_REFS,
        ("source_visibility_taint",): MAX_REFS,
        ("affected_subgraph_descriptor", "affected_node_refs"): MAX_REFS,
        ("affected_subgraph_descriptor", "affected_edge_refs"): MAX_REFS,
        ("affected_subgraph_descriptor", "visibility_class_envelope"): MAX_REFS,
    }
)
"""By where a list stands in an envelope: how many entries it has at most."""


@dataclass(frozen=True, slots=True)
class Oversize:
    """A part of an envelope that is larger than it may be."""

    field: str
    """Empty for the envelope as a whole, whose size is its canonical bytes."""

    limit: int
    actual: int

    @property
    def message(self) -> str:
        """The limit and the size in words."""
        if not self.field:
            return f"an envelope has at most {self.limit} bytes, this one {self.actual}"
        return f"{self.field} has at most {self.limit} entries, here {self.actual}"

    @property
    def details(self) -> dict[str, int]:
        """The limit and the size as fields."""
        return {"limit": self.limit, "actual": self.actual}


def too_many_entries(document: Mapping[str, Any]) -> Oversize | None:
    """Return the first list of an envelope that is too long; costs a look at each list."""
    for path, limit in ENTRIES_MAX.items():
        value: Any = document
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        if isinstance(value, list | tuple) and len(value) > limit:
            return Oversize(".".join(path), limit, len(value))
    return None


def too_many_bytes(content: bytes) -> Oversize | None:
    """Return the envelope as oversized where its canonical bytes are too many."""
    if len(content) > MAX_ENVELOPE_BYTES:
        return Oversize("", MAX_ENVELOPE_BYTES, len(content))
    return None
