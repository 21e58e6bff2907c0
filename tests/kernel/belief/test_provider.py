"""What a provider says is taken whole or not at all."""

from collections.abc import Mapping
from typing import Any

import pytest

from kernel.belief.errors import BeliefInputError
from kernel.belief.provider import HypothesisProvider, eliminations_by
from tests.foreign_ends import ENDS, nobody_at_the_keyboard

NAMES = ("a", "b", "c", "d")


class TableProvider:
    """A provider whose answers are a table."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self._answers = answers

    def id(self) -> str:
        return "table"

    def version(self) -> str:
        return "1"

    def hypothesis_ids(self) -> tuple[str, ...]:
        return NAMES

    def probe_ids(self) -> list[str]:
        return list(self._answers)

    def apply_probe(self, probe_id: str, response: str) -> Any:
        del response
        return self._answers[probe_id]


def test_the_table_is_a_provider_and_less_is_not():
    assert isinstance(TableProvider({}), HypothesisProvider)
    assert not isinstance(object(), HypothesisProvider)


@pytest.mark.spec("seed 000 §1")
def test_a_probe_eliminates_what_is_true_and_what_is_left_out_stays():
    table = TableProvider({"p": {"b": False, "c": True, "a": True}})
    assert eliminations_by(table, frozenset(NAMES), "p", "x") == ["a", "c"]


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
    with pytest.raises(BeliefInputError) as caught:
        eliminations_by(TableProvider({"p": answer}), frozenset(NAMES), "p", "x")
    assert caught.value.code == code


@pytest.mark.parametrize("name", ENDS)
def test_however_a_provider_ends_it_is_an_exception_of_the_call(name: str):
    provider = TableProvider({})
    provider.apply_probe = ENDS[name]  # type: ignore[method-assign]
    with nobody_at_the_keyboard(), pytest.raises(Exception) as caught:  # noqa: PT011
        eliminations_by(provider, frozenset(NAMES), "p", "x")
    assert not isinstance(caught.value, BeliefInputError)
