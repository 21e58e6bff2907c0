import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.belief import survivors as survivors_module
from kernel.belief.errors import BeliefError
from kernel.belief.limits import MAX_HYPOTHESES
from kernel.belief.survivors import Survivors
from kernel.belief.universe import Universe

ids = st.text(min_size=1, max_size=8).filter(lambda text: text.isprintable())
universes = st.sets(ids, max_size=40)


def naive_hash(universe, survivors):
    """The survivors hash from its definition, bit by bit."""
    ordered = sorted(universe)
    text = json.dumps(ordered, ensure_ascii=False, separators=(",", ":"))
    bits = [1 if name in survivors else 0 for name in ordered]
    bits += [0] * (-len(bits) % 8)
    bitmap = bytes(
        sum(bit << place for place, bit in enumerate(bits[start : start + 8]))
        for start in range(0, len(bits), 8)
    )
    return hashlib.sha256(hashlib.sha256(text.encode()).digest() + bitmap).hexdigest()


@pytest.mark.spec("B2")
@given(universes, st.lists(st.sets(ids, max_size=10), max_size=6))
def test_the_survivors_hash_is_the_hash_of_universe_and_bitmap(universe, strikes):
    survivors, left = Survivors(Universe(universe)), set(universe)
    assert survivors.hash() == naive_hash(universe, left)
    for strike in strikes:
        assert survivors.strike(strike) == sorted(left & strike)
        left -= strike
        assert survivors.hash() == naive_hash(universe, left)
        assert survivors.ids() == sorted(left)
        assert len(survivors) == len(left)
        assert all((name in survivors) == (name in left) for name in universe | strike)


@given(universes, st.data())
def test_a_universe_struck_at_random_agrees_with_the_naive_hash(universe, data):
    struck = data.draw(st.sets(st.sampled_from(sorted(universe)))) if universe else set()
    survivors = Survivors(Universe(universe))
    survivors.strike(struck)
    assert survivors.hash() == naive_hash(universe, universe - struck)


def test_ids_are_sorted_by_code_point_not_by_utf16_unit():
    high, private = "\U0001f600", "\uff5e"
    assert Universe([high, private, "z", "Z"]).ids == ["Z", "z", private, high]


def test_the_first_id_is_the_lowest_bit_and_padding_is_zero():
    survivors = Survivors(Universe([*"abcdefghij"]))
    assert survivors.bitmap == b"\xff\x03"
    survivors.strike("a")
    assert survivors.bitmap == b"\xfe\x03"
    survivors.strike("i")
    assert survivors.bitmap == b"\xfe\x02"


def test_striking_again_or_striking_the_unknown_changes_nothing():
    survivors = Survivors(Universe([*"abc"]))
    survivors.strike(["a"])
    before = survivors.hash()
    assert survivors.strike(["a", "a", "zz"]) == []
    assert (survivors.hash(), len(survivors)) == (before, 2)


def test_an_id_named_twice_is_struck_once():
    survivors = Survivors(Universe([*"abc"]))
    assert survivors.strike(["b", "b", "a"]) == ["a", "b"]
    assert len(survivors) == 1


@pytest.mark.spec("B2")
@pytest.mark.parametrize("block", [1, 2, 3])
def test_the_hash_is_the_same_wherever_the_last_strike_was(monkeypatch, block):
    monkeypatch.setattr(survivors_module, "HASH_BLOCK_BYTES", block)

    @given(st.data())
    def strike_and_take_back(data):
        universe = {f"h{number:02d}" for number in range(data.draw(st.integers(0, 60)))}
        survivors, left = Survivors(Universe(universe)), set(universe)
        for names in data.draw(st.lists(st.sets(st.sampled_from([*sorted(universe), "x"])))):
            struck = survivors.strike(names)
            if data.draw(st.booleans()):
                assert survivors.hash() == naive_hash(universe, left - names)
            if data.draw(st.booleans()):
                survivors.take_back(struck)
            else:
                left -= names
            if data.draw(st.booleans()):
                assert survivors.hash() == naive_hash(universe, left)
        assert survivors.hash() == naive_hash(universe, left)
        assert (survivors.ids(), len(survivors)) == (sorted(left), len(left))

    strike_and_take_back()


def test_the_same_survivors_of_another_universe_hash_differently():
    small, large = Survivors(Universe([*"ab"])), Survivors(Universe([*"abc"]))
    large.strike("c")
    assert small.ids() == large.ids()
    assert small.hash() != large.hash()


def test_an_empty_universe_has_a_hash_and_no_bits():
    survivors = Survivors(Universe([]))
    assert (survivors.bitmap, survivors.ids(), len(survivors)) == (b"", [], 0)
    assert survivors.hash() == naive_hash(set(), set())


def test_a_universe_knows_the_places_of_its_ids():
    universe = Universe(["b", "a", "b"])
    assert (len(universe), universe.position("b"), universe.position("zz")) == (2, 1, None)
    universe_hash = hashlib.sha256(b'["a","b"]').digest()
    assert universe.hash_seed.digest() == hashlib.sha256(universe_hash).digest()


@pytest.mark.parametrize(
    "hypotheses",
    ["ab", [""], ["x" * 513], [7], [None], 7, ["\ud800"], b"ab"],
    ids=["bare text", "empty", "too long", "number", "null", "not a list", "surrogate", "bytes"],
)
def test_what_is_not_a_list_of_ids_is_refused(hypotheses):
    with pytest.raises(BeliefError) as refused:
        Universe(hypotheses)
    assert refused.value.code == "INVALID_REQUEST"


def test_the_longest_id_is_accepted():
    assert len(Universe(["x" * 512, "é" * 512])) == 2


def test_more_than_a_million_hypotheses_are_refused():
    with pytest.raises(BeliefError, match="at most 1000000"):
        Universe(str(number) for number in range(MAX_HYPOTHESES + 1))
