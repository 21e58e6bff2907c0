"""What is done in steps comes to what one call comes to."""

import random

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.belief import id_lists
from kernel.belief.errors import BeliefError
from kernel.belief.id_lists import (
    are_equal,
    buckets,
    canonical_object,
    canonical_texts,
    in_steps,
    let_go,
    sort_unique,
)
from kernel.belief.session import BeliefSession
from kernel.belief.survivors import Survivors
from kernel.belief.terms import OntologyBundle
from kernel.belief.universe import Universe
from kernel.values.canonical import CanonicalizationError, canonicalize

IDS = st.lists(st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=3))
STAMP = {"event_id": "e-1", "ts": "2026-01-01T00:00:00.000000Z"}


@pytest.fixture(scope="module", autouse=True)
def _short_steps():
    """So short that a few ids are a long list, and one step is not enough."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(id_lists, "STEP_IDS", 3)
        patch.setattr(id_lists, "SAMPLED_OF", 2)
        yield


@given(IDS)
def test_ids_in_order_are_what_sorting_them_gives(ids):
    assert sort_unique(ids) == sorted(set(ids))
    assert [id_ for some in in_steps(ids) for id_ in some] == ids


@given(IDS, IDS)
def test_lists_are_equal_where_one_call_says_so(first, second):
    assert are_equal(first, second) == (first == second)
    assert are_equal(tuple(first), [*first])


@given(IDS)
def test_a_list_that_is_let_go_is_empty(ids):
    let_go(ids)
    assert ids == []


@given(IDS, IDS)
def test_a_universe_knows_what_it_is_of(ids, others):
    assert Universe(ids).is_of([*reversed(ids), *ids])
    assert Universe(ids).is_of(others) == (set(ids) == set(others))


@pytest.mark.parametrize("others", [["a", 1], ["a", ""], [["a"]], ["\ud800"]])
def test_what_is_no_list_of_ids_is_refused_before_it_is_compared(others):
    with pytest.raises(BeliefError) as refused:
        Universe(["a"]).is_of(others)
    assert refused.value.code == "INVALID_REQUEST"


def test_a_session_that_is_released_holds_no_id():
    session, _ = BeliefSession.declare(
        "s", OntologyBundle("a", "b", "c", "d"), [*"abcdefgh"], **STAMP
    )
    session.eliminate("s", "o", ["a", "b"], event_id="e-2", ts=STAMP["ts"])
    session.release()
    assert (len(session.universe), session.survives("c")) == (0, False)
    assert len(session.audit()) == 2


def test_a_hundred_thousand_ids_of_any_order_are_sorted(monkeypatch):
    monkeypatch.setattr(id_lists, "STEP_IDS", 10_000)
    monkeypatch.setattr(id_lists, "SAMPLED_OF", 256)
    ids = [f"{number % 70_000:05d}" for number in range(100_000)]
    random.Random(1).shuffle(ids)
    assert sort_unique(ids) == sorted(set(ids))
    assert sort_unique(["a"] * 50_000) == ["a"]
    assert max(map(len, buckets(ids))) < 50_000


@given(IDS, st.dictionaries(st.sampled_from("abc"), IDS | st.integers(-9, 9) | st.floats(0, 1)))
def test_bytes_are_those_of_one_call(ids, others):
    assert canonical_texts(ids) == canonicalize(ids)
    for document in ({"ids": ids}, {"z": {"ids": ids, **others}, **others}, others):
        assert canonical_object(document) == canonicalize(document)


def test_what_has_no_canonical_form_is_refused_in_a_long_list_too():
    for value in (["a", "b", "c", "\ud800"], ["a", "b", "c", float("nan")]):
        with pytest.raises(CanonicalizationError):
            canonical_object({"ids": value})
    assert canonical_object({"ids": ["a", 1, None, 2.0]}) == b'{"ids":["a",1,null,2]}'


@given(IDS, IDS)
def test_an_elimination_of_many_answers_as_one_of_few(universe, claimed):
    session, _ = BeliefSession.declare("s", OntologyBundle("a", "b", "c", "d"), universe, **STAMP)
    result = session.eliminate("x", "y", claimed, **STAMP | {"event_id": "e-2"})
    assert result.applied == sorted(set(universe) & set(claimed))
    assert result.ignored == sorted(set(claimed) - set(universe))
    again = session.eliminate("x", "y", list(reversed(claimed)), **STAMP | {"event_id": "e-3"})
    assert (again.applied, again.ignored) == (result.applied, result.ignored)
    events = [event.to_bytes() for event in session.audit()]
    assert orjson.loads(events[0])["payload"]["hypotheses"] == sorted(set(universe))
    assert BeliefSession.restore(events).survivors_hash == session.survivors_hash


def test_survivors_are_listed_over_several_stretches():
    ids = [f"{number:05d}" for number in range(40_000)]
    survivors = Survivors(Universe(ids))
    assert survivors.ids() == ids
    assert survivors.strike(reversed(ids[5_000:25_000])) == ids[5_000:25_000]
    assert survivors.ids() == ids[:5_000] + ids[25_000:]
