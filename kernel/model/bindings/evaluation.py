"""Decides whether a binding selects an artifact, and by which selector: stage 2 (§13.4).

All selectors are judged, those of intake included, against the fields that the artifact has by
then. The verdict is a function of the two alone, so it is the same whenever it is asked for again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from kernel.model.bindings.selectors import SelectorList


@dataclass(frozen=True, slots=True)
class SelectorMatch:
    """Whether an artifact is selected; where it is not, by which part of the list."""

    matched: bool
    decided_by: Literal["include", "exclude"] | None = None
    """The part of the list that left the artifact out; None where it matched."""

    kind: str | None = None
    """The selector kind of which no included value matched, or an excluded one did."""


MATCHED = SelectorMatch(matched=True)


def evaluate(selectors: SelectorList, fields: Mapping[str, str]) -> SelectorMatch:
    """Judge an artifact by its fields, by selector kind.

    The first kind decides of which no value is included, in the order of the list, and after that
    the first selector that excludes.
    """
    matching = {selector.kind for selector in selectors.include if selector.matches(fields)}
    for selector in selectors.include:
        if selector.kind not in matching:
            return SelectorMatch(matched=False, decided_by="include", kind=selector.kind)
    for selector in selectors.exclude:
        if selector.matches(fields):
            return SelectorMatch(matched=False, decided_by="exclude", kind=selector.kind)
    return MATCHED
