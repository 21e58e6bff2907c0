"""What the documents promise of bounds and times stands in a table with its constant and test."""

from pathlib import PurePosixPath

import pytest

from tests.promises import (
    Promise,
    documents,
    figures_that_promise_nothing,
    promises,
    quantities,
    settings,
    text_of,
    uncovered,
    value_of,
)
from tests.rulings import is_test
from workers.environment.settings import settings_table


def is_collected(test: str) -> bool:
    file, _, name = test.partition("::")
    return (
        PurePosixPath(file).name.startswith("test_") and name.startswith("test_") and is_test(test)
    )


@pytest.mark.parametrize("promise", promises(), ids=lambda promise: promise.words)
def test_a_promise_stands_where_the_table_says_and_is_proved(promise: Promise):
    assert promise.words in text_of(promise.document)
    assert is_collected(promise.test), promise.test
    assert quantities(promise.words) or "`" in promise.words, "the words hold no figure"


@pytest.mark.parametrize(
    "promise", [promise for promise in promises() if promise.constants], ids=lambda p: p.words
)
def test_a_constant_has_the_value_that_is_promised(promise: Promise):
    for constants in promise.constants.split(", "):
        assert value_of(constants) in quantities(promise.words), constants


def test_every_setting_with_a_number_is_proved():
    numbers = {name: default for name, default, _ in settings_table() if default.isdigit()}
    assert {name: default for name, (default, _) in settings().items()} == numbers
    for name, (_, test) in settings().items():
        assert is_collected(test), name


@pytest.mark.parametrize("document", documents())
def test_a_figure_of_a_document_is_promised_or_said_to_promise_nothing(document: str):
    held = [promise.words for promise in promises() if promise.document == document]
    held += [words for words, where in figures_that_promise_nothing() if where == document]
    assert list(uncovered(document, held)) == []


def test_no_words_stand_in_the_table_that_nobody_wrote():
    for words, document in figures_that_promise_nothing():
        assert words in text_of(document), words


@pytest.mark.parametrize(
    ("words", "figures"),
    [
        ("within three seconds", {3}),
        ("64 KiB, 10^9 and 1,024", {65_536, 10**9, 1024}),
        ("seven days, 5 min, 250 ms, an hour", {604_800, 300, 0.25, 3600}),
        ("2.5 MB at most", {2_500_000}),
    ],
)
def test_figures_are_read_as_they_are_written(words: str, figures: set[float]):
    assert quantities(words) == figures


def test_a_new_promise_without_a_row_is_seen(monkeypatch):
    monkeypatch.setattr("tests.promises.text_of", lambda _: "Waits 9 s at most. Fine.")
    assert list(uncovered("README.md", [])) != []
    assert list(uncovered("README.md", ["Waits 9 s at most"])) == []
