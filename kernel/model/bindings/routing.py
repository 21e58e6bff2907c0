"""Routes an event to the bindings whose intake selectors it may meet: Stage 1 (§13.4).

An event is asked of the index instead of each binding. A binding lies in a place for each pair of
the source kind and the source id that it includes, where a kind that it does not include is any. An
event comes from one kind and one id, so it looks at four places and at no binding that another
source would concern. In a place lie the bindings that include no path, all of which the event
matches, and an index over the globs of the others. Exclusions of a binding are looked at last, and
only for the bindings that the event would match otherwise. See decision kernel/0270.

The index holds the active bindings and is changed as they are: `put` for one that was created,
changed or enabled again, `discard` for one that was disabled. It belongs to one thread.
"""

from collections.abc import Iterable, Mapping
from itertools import product

from kernel.model.bindings.glob_index import GlobIndex
from kernel.model.bindings.globs import Glob
from kernel.model.bindings.selectors import (
    SOURCE_ID,
    SOURCE_KIND,
    SOURCE_PATH,
    Selector,
    SelectorList,
)

_Pair = tuple[str | None, str | None]
"""A source kind and a source id; None is any."""


class _Place:
    """The bindings for one pair of source kind and source id."""

    __slots__ = ("any_path", "paths")

    def __init__(self) -> None:
        self.any_path: dict[str, None] = {}
        self.paths: GlobIndex | None = None

    def is_empty(self) -> bool:
        return not self.any_path and self.paths is None


class RoutingIndex:
    """The active bindings, found by the event that their intake selectors match."""

    def __init__(self) -> None:
        self._selectors: dict[str, SelectorList] = {}
        """The intake part of each binding's selectors."""

        self._excludes: dict[str, tuple[Selector, ...]] = {}
        """What of it excludes, for the bindings that exclude something."""

        self._places: dict[_Pair, _Place] = {}

    def __len__(self) -> int:
        """Return how many bindings are active."""
        return len(self._selectors)

    def put(self, binding_id: str, selectors: SelectorList) -> None:
        """Route events to a binding by these selectors, and no longer by those of before."""
        self.discard(binding_id)
        intake = selectors.until("intake_time")
        self._selectors[binding_id] = intake
        if intake.exclude:
            self._excludes[binding_id] = intake.exclude
        globs = _globs(intake)
        for pair in _pairs(intake):
            place = self._places.get(pair)
            if place is None:
                place = self._places[pair] = _Place()
            if not globs:
                place.any_path[binding_id] = None
                continue
            if place.paths is None:
                place.paths = GlobIndex()
            for glob in globs:
                place.paths.add(glob, binding_id)

    def discard(self, binding_id: str) -> None:
        """Route no event to a binding any more; one that is not there changes nothing."""
        intake = self._selectors.pop(binding_id, None)
        if intake is None:
            return
        self._excludes.pop(binding_id, None)
        globs = _globs(intake)
        for pair in _pairs(intake):
            place = self._places[pair]
            place.any_path.pop(binding_id, None)
            for glob in globs:
                if place.paths is not None:
                    place.paths.discard(glob, binding_id)
            if place.paths is not None and not place.paths:
                place.paths = None
            if place.is_empty():
                del self._places[pair]

    def match(self, fields: Mapping[str, str]) -> list[str]:
        """Return the bindings whose intake selectors an event's fields match, in any order.

        `fields` are by selector kind; those of later phases are not looked at.
        """
        kind, source_id = fields.get(SOURCE_KIND), fields.get(SOURCE_ID)
        path = fields.get(SOURCE_PATH)
        pairs = {(kind, source_id), (kind, None), (None, source_id), (None, None)}
        included: dict[str, None] = {}
        for pair in pairs:
            place = self._places.get(pair)
            if place is None:
                continue
            included |= place.any_path
            if path is not None and place.paths is not None:
                included |= dict.fromkeys(place.paths.match(path))
        excludes = self._excludes
        excluding = excludes.keys() & included if excludes else ()
        for binding_id in excluding:
            if any(selector.matches(fields) for selector in excludes[binding_id]):
                del included[binding_id]
        return list(included)


def _values(selectors: Iterable[Selector], kind: str) -> list[str | None]:
    """Return the distinct values of a kind, or any where it has none."""
    values = dict.fromkeys(selector.value for selector in selectors if selector.kind == kind)
    return [*values] or [None]


def _pairs(intake: SelectorList) -> Iterable[_Pair]:
    return product(_values(intake.include, SOURCE_KIND), _values(intake.include, SOURCE_ID))


def _globs(intake: SelectorList) -> list[Glob]:
    return [selector.glob for selector in intake.include if selector.glob is not None]
