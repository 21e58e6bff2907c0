"""Mixes visibility classes along their lattice (§7.2)."""

from collections.abc import Iterable

VISIBILITY_CLASSES = ("public_open", "work_product_internal", "firewalled", "sealed")
"""Least restrictive first."""

LEAST_RESTRICTIVE = VISIBILITY_CLASSES[0]

RANKS = {name: rank for rank, name in enumerate(VISIBILITY_CLASSES)}


def max_visibility_class(classes: Iterable[str]) -> str:
    """Return the most restrictive of the classes, public_open where there are none.

    Raises:
        ValueError: for a class outside the lattice.
    """
    highest = 0
    for name in classes:
        rank = RANKS.get(name)
        if rank is None:
            raise ValueError(f"unknown visibility class: {name}")
        highest = max(highest, rank)
    return VISIBILITY_CLASSES[highest]


def is_lowered(before: str, after: str) -> bool:
    """Tell whether `after` is less restrictive than `before`."""
    return RANKS[after] < RANKS[before]
