"""A byte turned over is a finding, or changes nothing that is read; never a traceback."""

import json
import random

import pytest
from hypothesis import settings

from tests.tamper_bytes import Bytes, small_file
from tests.turned_bytes import RESULT, flipped_pages, outcomes

SAMPLE = settings().max_examples * 4
"""How many bytes beside those of the header, by the profile."""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_byte_turned_over_is_found_or_changes_nothing(tmp_path):
    turned = Bytes(small_file(tmp_path / "honest.db"), tmp_path)
    places = random.Random(12).sample(range(len(turned.content)), SAMPLE)
    header = [*range(100)]
    outcomes = {place: turned.outcome(place) for place in [*header, *places]}
    assert [place for place, outcome in outcomes.items() if outcome == "missed"] == []
    assert sum(outcome == "found" for outcome in outcomes.values()) > SAMPLE // 3


def test_what_the_readme_tells_of_flipped_bytes_adds_up():
    """Of the file as it was then: another schema makes other pages, and a run takes long."""
    kept = json.loads(RESULT.read_text())
    flipped, came = flipped_pages(kept), outcomes(kept)
    assert all(flipped[kind] <= count for kind, count in kept["pages"].items())
    assert came.total() == flipped.total() * kept["page_bytes"]
    assert not came["missed"]
