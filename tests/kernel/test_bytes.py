"""A byte turned over is a finding, or changes nothing that is read; never a traceback."""

import json
import random
from collections import Counter

import pytest

from tests.tamper_bytes import PAGE_BYTES, Bytes, kinds_of, small_file
from tests.turned_bytes import RESULT, flipped_pages, outcomes

SAMPLE = 400


@pytest.mark.timeout(600)
def test_a_byte_turned_over_is_found_or_changes_nothing(tmp_path):
    turned = Bytes(small_file(tmp_path / "honest.db"), tmp_path)
    places = random.Random(12).sample(range(len(turned.content)), SAMPLE)
    header = [*range(100)]
    outcomes = {place: turned.outcome(place) for place in [*header, *places]}
    assert [place for place, outcome in outcomes.items() if outcome == "missed"] == []
    assert sum(outcome == "found" for outcome in outcomes.values()) > SAMPLE // 3


def test_what_is_told_of_every_byte_is_of_the_file_as_it_is_written_today(tmp_path):
    content = small_file(tmp_path / "honest.db").read_bytes()
    kept = json.loads(RESULT.read_text())
    assert kept["pages"] == Counter(kinds_of(content)), "make tamper ARGS=--bytes"
    flipped, came = flipped_pages(kept), outcomes(kept)
    assert all(flipped[kind] <= count for kind, count in kept["pages"].items())
    assert came.total() == flipped.total() * PAGE_BYTES
    assert not came["missed"]
