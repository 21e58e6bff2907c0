"""What a provider says takes effect whole or not at all."""

import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.belief.errors import BeliefInputError
from kernel.belief.provider import BeliefState, HypothesisProvider

NAMES = ("a", "b", "c", "d")


class Table:
    """A provider whose answers are a table."""

    def __init__(self, answers: Mapping[str, Any], hypotheses: tuple[str, ...] = NAMES) -> None:
        self._answers = answers
        self._hypotheses = hypotheses

    def id(self) -> str:
        return "table"

    def version(self) -> str:
        return "1"

    def hypothesis_ids(self) -> tuple[str, ...]:
        return self._hypotheses

    def probe_ids(self) -> list[str]:
        return list(self._answers)

    def apply_probe(self, probe_id: str, response: str) -> Any:
        del response
        return self._answers[probe_id]


def test_the_table_is_a_provider_and_less_is_not():
    assert isinstance(Table({}), HypothesisProvider)
    assert not isinstance(object(), HypothesisProvider)


@pytest.mark.spec("seed 000 §1")
def test_a_probe_eliminates_what_is_true_and_what_is_left_out_stays():
    state = BeliefState(Table({"p": {"a": True, "b": False}, "q": {"a": True, "c": True}}))
    assert state.apply_probe("p", "x") == {"a"}
    assert state.survivors == {"b", "c", "d"}
    assert state.apply_probe("q", "x") == {"c"}
    assert state.active_map() == {"a": False, "b": True, "c": False, "d": True}
    assert state.remaining_mass() == 0.5
    assert state.remaining_entropy() == 1.0
    assert not state.is_singleton()


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"a": True, "b": True, "z": True}, "provider_hypothesis_unknown"),
        ({"a": True, "z": False}, "provider_hypothesis_unknown"),
        ({"a": True, "b": "yes"}, "provider_answer_invalid"),
        ({"a": True, 3: True}, "provider_answer_invalid"),
        (["a"], "provider_answer_invalid"),
        (None, "provider_answer_invalid"),
    ],
)
def test_an_answer_that_does_not_fit_changes_nothing(answer, code):
    state = BeliefState(Table({"p": answer}))
    with pytest.raises(BeliefInputError) as caught:
        state.apply_probe("p", "x")
    assert caught.value.code == code
    assert state.survivors == set(NAMES)


def test_what_is_read_is_a_copy():
    state = BeliefState(Table({}))
    state.survivors.clear()
    state.active_map().clear()
    assert state.survivors == set(NAMES)


@pytest.mark.parametrize(
    ("hypotheses", "mass", "singleton", "empty"),
    [((), 0.0, False, True), (("a",), 1.0, True, False), (NAMES, 1.0, False, False)],
)
@pytest.mark.spec("INV-5a")
def test_the_measures_at_their_ends(hypotheses, mass, singleton, empty):
    state = BeliefState(Table({}, hypotheses))
    assert state.remaining_mass() == mass
    assert (state.is_singleton(), state.is_empty()) == (singleton, empty)
    assert state.remaining_entropy() == (math.log2(len(hypotheses)) if len(hypotheses) > 1 else 0)


@given(st.lists(st.dictionaries(st.sampled_from([*NAMES, "z"]), st.booleans()), max_size=8))
def test_survivors_only_shrink_and_each_probe_is_all_or_nothing(answers):
    table = {str(number): answer for number, answer in enumerate(answers)}
    state = BeliefState(Table(table))
    for name, answer in table.items():
        before = state.survivors
        if "z" in answer:
            with pytest.raises(BeliefInputError):
                state.apply_probe(name, "x")
            assert state.survivors == before
        else:
            struck = {one for one, out in answer.items() if out}
            assert state.apply_probe(name, "x") == before & struck
            assert state.survivors == before - struck
