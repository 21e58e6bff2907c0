"""Bounds an envelope before anything of it is read into a model.

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

_LISTS = (list, tuple)
_AT_THE_TOP = tuple((path[0], limit) for path, limit in ENTRIES_MAX.items() if len(path) == 1)
_IN_A_PART = tuple(
    (part, tuple((path[1], limit) for path, limit in ENTRIES_MAX.items() if path[0] == part))
    for part in dict.fromkeys(path[0] for path in ENTRIES_MAX if len(path) > 1)
)
"""The same by part, of lists that stand one level down."""


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
    oversize = _too_many(document, _AT_THE_TOP)
    for part, limits in () if oversize is not None else _IN_A_PART:
        value = document.get(part)
        if isinstance(value, dict):
            oversize = oversize or _too_many(value, limits, f"{part}.")
    return oversize


def _too_many(
    document: Mapping[str, Any], limits: tuple[tuple[str, int], ...], place: str = ""
) -> Oversize | None:
    for name, limit in limits:
        value = document.get(name)
        if value and isinstance(value, _LISTS) and len(value) > limit:
            return Oversize(place + name, limit, len(value))
    return None


def too_many_bytes(content: bytes) -> Oversize | None:
    """Return the envelope as oversized where its canonical bytes are too many."""
    if len(content) > MAX_ENVELOPE_BYTES:
        return Oversize("", MAX_ENVELOPE_BYTES, len(content))
    return None
