import hashlib
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.belief.errors import BeliefError, CorruptBeliefEvent
from kernel.belief.events import BeliefEvent
from kernel.belief.session import BeliefSession
from kernel.values.canonical import canonicalize


def corrupt(stored, reason=""):
    """The index at which restoring stops."""
    with pytest.raises(CorruptBeliefEvent) as raised:
        BeliefSession.restore(stored)
    assert raised.value.code == "belief_event_corrupt"
    assert f"event {raised.value.index}: {reason}" in str(raised.value)
    return raised.value.index


def forge(stored, index, change):
    """The trail with one event changed and every later link and hash made right again."""
    forged, previous = list(stored), None
    for place in range(index, len(stored)):
        fields = BeliefEvent.from_bytes(stored[place]).to_dict()
        fields.pop("event_hash")
        if place == index:
            change(fields)
        else:
            fields["prev_event_hash"] = previous
        previous = hashlib.sha256(canonicalize(fields)).hexdigest()
        forged[place] = canonicalize(fields | {"event_hash": previous})
    return forged


@pytest.mark.spec("seed001-replayability")
def test_a_restored_session_is_the_session_that_was_stored(lived):
    twin = BeliefSession.restore(iter(lived.stored()))
    original = lived.session
    assert twin.snapshot() == original.snapshot()
    assert twin.audit() == original.audit()
    assert twin.head_event_hash == original.head_event_hash
    assert twin.survivors_hash == original.survivors_hash
    assert twin.core_state() == original.core_state()
    assert twin.take_snapshot(0) == original.take_snapshot(0)
    assert twin.terminated


def test_a_restored_session_goes_on_as_the_original_would(declare):
    driver = declare([*"abcd"], stability_window=1, metadata={"m": 1})
    first = driver.eliminate("o-1", ["a", "zz"])
    driver.enter("gate", 2)
    driver.eliminate("o-2", ["b"])
    twin = BeliefSession.restore(driver.stored())
    again = twin.eliminate("adapter://sre", "o-1", ["zz", "a"], {}, **driver.next())
    assert (again.applied, again.ignored, again.event_id) == (["a"], ["zz"], first.event_id)
    for session in (driver.session, twin):
        session.eliminate("x", "o-3", ["c"], {}, event_id="n-1", ts=driver.declared.ts)
        assert session.request_exit("gate", event_id="n-2", ts=driver.declared.ts).approved
        session.declare_conclusion("d", event_id="n-3", ts=driver.declared.ts)
        assert session.request_termination(event_id="n-4", ts=driver.declared.ts).approved
    assert twin.head_event_hash == driver.session.head_event_hash


@pytest.mark.parametrize("length", range(1, 12))
def test_every_prefix_of_a_trail_is_a_trail(lived, length):
    stored = lived.stored()
    assert BeliefSession.restore(stored[:length]).n_events == length


def test_no_events_are_no_session():
    with pytest.raises(BeliefError) as refused:
        BeliefSession.restore([])
    assert refused.value.code == "INVALID_REQUEST"


@pytest.mark.slow
@pytest.mark.spec("seed001-tamper-evidence")
def test_any_byte_flipped_in_any_event_is_found_at_that_event(lived):
    """Every fourth byte, another in each event; with HYPOTHESIS_PROFILE=nightly, every one."""
    step = 1 if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else 4
    stored = lived.stored()
    for index, original in enumerate(stored):
        for place in range(index % step, len(original), step):
            forged = bytearray(original)
            forged[place] ^= 1 << place % 8
            assert corrupt([*stored[:index], bytes(forged), *stored[index + 1 :]]) == index


@pytest.mark.spec("seed001-tamper-evidence")
@given(st.data())
def test_any_byte_replaced_by_any_other_is_found(declare, data):
    driver = declare([*"abc"])
    driver.eliminate("o-1", ["a"], why={"n": 0.5})
    driver.enter("gate", 0)
    driver.leave("gate")
    stored = driver.stored()
    index = data.draw(st.integers(0, len(stored) - 1))
    forged = bytearray(stored[index])
    place = data.draw(st.integers(0, len(forged) - 1))
    forged[place] = data.draw(st.integers(0, 255).filter(lambda value: value != forged[place]))
    stored[index] = bytes(forged)
    assert corrupt(stored) == index


