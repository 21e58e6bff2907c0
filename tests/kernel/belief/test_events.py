import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.belief.errors import CorruptBeliefEvent
from kernel.belief.events import BeliefEvent
from kernel.belief.limits import check_opaque
from kernel.values.canonical import GENESIS_HASH, canonicalize

scalars = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=6)
floats = st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    scalars | floats,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)
objects = st.dictionaries(st.text(max_size=4), values, max_size=4)


def seal(**changes):
    fields = {
        "event_id": "e",
        "session_id": "s",
        "ts": "2026-02-09T10:00:00.000000Z",
        "verb": "ELIMINATE",
        "payload": {},
        "delta": {"eliminated": ["a"]},
        "survivors_before_hash": "1" * 64,
        "survivors_after_hash": "2" * 64,
        "prev_event_hash": GENESIS_HASH,
    }
    return BeliefEvent.seal(**(fields | changes))


def rewritten(event, **changes):
    """The bytes of a forged event whose own hash is right."""
    fields = event.to_dict() | changes
    fields.pop("event_hash")
    fields["event_hash"] = hashlib.sha256(canonicalize(fields)).hexdigest()
    return canonicalize(fields)


@pytest.mark.spec("seed001-canonical-json")
@given(objects)
def test_the_hash_is_over_the_canonical_json_of_every_other_field(payload):
    event = seal(payload=payload)
    fields = event.to_dict()
    assert canonicalize(fields) == event.to_bytes()
    assert fields.pop("event_hash") == event.event_hash
    assert hashlib.sha256(canonicalize(fields)).hexdigest() == event.event_hash
    assert set(fields) == {
        "session_id",
        "event_id",
        "ts",
        "verb",
        "payload",
        "delta",
        "survivors_before_hash",
        "survivors_after_hash",
        "prev_event_hash",
    }


@given(objects)
def test_what_was_stored_reads_back_as_the_same_event(payload):
    event = seal(payload=check_opaque("payload", payload))
    again = BeliefEvent.from_bytes(event.to_bytes())
    assert again == event
    assert again.to_bytes() == event.to_bytes()


def test_any_flipped_bit_of_an_event_is_found():
    stored = seal(payload={"n": 1e20, "s": "é", "l": [True, None, 0.5]}).to_bytes()
    for place in range(len(stored)):
        for bit in range(8):
            forged = bytearray(stored)
            forged[place] ^= 1 << bit
            with pytest.raises(CorruptBeliefEvent) as corrupt:
                BeliefEvent.from_bytes(bytes(forged))
            assert corrupt.value.code == "belief_event_corrupt"


@pytest.mark.parametrize(
    "damage",
    [
        lambda stored: stored[:-1],
        lambda stored: stored + b" ",
        lambda stored: b" " + stored,
        lambda stored: stored.replace(b'"ts"', b' "ts"'),
        lambda stored: stored[:-1] + b',"verb":"ELIMINATE"}',
        lambda stored: json.dumps(json.loads(stored)).encode(),
        lambda _: b"",
        lambda _: b"null",
        lambda _: b"[]",
        lambda _: b"\xff",
        lambda _: b"[" * 100_000,
        lambda _: b'{"a":' + b"9" * 5000 + b"}",
    ],
)
def test_bytes_that_are_not_the_stored_ones_are_corrupt(damage):
    with pytest.raises(CorruptBeliefEvent):
        BeliefEvent.from_bytes(damage(seal().to_bytes()))


@pytest.mark.parametrize(
    "changes",
    [
        {"ts": 1770631200.0},
        {"event_id": 7},
        {"payload": []},
        {"delta": {}},
        {"delta": {"eliminated": "a"}},
        {"delta": {"eliminated": [1]}},
        {"delta": {"eliminated": [], "restored": []}},
        {"verb": "RESURRECT"},
        {"prev_event_hash": ""},
        {"survivors_before_hash": "A" * 64},
        {"notes": "an unknown field"},
    ],
)
def test_an_event_of_the_wrong_shape_is_corrupt_even_if_its_hash_is_right(changes):
    with pytest.raises(CorruptBeliefEvent):
        BeliefEvent.from_bytes(rewritten(seal(), **changes))


def test_a_changed_field_is_told_from_bytes_that_are_not_canonical():
    stored = seal().to_bytes()
    with pytest.raises(CorruptBeliefEvent, match="its hash is not the hash of its content"):
        BeliefEvent.from_bytes(stored.replace(b'"e"', b'"f"'))
    with pytest.raises(CorruptBeliefEvent, match="its bytes are not canonical"):
        BeliefEvent.from_bytes(stored + b"\n")


def test_every_field_changes_the_hash():
    changes = {
        "event_id": "x",
        "session_id": "x",
        "ts": "x",
        "verb": "REQUEST_EXIT",
        "payload": {"x": 1},
        "delta": {"eliminated": []},
        "survivors_before_hash": "x",
        "survivors_after_hash": "x",
        "prev_event_hash": "x",
    }
    hashes = {seal(**{name: value}).event_hash for name, value in changes.items()}
    assert len(hashes | {seal().event_hash}) == len(changes) + 1


def test_an_event_cannot_be_altered():
    with pytest.raises(AttributeError):
        seal().verb = "REQUEST_EXIT"
