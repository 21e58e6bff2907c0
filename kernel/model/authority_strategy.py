"""Declares how an authority is computed: the port of a strategy, and an input of it (K13)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class AuthorityInput:
    """One input edge as it stood when the authority was computed (§8.5)."""

    parent_node_id: str
    parent_version: str
    edge_essentiality: str
    captured_at_authority: float

    def document(self) -> dict[str, Any]:
        """Return the ParentVersionRef that is stored with the result."""
        return {
            "parent_node_id": self.parent_node_id,
            "parent_version": self.parent_version,
            "edge_essentiality": self.edge_essentiality,
            "captured_at_authority": self.captured_at_authority,
        }


class AuthorityStrategy(Protocol):
    """A pure function from inputs to an authority in [0, 1]; see `compute_authority`."""

    def compute(self, inputs: Iterable[AuthorityInput], override: float | None = None) -> float:
        """Return the authority; an override by a user replaces the value."""
