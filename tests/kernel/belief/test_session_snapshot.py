"""A session that is taken up from its snapshots is the session that replaying all of it gives."""

import base64
import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.belief.errors import CorruptBeliefEvent
from kernel.belief.events import read_link
from kernel.belief.session import BeliefSession
from kernel.belief.session_snapshot import SessionSnapshot, belong_together
from tests.kernel.belief.test_properties import NAMES, steps, take


def course(declare, given_steps, every, **policy):
    """Take steps, with a snapshot whenever so many events have come since the last one."""
    driver, parts = declare(NAMES, allow_force=True, **policy), []
    for number, step in enumerate(given_steps):
        take(driver, number, step)
        since = parts[-1].n_events if parts else 0
        if driver.session.n_events - since >= every:
            stored = driver.session.take_snapshot(since).to_bytes()
            parts.append(SessionSnapshot.from_bytes(stored))
    return driver, parts


def resumed(stored, parts):
    at = parts[-1].n_events
    return BeliefSession.resume(stored[0], parts, stored[at - 1], stored[at:])


def shown(session):
    """What can be read of a session and decides its later answers, but for its trail."""
    return (
        session.snapshot(),
        session.survivors_hash,
        session.core_state()["survivors"],
        session.take_snapshot(0),
    )


@given(st.lists(steps, min_size=1, max_size=20), st.integers(1, 7), st.integers(0, 3))
def test_what_was_resumed_goes_on_like_what_was_replayed(declare, given_steps, every, window):
    driver, parts = course(declare, given_steps, every, stability_window=window)
    stored = driver.stored()
    if not parts:
        return
    session = resumed(stored, parts)
    assert shown(session) == shown(driver.session)
    assert session.n_events_left_out == parts[-1].n_events
    session.fill_in(stored[: parts[-1].n_events])
    assert [event.to_bytes() for event in session.audit()] == stored
    twin = driver.session
    for number in range(100, 104):
        for driven in (session, twin):
            driver.session = driven
            ids = {"event_id": f"later-{number}", "ts": "2026-02-09T11:00:00.000000Z"}
            if not driven.terminated:
                driven.eliminate("adapter://sre", f"o-{number}", [NAMES[number % 20]], **ids)
        assert shown(session) == shown(twin)


def test_an_observation_of_the_part_that_is_left_out_is_known(declare):
    driver, parts = course(declare, [("eliminate", ["h1"])] * 6, 3)
    stored = driver.stored()
    session = resumed(stored, parts)
    assert session.is_left_out("adapter://sre", "o-0")
    assert not session.is_left_out("adapter://sre", "o-99")
    session.fill_in(stored[: parts[-1].n_events])
    assert not session.is_left_out("adapter://sre", "o-0")
    again = session.eliminate(
        "adapter://sre", "o-0", ["h1"], {"n": 0}, event_id="x", ts="2026-02-09T11:00:00.000000Z"
    )
    assert (again.event, again.applied) == (None, ["h1"])


@pytest.mark.parametrize(
    "changed",
    [
        lambda part: replace(part, head_event_hash="0" * 64),
        lambda part: replace(part, head_event_id="another"),
        lambda part: replace(part, bitmap=base64.b64encode(zlib.compress(bytes(3))).decode()),
        lambda part: replace(part, bitmap=base64.b64encode(b"not deflated").decode()),
        lambda part: replace(part, bitmap="?"),
    ],
)
def test_a_snapshot_that_its_event_contradicts_is_refused(declare, changed):
    driver, parts = course(declare, [("eliminate", ["h1"])] * 4, 2)
    with pytest.raises(CorruptBeliefEvent):
        resumed(driver.stored(), [*parts[:-1], changed(parts[-1])])


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"n_events":1}', b"\xff", b"[" * 2000])
def test_what_is_no_snapshot_is_not_read(content):
    with pytest.raises(CorruptBeliefEvent):
        SessionSnapshot.from_bytes(content)


def test_snapshots_of_which_one_is_gone_do_not_belong_together(declare):
    _, parts = course(declare, [("eliminate", ["h1"])] * 9, 3)
    assert len(parts) == 3
    assert belong_together(parts)
    assert belong_together(parts[:2])
    assert not belong_together(parts[1:])
    assert not belong_together([parts[0], parts[2]])


def test_a_beginning_that_does_not_lead_up_to_the_rest_is_refused(declare):
    driver, parts = course(declare, [("eliminate", ["h1"])] * 4, 2)
    stored = driver.stored()
    before = stored[: parts[-1].n_events]
    for wrong in (before[:-1], before[1:], [before[0], *before[2:]], [*before, before[-1]], []):
        with pytest.raises(CorruptBeliefEvent):
            resumed(stored, parts).fill_in(wrong)


@given(st.text(min_size=1), st.lists(st.text(min_size=1), max_size=3))
def test_the_links_of_an_event_are_read_off_its_bytes_whatever_it_says(declare, text, claimed):
    hostile = '"prev_event_hash":"' + "0" * 64 + '"'
    driver = declare([*NAMES, hostile, '","event_hash":"'])
    result = driver.eliminate(
        text[:99], [*claimed, hostile], why={hostile: {"event_hash": hostile}}
    )
    event = result.event
    assert read_link(event.to_bytes()) == (event.event_id, event.event_hash, event.prev_event_hash)
