"""Draws the way of a request on a line: when it waited, was paused, was tried, and ended."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from kernel.work.request_history import RequestEvent

WIDTH: Final = 1000
NARROWEST: Final = 4
"""Parts of `WIDTH` that the shortest stretch has, so that it is seen."""

_LASTING: Final = {"attempt": "tried", "begun": "done", "paused": "paused", "asked": "delayed"}
_ENDS: Final = {"paused": "resumed", "asked": "due"}
"""Which event ends a stretch that another begins."""


@dataclass(frozen=True, slots=True)
class LinePart:
    """A part of the line, by what went on then."""

    kind: str
    x: int
    width: int


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """An event with the time that had passed since it was asked for."""

    event: RequestEvent
    after_ms: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """The events in order, and the same drawn."""

    rows: tuple[TimelineRow, ...]
    parts: tuple[LinePart, ...]
    ends: int | None
    """Where the line has its outcome; None while it goes on."""

    span_ms: int


def timeline(events: Sequence[RequestEvent], asked_at: str, now: datetime) -> Timeline:
    """Return the events of a request that was asked for at a time, and the line up to now."""
    begin = datetime.fromisoformat(asked_at)
    times = [datetime.fromisoformat(event.at) for event in events]
    outcome = next((at for at, e in zip(times, events, strict=True) if e.what == "outcome"), None)
    last = outcome or max(now, begin)
    span = max(last - begin, timedelta(milliseconds=1))

    def place(at: datetime) -> int:
        return min(max(round(WIDTH * ((at - begin) / span)), 0), WIDTH)

    parts = []
    for number, (at, event) in enumerate(zip(times, events, strict=True)):
        kind, ends_as = _LASTING.get(event.what), _ENDS.get(event.what)
        if kind is None:
            continue
        until = last
        if event.took_ms is not None:
            until = at + timedelta(milliseconds=event.took_ms)
        elif ends_as is not None:
            later = zip(times[number + 1 :], events[number + 1 :], strict=True)
            end = next((when for when, each in later if each.what == ends_as), None)
            if end is None and event.what == "asked":
                continue
            until = end or last
        x = min(place(at), WIDTH - NARROWEST)
        parts.append(LinePart(kind, x, max(place(until) - x, NARROWEST)))
    rows = tuple(
        TimelineRow(event, round((at - begin) / timedelta(milliseconds=1)))
        for at, event in zip(times, events, strict=True)
    )
    ends = None if outcome is None else WIDTH
    return Timeline(rows, tuple(parts), ends, round(span / timedelta(milliseconds=1)))
