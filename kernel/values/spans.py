"""Defines stretches of a source, as payloads and references name them (§12.3, §21.1).

A reference may name a stretch in itself: ``FU-123#17-42`` is the stretch of FU-123 from offset 17
up to, and without, offset 42. A stretch that says too little to be placed is all of its source.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

_NAMED = re.compile(r"(?s)(?P<source>.+)#(?P<one>[0-9]{1,15})-(?P<other>[0-9]{1,15})\Z")

_NAMED_WHOLE = frozenset({"source_refs", "source_ref"})
NAMING = _NAMED_WHOLE | {"source_spans", "span"}
"""The fields by which a payload says what it was drawn from."""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a source; without an end it is all that follows."""

    source_ref: str
    start: int = 0
    end: int | None = None

    @property
    def ref(self) -> str:
        """The stretch as a reference names it."""
        return self.source_ref if self.end is None else f"{self.source_ref}#{self.start}-{self.end}"

    def encompasses(self, other: "Span") -> bool:
        """Tell whether the other stretch lies in this one."""
        within = self.end is None or (other.end is not None and other.end <= self.end)
        return self.source_ref == other.source_ref and self.start <= other.start and within

    def overlaps(self, other: "Span") -> bool:
        """Tell whether the two stretches share anything."""
        return (
            self.source_ref == other.source_ref
            and (self.end is None or other.start < self.end)
            and (other.end is None or self.start < other.end)
        )


def span_named_by(ref: str) -> Span | None:
    """Return the stretch that a reference names, None where it names a whole thing."""
    match = _NAMED.match(ref) if "#" in ref else None
    if match is None:
        return None
    start, end = sorted((int(match["one"]), int(match["other"])))
    # Two offsets that coincide or stand the wrong way round still name a place.
    return Span(match["source"], start, max(end, start + 1))


def names_of(ref: str) -> Iterator[str]:
    """Yield a reference and everything that it names a stretch of, the innermost first.

    ``S#0-9#2-3`` is a stretch of ``S#0-9``, which is one of ``S``; a thing may be called like
    each of them.
    """
    yield ref
    span = span_named_by(ref)
    while span is not None:
        yield span.source_ref
        span = span_named_by(span.source_ref)


def spans_in(payload: Mapping[str, Any]) -> Iterator[Span]:
    """Yield the stretches that a payload was drawn from, as its fields name them."""
    many = payload.get("source_spans")
    for document in [*(many if isinstance(many, list) else ()), payload.get("span")]:
        span = span_of(document)
        if span is not None:
            yield span
    for ref in _source_refs(payload):
        yield span_named_by(ref) or Span(ref)


def span_of(document: object) -> Span | None:
    """Read {source_ref, offset, length}; None where it names no source."""
    source_ref = document.get("source_ref") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not _is_ref(source_ref):
        return None
    offset, length = document.get("offset"), document.get("length")
    if _counts(offset, 0) and _counts(length, 1):
        return Span(source_ref, offset, offset + length)
    return Span(source_ref)


def sources_in(payload: Mapping[str, Any]) -> list[str]:
    """Return everything that a payload says it was drawn from, each once (INV-PROV-TAINT-1)."""
    if NAMING.isdisjoint(payload):
        return []
    many = payload.get("source_spans")
    spans = [*(many if isinstance(many, list) else ()), payload.get("span")]
    pointed = [span.get("source_ref") for span in spans if isinstance(span, dict)]
    sources = [ref for ref in pointed if isinstance(ref, str) and ref]
    if not _NAMED_WHOLE.isdisjoint(payload):
        sources = _source_refs(payload) + sources
    if "#" not in "".join(sources):
        return list(dict.fromkeys(sources))
    return list(dict.fromkeys([name for ref in sources for name in names_of(ref)]))


def _source_refs(payload: Mapping[str, Any]) -> list[str]:
    many = payload.get("source_refs")
    stated = [*(many if isinstance(many, list) else ()), payload.get("source_ref")]
    return [ref for ref in stated if isinstance(ref, str) and ref]


def _is_ref(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and value != ""


def _counts(value: object, minimum: int) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= minimum
