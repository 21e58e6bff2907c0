"""Traces what an id names back to the words of sources.

Whatever was decided names its causes (the operation that wrote it, the request that this answered,
the operation that caused the request, the spans that it was drawn from), so the way back is read
from the record and is kept nowhere else (decision kernel/0473). `provenance_steps.py` says of each
kind of thing what it says and where it comes from; this file finds out what an id is and walks.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from kernel.ledger.ledger import Document, LedgerView
from kernel.records.texts import text_at
from kernel.values.spans import Span

STEPS_MAX = 400
"""Steps of one answer, the nearest to what was asked about."""

Kind = Literal[
    "authority",
    "source",
    "record",
    "operation",
    "request",
    "survivor",
    "session",
    "elimination",
]

WORDS_CHARS_MAX = 4000
"""Characters of a stretch that one answer repeats; its length says how many there are."""


class Named(NamedTuple):
    """Something on the record, by what it is and its id."""

    kind: Kind
    record_id: str


@dataclass(frozen=True, slots=True)
class Words:
    """Words of a source: a stretch of its text, counted in characters."""

    source_ref: str
    offset: int
    length: int
    text: str | None
    """None where the source has no such stretch any more."""


_LABELS: Final = {"n_universe": "hypotheses", "n_survivors": "left of them", "n_events": "entries"}


def label_of(name: str) -> str:
    """Return what a reader is shown for the name of a fact of a step."""
    return _LABELS.get(name, name.replace("_", " "))


@dataclass(frozen=True, slots=True)
class Step:
    """One thing on the way: what the record says of it, and what it comes from."""

    named: Named
    says: Document
    because: tuple[Named, ...] = ()
    words: tuple[Words, ...] = ()


@dataclass(frozen=True, slots=True)
class Provenance:
    """The way from a thing back to its sources, the nearest steps first; the first is the thing."""

    steps: dict[Named, Step] = field(default_factory=dict)
    is_cut: bool = False
    """Whether there are more steps than one answer has."""

    @property
    def subject(self) -> Step:
        """What was asked about."""
        return next(iter(self.steps.values()))


def walk_provenance(
    first: Step, step_of: Callable[[Named], Step | None], *, steps_max: int = STEPS_MAX
) -> Provenance:
    """Walk from a step to what it comes from, and on, breadth first."""
    provenance = Provenance({first.named: first})
    waiting = deque(first.because)
    while waiting:
        named = waiting.popleft()
        if named in provenance.steps:
            continue
        if len(provenance.steps) >= steps_max:
            return Provenance(provenance.steps, is_cut=True)
        step = step_of(named)
        if step is not None:
            provenance.steps[named] = step
            waiting += step.because
    return provenance


def words_at(view: LedgerView, span: Span) -> Words:
    """Return the words of a stretch; without an end, of all that follows."""
    text = text_at(view, span.source_ref)
    if text is None or (span.end is not None and span.end > len(text)):
        length = 0 if span.end is None else span.end - span.start
        return Words(span.source_ref, span.start, length, None)
    words = text[span.start : span.end]
    return Words(span.source_ref, span.start, len(words), words[:WORDS_CHARS_MAX])


def words_of_source(view: LedgerView, ref: str) -> tuple[Words, ...]:
    """Return the whole text of a source; nothing where it has none."""
    words = words_at(view, Span(ref))
    return () if words.text is None else (words,)
