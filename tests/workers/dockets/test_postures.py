"""The rules strike what an entry justifies, and nothing else."""

import re
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import dockets_doc
from tests.workers.dockets.dockets_for_tests import entry_saying, raw_docket, read_one
from tests.workers.dockets.read_entries import READ
from tests.workers.dockets.rule_examples import EXAMPLES
from workers.dockets.postures import (
    GENERIC_KIND,
    GENERIC_POSTURES,
    RULES,
    UNIVERSES,
    eliminations,
    posture_kind,
    universe,
)

BY_NAME = {rule.name: rule for rule in RULES}
WORDS = sorted({word for reads, _ in EXAMPLES.values() for text in reads for word in text.split()})
TEXTS = st.one_of(
    st.text(min_size=1, max_size=200),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=25).map(" ".join),
    st.sampled_from([text for reads, _ in EXAMPLES.values() for text in reads]),
).filter(str.strip)


def rules_that_read(text: str, kind: str) -> set[str]:
    return {elimination.rule for elimination in eliminations(entry_saying(text), kind)}


def test_every_rule_has_a_name_of_its_own_and_examples():
    assert len(BY_NAME) == len(RULES)
    assert set(EXAMPLES) == set(BY_NAME)
    assert all(reads and leaves for reads, leaves in EXAMPLES.values())


def test_a_rule_reads_its_texts_in_each_of_its_courts():
    for name in EXAMPLES:
        for kind in BY_NAME[name].court_kinds:
            for text in EXAMPLES[name][0]:
                assert name in rules_that_read(text, kind), text


def test_a_rule_leaves_the_texts_alone_that_only_look_alike():
    for name in EXAMPLES:
        for kind in BY_NAME[name].court_kinds:
            for text in EXAMPLES[name][1]:
                assert name not in rules_that_read(text, kind), text


def test_a_rule_is_silent_in_courts_that_are_not_its_own():
    for name in EXAMPLES:
        for kind in set(UNIVERSES) - set(BY_NAME[name].court_kinds):
            for text in EXAMPLES[name][0]:
                assert name not in rules_that_read(text, kind), text


@pytest.mark.parametrize(("kind", "text", "rules"), READ, ids=range(len(READ)))
def test_what_a_reader_found_in_a_real_entry_is_what_the_rules_find(kind, text, rules):
    assert rules_that_read(text, kind) == rules


@pytest.mark.parametrize(
    "frame",
    [
        "ENTERED IN ERROR {}",
        "Motion for entry of: {}",
        "Notice of Hearing on {}",
        "BNC Certificate of Mailing - {}",
        "Notice of Lodging Proposed Order: {}",
        "{} PLEASE DISREGARD.",
    ],
)
def test_a_text_that_merely_mentions_an_act_strikes_nothing(frame):
    for name in EXAMPLES:
        for kind in BY_NAME[name].court_kinds:
            for text in EXAMPLES[name][0]:
                assert rules_that_read(frame.format(text), kind) == set(), text


def test_a_rule_strikes_some_of_the_postures_of_its_courts_and_never_all():
    for rule in RULES:
        assert rule.strikes
        assert len(set(rule.strikes)) == len(rule.strikes)
        assert rule.reason.endswith(".")
        assert rule.court_kinds
        for kind in rule.court_kinds:
            assert set(rule.strikes) < set(universe(kind))


@pytest.mark.parametrize("kind", sorted(set(UNIVERSES) - {GENERIC_KIND}))
def test_every_posture_of_a_known_court_can_be_struck(kind):
    struck = {p for rule in RULES if kind in rule.court_kinds for p in rule.strikes}
    assert struck == set(universe(kind))
    assert len(set(universe(kind))) == len(universe(kind))


def test_the_readme_is_what_the_tables_say():
    written = (files("workers.dockets") / "REFERENCE.md").read_text(encoding="utf-8")
    assert written == dockets_doc.text(), "make dockets"


def test_an_unknown_court_has_the_generic_postures():
    assert universe("admiralty") == GENERIC_POSTURES
    assert [
        elimination.rule for elimination in eliminations(entry_saying("Case closed."), "admiralty")
    ] == ["generic_case_closed"]


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({}, "bankruptcy"),
        ({"case_name": "Widgets, Inc. - Adversary Proceeding"}, "bankruptcy-adversary"),
        ({"docket_number": "2:19-ap-00294"}, "bankruptcy-adversary"),
        ({"court_kind": "district", "court_id": "tstd", "docket_number": "1:19-cv-1"}, "district"),
        (
            {"court_kind": "district", "court_id": "tstd", "docket_number": "3:19-cr-00331"},
            "district-criminal",
        ),
        (
            {"court_kind": "district", "court_id": "tstd", "docket_number": "2:18-mj-00137"},
            "district-criminal",
        ),
        (
            {"court_kind": "district", "court_id": "tstb", "docket_number": "17-80033"},
            "bankruptcy",
        ),
        ({"court_kind": "appellate"}, "appellate"),
        ({"court_kind": "acms"}, "acms"),
        ({"court_kind": "admiralty"}, GENERIC_KIND),
        # A flavour is no kind of court: only a docket's own marks lead to it.
        ({"court_kind": "tribal", "docket_number": "3:19-cr-1"}, GENERIC_KIND),
    ],
)
def test_the_postures_of_a_docket_follow_its_court_number_and_caption(fields, kind):
    assert posture_kind(read_one(raw_docket(**fields))) == kind


@given(TEXTS, st.sampled_from(sorted(UNIVERSES)))
def test_eliminations_stay_within_the_universe_and_point_at_the_words_they_read(text, kind):
    entry = entry_saying(text)
    for elimination in eliminations(entry, kind):
        assert set(elimination.strikes) <= set(universe(kind))
        rule = BY_NAME[elimination.rule]
        match = rule.pattern.search(entry.description)
        assert match is not None
        assert elimination.span.of(entry.description) == match["act"] != ""


@pytest.mark.parametrize(
    "piece",
    [
        *("&", "*", "/", "(", "- ", "and & ", "order ", "a ", "Count(s) 1 dismissed "),
        *("first amended ", "amended  ", "chapter 7 - ", "notice of ", "schedule a, "),
        *("declaration re: electronic filing ", "debtor-in-possession ", "monthly "),
    ],
)
def test_a_long_text_of_one_word_is_read_without_going_astray(piece):
    text = (piece * 70_000)[:60_000]
    entry = entry_saying(text + "x")
    for kind in UNIVERSES:
        assert {elimination.rule for elimination in eliminations(entry, kind)} <= set(BY_NAME)


def test_white_space_of_any_kind_parts_the_words_of_a_rule():
    text = re.sub(" ", "\u00a0\n", "ORDER Dismissing Case Debtor.")
    assert rules_that_read(text, "bankruptcy") == {"case_dismissed"}
