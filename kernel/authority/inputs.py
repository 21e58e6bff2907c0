"""States the inputs of an authority beside it, whatever their number (§8.5, K33).

All inputs are stated by their number and a digest: the SHA-256 of the canonical form of the array
of `[edge_id, parent_node_id, parent_version, edge_essentiality, captured_at_authority]`, sorted by
edge id. The excerpt names the first 64, and of the others the first of each visibility class that
those do not have, so that taint sees every class (decision kernel/0208).
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

from kernel.model.authority_strategy import AuthorityInput
from kernel.values.canonical import canonicalize

EXCERPT_INPUTS = 64
"""How many of the first inputs are stated by name."""

EXCERPT_MAX = 128
"""The most that an excerpt holds: those, and one input of each further visibility class."""

_HASHED_AT_ONCE = 512

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class InputEdge:
    """An edge that feeds an authority, with what it brings."""

    edge_id: str
    visibility_class: str
    """The visibility class of the input."""

    brings: AuthorityInput


@dataclass(slots=True)
class StatedInputs:
    """The number, the digest and the excerpt of an authority's inputs."""

    count: int = 0
    digest: str = ""
    excerpt: list[AuthorityInput] = field(default_factory=list)

    def payload(self) -> dict[str, Any]:
        """Return the fields that are stored with the result."""
        return {
            "cu_authority_inputs": {"count": self.count, "digest": self.digest},
            "cu_authority_input_versions": [version.document() for version in self.excerpt],
        }

    def document(self) -> dict[str, Any]:
        """Return it as a worker reports it."""
        return {
            "count": self.count,
            "digest": self.digest,
            "excerpt": [version.document() for version in self.excerpt],
        }


def inputs_along(edges: Iterable[InputEdge], stated: StatedInputs) -> Iterator[AuthorityInput]:
    """Yield what the edges bring, by edge id, and complete `stated` at the end.

    Memory is bounded whatever their number.
    """
    hashed = hashlib.sha256(b"[")
    classes: set[str] = set()
    for page in pages_of(edges, _HASHED_AT_ONCE):
        entries = canonicalize([_entry(edge) for edge in page])[1:-1]
        hashed.update(b"," + entries if stated.count else entries)
        for edge in page:
            stated.count += 1
            if stated.count <= EXCERPT_INPUTS or edge.visibility_class not in classes:
                stated.excerpt.append(edge.brings)
            classes.add(edge.visibility_class)
            yield edge.brings
    hashed.update(b"]")
    stated.digest = hashed.hexdigest()


def pages_of(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the items in lists of a size, the last of which may be shorter."""
    remaining = iter(items)
    while page := list(islice(remaining, size)):
        yield page


def _entry(edge: InputEdge) -> list[str | float]:
    brings = edge.brings
    return [
        edge.edge_id,
        brings.parent_node_id,
        brings.parent_version,
        brings.edge_essentiality,
        brings.captured_at_authority,
    ]