@pytest.mark.parametrize("index", range(1, 11))
def test_an_event_missing_from_the_middle_is_found(lived, index):
    stored = lived.stored()
    del stored[index]
    assert len(stored) == 11
    assert corrupt(stored, "it does not follow the event before it") == index


def test_a_missing_first_event_is_found(lived):
    assert corrupt(lived.stored()[1:], "the first event does not declare a session") == 0


@pytest.mark.parametrize("index", range(11))
def test_an_event_given_twice_is_found(lived, index):
    stored = lived.stored()
    assert corrupt([*stored[: index + 1], *stored[index:]]) == index + 1


@pytest.mark.parametrize("index", range(1, 11))
def test_events_in_another_order_are_found(lived, index):
    stored = lived.stored()
    stored[index], stored[index + 1] = stored[index + 1], stored[index]
    assert corrupt(stored) == index


def test_an_event_of_another_session_is_found(declare):
    session, other = declare([*"abc"]), declare([*"abc"], session_id="s-2")
    for driver in (session, other):
        driver.eliminate("o", ["a"])
    stored = [session.stored()[0], other.stored()[1]]
    assert corrupt(stored, "it belongs to another session") == 1


def delta(*ids):
    return lambda fields: fields["delta"].update(eliminated=[*ids])


def payload(**changes):
    return lambda fields: fields["payload"].update(changes)


def field(**changes):
    return lambda fields: fields.update(changes)


@pytest.mark.spec("seed001-replayability")
@pytest.mark.parametrize(
    ("index", "change"),
    [
        (0, field(verb="ELIMINATE")),
        (0, payload(hypotheses=["b", "a"])),
        (0, payload(hypotheses="ab")),
        (0, payload(policy={"allow_force": True})),
        (0, payload(policy={"unknown": 1})),
        (0, payload(ontology={})),
        (0, payload(ontology=None)),
        (0, payload(metadata=None)),
        (0, payload(extra=1)),
        (0, field(prev_event_hash="1" * 64)),
        (0, field(ts="yesterday")),
        (1, delta()),
        (1, delta("a", "b")),
        (1, delta("unknown")),
        (1, payload(eliminated=["b"])),
        (1, payload(extra=1)),
        (1, payload(justification=None)),
        (1, field(survivors_before_hash="0" * 64)),
        (1, field(survivors_after_hash="0" * 64)),
        (1, field(event_id="e-0")),
        (1, field(event_id="")),
        (1, field(verb="DECLARE_SESSION")),
        (1, field(verb="REQUEST_EXIT")),
        (2, field(session_id="s-2")),
        (2, payload(min_total_eliminations=-1)),
        (3, payload(approved=True)),
        (3, payload(obligation_id="other")),
        (4, payload(accepted=True)),
        (5, payload(approved=True)),
        (5, payload(forced=True)),
        (6, payload(observation_id="o-1")),
        (6, delta("c", "b")),
        (7, payload(approved=False)),
        (9, payload(reason="approved")),
        (11, payload(forced=False)),
    ],
)
def test_a_forged_event_with_a_right_hash_is_found_by_replaying_it(lived, index, change):
    assert corrupt(forge(lived.stored(), index, change)) == index


def test_the_same_observation_twice_on_record_is_found(declare):
    driver = declare([*"abc"])
    driver.eliminate("o-1", ["zz"])
    driver.eliminate("o-2", ["zz"])
    assert corrupt(forge(driver.stored(), 2, payload(observation_id="o-1"))) == 2


def test_nothing_follows_a_termination(declare):
    driver = declare(["a"], allow_force=True)
    driver.conclude("x")
    driver.end()
    twin = declare(["a"], allow_force=True)
    twin.end()
    twin_stored = twin.stored()
    fields = driver.session.audit()[1].to_dict() | {
        "prev_event_hash": twin.session.head_event_hash,
        "event_id": "late",
    }
    del fields["event_hash"]
    fields["event_hash"] = hashlib.sha256(canonicalize(fields)).hexdigest()
    assert corrupt([*twin_stored, canonicalize(fields)]) == 2


def test_a_forged_trail_that_changes_only_what_is_opaque_needs_the_anchored_head(lived):
    forged = forge(lived.stored(), 1, payload(justification={"forged": True}))
    restored = BeliefSession.restore(forged)
    assert restored.head_event_hash != lived.session.head_event_hash
