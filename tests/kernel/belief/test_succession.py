"""A session whose ground was undone: closed for good, and gone on from in another one."""

from itertools import count

import pytest

from kernel.belief.errors import BeliefError, CorruptBeliefEvent
from kernel.belief.events import BeliefEvent
from kernel.belief.session import BeliefSession
from kernel.belief.succession import declare_successor
from tests.kernel.belief.test_restore import forge

pytestmark = pytest.mark.spec("seed001-succession")
SOURCE = "adapter://sre"


@pytest.fixture
def driver(declare):
    """A session that was told of a dismissal, which left one hypothesis, and that ended."""
    driver = declare([*"abcd"], metadata={"case_name": "A v. B"})
    driver.eliminate("petition", ["a"], why={"rule": "filed"})
    driver.eliminate("dismissal", ["b", "c"])
    driver.eliminate("idle", ["a"])
    driver.end()
    return driver


def succeed(driver, successor_id="s-2", **fields):
    stated = {"undone": [(SOURCE, "dismissal")], "cause": {"words": "reinstating"}} | fields
    return driver.session.succeed(successor_id, "reinstated", **stated, **driver.next())


def successor_of(driver, result):
    ids = (f"n-{number}" for number in count())
    return declare_successor(driver.session, result.event, lambda: next(ids))


def test_a_successor_has_the_whole_universe_but_for_what_still_holds(driver):
    before = driver.stored()
    result = succeed(driver)
    successor, events = successor_of(driver, result)
    assert result.carried == [(SOURCE, "petition"), (SOURCE, "idle")]
    assert successor.survivors == frozenset("bcd")
    assert driver.session.survivors == frozenset("d"), "what was struck never comes back"
    assert driver.stored()[: len(before)] == before
    assert driver.session.snapshot()["successor_id"] == "s-2"
    assert successor.snapshot()["predecessor_id"] == driver.session.session_id
    assert successor.succeeds.event_hash == result.event.event_hash
    assert [event.verb for event in events] == ["DECLARE_SESSION", "ELIMINATE", "ELIMINATE"]
    assert events[1].payload == driver.session.audit()[1].payload
    assert (successor.ontology, successor.policy) == (
        driver.session.ontology,
        driver.session.policy,
    )


def test_both_sessions_replay_to_the_byte(driver):
    successor, events = successor_of(driver, succeed(driver))
    for session, stored in (
        (driver.session, driver.stored()),
        (successor, [event.to_bytes() for event in events]),
    ):
        twin = BeliefSession.restore(stored)
        assert twin.snapshot() == session.snapshot()
        assert (twin.successor_id, twin.succeeds) == (session.successor_id, session.succeeds)


def test_a_session_that_is_taken_up_from_a_snapshot_knows_its_successor(driver):
    succeed(driver)
    stored, snapshot = driver.stored(), driver.session.take_snapshot(0)
    resumed = BeliefSession.resume(stored[0], [snapshot], stored[-1], [])
    assert resumed.snapshot() == driver.session.snapshot()
    with pytest.raises(BeliefError, match="SESSION_SUCCEEDED"):
        resumed.eliminate("s", "new", ["d"], **driver.next())
    resumed.fill_in(stored)
    again = resumed.succeed(
        "s-2",
        "reinstated",
        undone=[(SOURCE, "dismissal")],
        cause={"words": "reinstating"},
        **driver.next(),
    )
    assert again.event is None


VERBS = {
    "eliminate": lambda driver: driver.eliminate("new", ["d"]),
    "enter": lambda driver: driver.enter("gate", 1),
    "leave": lambda driver: driver.leave("gate"),
    "conclude": lambda driver: driver.conclude("d"),
    "terminate": lambda driver: driver.end(),
    "another successor": lambda driver: succeed(driver, "s-3"),
    "other ground": lambda driver: succeed(driver, undone=[(SOURCE, "petition")]),
}


@pytest.mark.parametrize("verb", VERBS)
def test_whatever_a_closed_session_is_told_is_refused_by_the_name_of_its_successor(driver, verb):
    succeed(driver)
    before = driver.everything()
    with pytest.raises(BeliefError) as refused:
        VERBS[verb](driver)
    assert refused.value.code == "SESSION_SUCCEEDED"
    assert refused.value.details == {"successor_id": "s-2"}
    assert driver.everything() == before


def test_what_a_closed_session_knows_is_answered_as_it_was(driver):
    first = succeed(driver)
    again = succeed(driver)
    assert (again.event, again.event_id) == (None, first.event_id)
    assert again.carried == first.carried
    known = driver.eliminate("dismissal", ["b", "c"])
    assert (known.event, known.applied) == (None, ["b", "c"])


def test_an_open_obligation_does_not_keep_a_session_from_being_succeeded(declare):
    driver = declare([*"abc"])
    driver.enter("gate", 2)
    result = driver.session.succeed("s-2", "withdrawn", carried=[], **driver.next())
    successor, events = successor_of(driver, result)
    assert (successor.survivors, successor.snapshot()["active_obligation_id"]) == (
        frozenset("abc"),
        None,
    )
    assert len(events) == 1


BAD = {
    "itself": {"successor_id": "s-1"},
    "no name": {"successor_id": ""},
    "neither": {"undone": None},
    "both": {"carried": []},
    "unknown": {"undone": [(SOURCE, "never")]},
    "no pair": {"undone": [(SOURCE,)]},
    "a text": {"undone": "ab"},
    "another head": {"expected_head": "e-0"},
}


@pytest.mark.parametrize("case", BAD)
def test_a_succession_that_cannot_be_is_refused_and_changes_nothing(driver, case):
    before = driver.everything()
    with pytest.raises(BeliefError) as refused:
        succeed(driver, **BAD[case])
    assert refused.value.code == ("CONFLICT" if case == "another head" else "INVALID_REQUEST")
    assert driver.everything() == before


FORGERIES = {
    "carries what was undone": lambda payload: payload["carried"].append([SOURCE, "nothing"]),
    "carries in another order": lambda payload: payload["carried"].reverse(),
    "names itself": lambda payload: payload.update(successor_id="s-1"),
    "has another field": lambda payload: payload.update(more=1),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_closing_does_not_replay(driver, forgery):
    succeed(driver)
    stored = driver.stored()
    last = len(stored) - 1
    forged = forge(stored, last, lambda fields: FORGERIES[forgery](fields["payload"]))
    with pytest.raises(CorruptBeliefEvent) as corrupt:
        BeliefSession.restore(forged)
    assert corrupt.value.index == last


def test_nothing_replays_behind_a_closing(driver):
    before = driver.stored()
    succeed(driver)
    closing = BeliefEvent.from_bytes(driver.stored()[-1])
    late = BeliefEvent.seal(
        event_id="late",
        session_id=closing.session_id,
        ts=closing.ts,
        verb="ELIMINATE",
        payload={
            "source_id": "s",
            "observation_id": "late",
            "eliminated": ["d"],
            "justification": {},
        },
        delta={"eliminated": []},
        survivors_before_hash=closing.survivors_after_hash,
        survivors_after_hash=closing.survivors_after_hash,
        prev_event_hash=closing.event_hash,
    )
    with pytest.raises(CorruptBeliefEvent, match="SESSION_SUCCEEDED"):
        BeliefSession.restore([*before, closing.to_bytes(), late.to_bytes()])
