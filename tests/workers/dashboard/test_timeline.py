"""The way of a request, drawn: everything has its place between the asking and the outcome."""

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kernel.values.host import iso_time
from kernel.work.request_history import RequestEvent
from workers.dashboard.pages.timeline import NARROWEST, WIDTH, timeline

BEGIN_US = 1_750_000_000_000_000
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def event(what: Any, after_ms: int, **fields: Any) -> RequestEvent:
    return RequestEvent(iso_time(BEGIN_US + 1000 * after_ms), what, "words", **fields)


def test_attempts_pauses_and_the_delay_lie_where_they_were():
    events = [
        event("asked", 0),
        event("due", 100),
        event("paused", 200),
        event("resumed", 400),
        event("attempt", 500, took_ms=100),
        event("outcome", 1000),
        event("settled", 5000),
    ]
    way = timeline(events, events[0].at, NOW)
    assert [(part.kind, part.x, part.width) for part in way.parts] == [
        ("delayed", 0, 100),
        ("paused", 200, 200),
        ("tried", 500, 100),
    ]
    assert (way.span_ms, way.ends) == (1000, WIDTH)
    assert [row.after_ms for row in way.rows] == [0, 100, 200, 400, 500, 1000, 5000]


def test_what_goes_on_reaches_to_now():
    begin = event("asked", 0)
    now = datetime.fromisoformat(begin.at) + timedelta(seconds=10)
    way = timeline([begin, event("paused", 5000)], begin.at, now)
    assert [(part.kind, part.x, part.width) for part in way.parts] == [("paused", 500, 500)]
    assert (way.span_ms, way.ends) == (10_000, None)


WHATS = ("begun", "asked", "due", "paused", "resumed", "attempt", "priority", "outcome", "settled")


@given(
    st.lists(st.tuples(st.sampled_from(WHATS), st.integers(-(10**6), 10**9)), max_size=12),
    st.integers(0, 10**7),
)
def test_whatever_clocks_said_everything_is_on_the_line(stated, took_ms):
    events = [
        event(what, after, took_ms=took_ms if what in ("attempt", "begun") else None)
        for what, after in sorted(stated, key=lambda each: each[1])
    ]
    way = timeline(events, iso_time(BEGIN_US), NOW)
    assert len(way.rows) == len(events)
    for part in way.parts:
        assert 0 <= part.x <= WIDTH - NARROWEST
        assert NARROWEST <= part.width <= WIDTH - part.x
