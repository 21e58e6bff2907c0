"""The bundled sample shows a docket of each kind of court, and eliminations in each."""

import re

import pytest

from workers.dockets.plan import Strike, plan_docket
from workers.dockets.postures import posture_kind, universe
from workers.dockets.reader import Docket, read_dockets, sample_path


@pytest.fixture(scope="module")
def dockets() -> list[Docket]:
    read = list(read_dockets(sample_path().read_bytes().splitlines()))
    assert all(isinstance(docket, Docket) for docket in read)
    return [docket for docket in read if isinstance(docket, Docket)]


def test_the_sample_is_read_without_a_problem(dockets):
    assert [docket.court_kind for docket in dockets] == [
        "bankruptcy",
        "district",
        "appellate",
        "acms",
    ]
    assert [docket.problems for docket in dockets] == [()] * 4
    assert max(len(docket.entries) for docket in dockets) <= 40
    assert sum(len(docket.entries) for docket in dockets) == 104


def test_the_sample_ends_where_its_cases_ended(dockets):
    survivors = {}
    for docket in dockets:
        left = set(universe(posture_kind(docket)))
        for step in plan_docket(docket).steps():
            if isinstance(step, Strike):
                left -= set(step.eliminated)
        survivors[docket.court_kind] = left
    assert survivors["bankruptcy"] == {
        "ended_by_discharge",
        "ended_by_dismissal",
        "ended_by_transfer",
        "closed_without_discharge",
    }
    assert survivors["district"] == {"ended_by_settlement"}
    assert survivors["appellate"] == {"ended_by_affirmance"}
    assert survivors["acms"] == set(universe("acms")) - {"ended_by_affirmance"}


def test_the_sample_holds_no_way_to_reach_a_person():
    text = sample_path().read_text(encoding="utf-8")
    assert not re.search(r"[\w.]+@[\w.]+", text)
    assert not re.search(r"\(\d{3}\)\s*\d{3}|\b\d{3}-\d{3}-\d{4}\b", text)
    assert not re.search(r"\b(?:Street|Road|Avenue|Suite|P\.?O\.? Box)\b", text)
