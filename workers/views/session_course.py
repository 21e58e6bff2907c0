"""Tells which hypothesis of a session fell at which step, by which rule, on which words.

A step is an entry of the trail that struck something; step 0 is the declaration. The course is of a
bounded number of entries and hypotheses, and says so where there are more.
"""

from dataclasses import dataclass, field
from itertools import islice

from kernel.audit.provenance import Words, words_at
from kernel.audit.provenance_of_sessions import span_of_justification
from kernel.belief.events import BeliefEvent
from kernel.ledger.ledger import Document
from kernel.records.access.readable_view import ReadableView

ENTRIES_MAX = 2_000
"""First entries of a trail that are read."""

HYPOTHESES_MAX = 500
STEPS_SHOWN_MAX = 40
"""Steps of one page, those around the one that is asked for, each with its words."""

STRUCK_SHOWN_MAX = 20


@dataclass(frozen=True, slots=True)
class CourseStep:
    """A step: what fell, by which rule, for which reason, and on which words."""

    number: int
    event_id: str
    verb: str
    at: str
    struck: tuple[str, ...]
    struck_count: int
    left_count: int
    rule: str | None
    reason: str | None
    words: Words | None


@dataclass(frozen=True, slots=True)
class SessionCourse:
    """The steps of a session around one of them, and where its hypotheses stand after it."""

    at: int
    """The step after which the hypotheses are shown."""

    last: int
    steps: tuple[CourseStep, ...]
    fell_at: dict[str, int | None] = field(default_factory=dict)
    """By hypothesis, in the order of the declaration, the step at which it fell, if it did."""

    declared_count: int = 0
    left_counts: tuple[int, ...] = ()
    """How many are left after each step, from step 0 on."""

    is_cut: bool = False
    """Whether the trail, or the declaration, has more than is read here."""

    @property
    def left_count(self) -> int:
        """How many are left after the step."""
        return self.left_counts[self.at]


def session_course(view: ReadableView, session_id: str, step: int | None) -> SessionCourse | None:
    """Return a session's course around a step, by default the last; None where there is none."""
    row = view.belief_session(session_id)
    if row is None:
        return None
    stored = view.belief_events(session_id, limit=ENTRIES_MAX)
    events = [BeliefEvent.from_bytes(content) for content in stored]
    if not events:
        return None
    striking = [event for event in events if event.delta["eliminated"]]
    at = len(striking) if step is None else min(step, len(striking))
    declared = row["n_universe"]
    left = [declared]
    for event in striking:
        left.append(left[-1] - len(event.delta["eliminated"]))
    fell = {
        name: number
        for number, event in enumerate(striking, 1)
        for name in islice(event.delta["eliminated"], HYPOTHESES_MAX)
    }
    shown = events[0].payload["hypotheses"][:HYPOTHESES_MAX]
    first = max(0, min(at - STEPS_SHOWN_MAX // 2, len(striking) - STEPS_SHOWN_MAX))
    steps = [
        _step(view, number, event, left[number])
        for number, event in enumerate(striking, 1)
        if first < number <= first + STEPS_SHOWN_MAX
    ]
    return SessionCourse(
        at,
        len(striking),
        tuple(steps),
        {name: fell.get(name) for name in shown},
        declared,
        tuple(left),
        is_cut=declared > len(shown) or row["n_events"] > len(events),
    )


def _step(view: ReadableView, number: int, event: BeliefEvent, left_count: int) -> CourseStep:
    stated = event.payload.get("justification")
    justification: Document = stated if isinstance(stated, dict) else {}
    span = span_of_justification(justification)
    struck = event.delta["eliminated"]
    return CourseStep(
        number,
        event.event_id,
        event.verb,
        event.ts,
        tuple(struck[:STRUCK_SHOWN_MAX]),
        len(struck),
        left_count,
        _text(justification.get("rule")),
        _text(justification.get("reason")),
        None if span is None else words_at(view, span),
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
