"""A byte turned over is a finding, or changes nothing that is read; never a traceback."""

import random

import pytest

from tests.tamper_bytes import Bytes, small_file

SAMPLE = 400


@pytest.mark.timeout(600)
def test_a_byte_turned_over_is_found_or_changes_nothing(tmp_path):
    turned = Bytes(small_file(tmp_path / "honest.db"), tmp_path)
    places = random.Random(12).sample(range(len(turned.content)), SAMPLE)
    header = [*range(100)]
    outcomes = {place: turned.outcome(place) for place in [*header, *places]}
    assert [place for place, outcome in outcomes.items() if outcome == "missed"] == []
    assert sum(outcome == "found" for outcome in outcomes.values()) > SAMPLE // 3
