"""Finds what a thing lies in, as far as the record says (§12.3).

Four things say what contains what:

1. a payload that names its containers, by the granularity's name: `filing_unit_ref`, `document_id`,
   `corpus_refs` and so on, and the sources that it was drawn from;
2. a membership of a corpus;
3. an edge, which lies in the node that it leads to;
4. a reference that names a stretch of something.

A thing that was drawn from several stretches lies in each of them by a way of its own, and a
permission on one way is none on another.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.records.overlays.overlay import GRANULARITIES, AccessOverlay, overlay_of
from kernel.values.spans import Span, span_named_by, spans_in

MAX_REFS_WALKED = 4096
MAX_OVERLAYS_EXAMINED = 100_000
"""Limits for one envelope; what would exceed them is refused and not searched."""

_CONTAINING_STATES = ("candidate", "confirmed", "policy_blocked")
_RECORDED_IN = tuple(table for table in schema.STATE_TABLES if table.info["state"].holds_things)


class ContainmentTooWide(Exception):
    """A thing lies in more than is searched."""


@dataclass(frozen=True, slots=True)
class Containers:
    """What a thing lies in: other things by their references, and stretches of sources."""

    refs: frozenset[str]
    spans: frozenset[Span]


class Containment:
    """The containers and overlays on record, read once each for one envelope."""

    def __init__(self, view: LedgerView) -> None:
        self._view = view
        self._places: dict[str, Containers] = {}
        self._closures: dict[str, Containers] = {}
        self._overlays: dict[str, list[AccessOverlay]] = {}
        self._examined = 0

    def ways(self, ref: str, payload: Mapping[str, Any] | None = None) -> Iterator[Containers]:
        """Yield the ways in which a thing lies in others, each through one stretch at most.

        With `payload`, the thing is what the payload says and not what is recorded of it.

        Raises:
            ContainmentTooWide: past the limits.
        """
        around = self._closure(ref) if payload is None else self._around(ref, payload)
        if not around.spans:
            yield around
        waiting, seen = list(around.spans), set(around.spans)
        while waiting:
            span = waiting.pop()
            outer = self._closure(span.source_ref)
            waiting += outer.spans - seen
            seen |= outer.spans
            yield Containers(around.refs | outer.refs, frozenset({span}))

    def overlays_on(self, way: Containers) -> list[AccessOverlay]:
        """Return the overlays in force over anything on a way.

        A stretch is under an overlay that encompasses it, and under a limit that touches it.
        """
        overlays = [overlay for ref in way.refs for overlay in self._overlays_of(ref)]
        self._examined += len(overlays)
        if self._examined > MAX_OVERLAYS_EXAMINED:
            raise ContainmentTooWide
        return [overlay for overlay in overlays if _lies_over(overlay, way.spans)]

    def _overlays_of(self, ref: str) -> list[AccessOverlay]:
        if ref not in self._overlays:
            overlays = (overlay_of(record) for record in self._view.overlay_nodes(ref))
            self._overlays[ref] = [overlay for overlay in overlays if overlay is not None]
        return self._overlays[ref]

    def _around(self, ref: str, payload: Mapping[str, Any]) -> Containers:
        """What a thing of this payload would lie in."""
        stated = _containers_of_node(ref, payload)
        closures = [self._closure(ref) for ref in stated.refs]
        return Containers(
            stated.refs.union({ref}, *(closure.refs for closure in closures)),
            stated.spans.union(*(closure.spans for closure in closures)),
        )

    def _closure(self, ref: str) -> Containers:
        """What a thing lies in, and what that lies in, up to sources."""
        if ref not in self._closures:
            refs: set[str] = set()
            spans: set[Span] = set()
            waiting = [ref]
            while waiting:
                inner = waiting.pop()
                if inner not in refs:
                    place = self._place(inner)
                    refs.add(inner)
                    spans |= place.spans
                    waiting += place.refs
            self._closures[ref] = Containers(frozenset(refs), frozenset(spans))
        return self._closures[ref]

    def _place(self, ref: str) -> Containers:
        if ref not in self._places:
            if len(self._places) >= MAX_REFS_WALKED:
                raise ContainmentTooWide
            records = (self._view.record(table, ref) for table in _RECORDED_IN)
            # An edge has no payload: its ends are the record's own.
            stated = [
                _containers_of_node(ref, record.get("payload", record))
                for record in records
                if record is not None
            ]
            corpora = {
                record["corpus_id"]
                for record in self._view.memberships_of(ref)
                if record["state"] in _CONTAINING_STATES
            }
            self._places[ref] = Containers(
                frozenset(corpora).union(*(closure.refs for closure in stated)),
                _spans_of(ref).union(*(closure.spans for closure in stated)),
            )
        return self._places[ref]


def is_placed(payload: Mapping[str, Any]) -> bool:
    """Tell whether a payload says what it lies in."""
    place = _containers_of_node("", payload)
    return bool(place.refs or place.spans)


def _containers_of_node(ref: str, payload: Mapping[str, Any]) -> Containers:
    return Containers(frozenset(_containers(payload)), _spans_of(ref).union(spans_in(payload)))


def _spans_of(ref: str) -> frozenset[Span]:
    span = span_named_by(ref)
    return frozenset() if span is None else frozenset({span})


def _containers(payload: Mapping[str, Any]) -> Iterable[str]:
    if isinstance(payload.get("target_node_id"), str):
        yield payload["target_node_id"]
    for granularity in GRANULARITIES:
        for name in (f"{granularity}_ref", f"{granularity}_id"):
            if isinstance(payload.get(name), str):
                yield payload[name]
        many = payload.get(f"{granularity}_refs")
        yield from (ref for ref in many if isinstance(ref, str)) if isinstance(many, list) else ()


def _lies_over(overlay: AccessOverlay, spans: Iterable[Span]) -> bool:
    over = overlay.target.span
    if over is None:
        return True
    limits = overlay.restriction != "none"
    return any(over.encompasses(span) or (limits and over.overlaps(span)) for span in spans)
