"""Taking up a session whose tombstones live in a store: what is repaired and what is refused."""

import pytest

from kernel.belief.elimination_store import EliminationProvenance, RecoveredState
from kernel.belief.errors import BeliefError, CorruptBeliefEvent
from kernel.belief.memory_store import InMemoryStore
from kernel.belief.tombstone_restoration import ADOPTED_SOURCE, restore_session

WHY = EliminationProvenance("adapter://test", "probe:1")
STAMP = {"event_id": "adopting", "ts": "2026-02-10T00:00:00.000000Z"}
UNIVERSE = frozenset("abcdef")


@pytest.fixture
def stored(lived):
    """The session in which every verb happened, and a store that was written along with it."""
    store = InMemoryStore()
    store.create_session("s-1", UNIVERSE)
    store.eliminate("s-1", UNIVERSE - lived.session.survivors, WHY)
    return store


def restore(driver, store, **changes):
    recovered = store if isinstance(store, RecoveredState) else store.recover("s-1")
    events = changes.pop("events", driver.stored())
    return restore_session(changes.pop("session_id", "s-1"), recovered, events, **STAMP)


def refused(driver, store, **changes):
    with pytest.raises(BeliefError) as error:
        restore(driver, store, **changes)
    return error.value


@pytest.mark.spec("seed 000 §6.2")
def test_audit_and_store_that_agree_give_the_session_as_it_was(lived, stored):
    restored = restore(lived, stored)
    assert restored.adopted is None
    assert restored.session.snapshot() == lived.session.snapshot()
    assert restored.session.core_state() == lived.session.core_state()
    assert restored.session.survivors == stored.get_survivors("s-1")


@pytest.mark.spec("seed 000 §6.0")
def test_replaying_writes_nothing_to_the_store(lived, stored, monkeypatch):
    monkeypatch.setattr(InMemoryStore, "eliminate", None)
    restore(lived, stored)


@pytest.mark.spec("seed 000 §7.2")
def test_a_store_that_is_ahead_is_adopted_by_an_entry_of_its_own(declare):
    driver = declare([*"abcd"])
    driver.eliminate("o-1", ["a"])
    store = InMemoryStore()
    store.create_session("s-1", {*"abcd"})
    store.eliminate("s-1", {"a", "b", "c"}, WHY)
    restored = restore(driver, store)
    assert restored.session.survivors == store.get_survivors("s-1") == {"d"}
    assert restored.adopted.event_id == "adopting"
    assert restored.adopted.payload["source_id"] == ADOPTED_SOURCE
    assert restored.adopted.delta == {"eliminated": ["b", "c"]}
    # Once the entry is recorded there is nothing left to repair.
    again = restore(driver, store, events=[*driver.stored(), restored.adopted.to_bytes()])
    assert again.adopted is None
    assert again.session.snapshot() == restored.session.snapshot()


def test_a_session_that_validates_and_has_an_obligation_adopts_as_well(declare):
    driver = declare([*"abcd"], validate_hypotheses=True)
    driver.enter("gate", 1)
    recovered = RecoveredState(frozenset("abcd"), frozenset("b"), frozenset("acd"))
    restored = restore(driver, recovered)
    assert restored.session.survivors == {*"acd"}
    assert restored.session.snapshot()["active_obligation_id"] == "gate"


@pytest.mark.parametrize(
    ("eliminated", "universe"),
    [
        (frozenset(), UNIVERSE),
        (frozenset("abc"), UNIVERSE | {"late"}),
        (frozenset("abc"), UNIVERSE - {"f"}),
    ],
    ids=["lost tombstones", "a larger universe", "a smaller universe"],
)
def test_a_store_that_is_not_the_one_that_was_written_to_is_refused(lived, eliminated, universe):
    recovered = RecoveredState(universe, eliminated, universe - eliminated)
    error = refused(lived, recovered)
    assert error.code == "CONFLICT"
    assert error.details["hypotheses"]


def test_a_store_that_contradicts_itself_is_refused(lived):
    for survivors in (UNIVERSE, UNIVERSE - {*"abcd"}):
        recovered = RecoveredState(UNIVERSE, frozenset("abc"), survivors)
        assert refused(lived, recovered).code == "CONFLICT"
    outside = RecoveredState(UNIVERSE, frozenset("abcz"), frozenset("def"))
    assert refused(lived, outside).code == "CONFLICT"


def test_a_store_that_went_on_after_the_end_is_refused(lived):
    assert lived.session.terminated
    recovered = RecoveredState(UNIVERSE, frozenset("abcd"), frozenset("ef"))
    assert refused(lived, recovered).code == "CONFLICT"


def test_the_audit_of_another_session_and_no_audit_are_refused(lived, stored):
    assert refused(lived, stored, session_id="s-2").code == "CONFLICT"
    assert refused(lived, stored, events=[]).code == "INVALID_REQUEST"


def test_an_entry_whose_payload_was_changed_is_found(lived, stored):
    events = lived.stored()
    assert b'"observation_id":"o-2"' in events[6]
    events[6] = events[6].replace(b'"observation_id":"o-2"', b'"observation_id":"o-9"')
    with pytest.raises(CorruptBeliefEvent) as corrupt:
        restore(lived, stored, events=events)
    assert corrupt.value.index == 6
