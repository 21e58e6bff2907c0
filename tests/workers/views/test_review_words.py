"""What waits for a person has the words that it was read from, marked where they stand."""

import pytest

from kernel.audit.open_reviews import REVIEW_KINDS, count_open_reviews, open_reviews
from kernel.audit.review_words import BEFORE_MARK_CHARS, PASSAGE_CHARS_MAX, merge_stretches
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.store.memory import MemoryStore
from kernel.ledger.store.tables import TableQuery
from tests.actors.intents import put, source
from tests.evidence import UNSIGNED, candidate, observation, with_filings
from tests.kernel.build import FakeHost, accept, taking
from tests.kernel.every import own
from tests.kernel.quarantining import quarantined
from workers.views.reviews import caption_of, facts_of, pieces_of, reader_text, reason_of

# Characters outside the basic plane and a combining one: offsets count code points.
WORDS = "🙂rder 📜 é: the motion is <b>GRANTED</b> & closed."
LONG = "x" * 3000 + " DENIED " + "y" * 3000


@pytest.fixture
def ledger() -> Ledger:
    ledger = with_filings(Ledger.create(MemoryStore(), FakeHost().host))
    put(ledger, source("words", WORDS), source("long", LONG))
    return ledger


def spans(ref: str, text: str, *words: str) -> list[dict[str, object]]:
    return [{"source_ref": ref, "offset": text.index(word), "length": len(word)} for word in words]


def only(ledger: Ledger, kind="observation"):
    with ledger.view() as view:
        [item] = open_reviews(view, kind).items
    return item


def marked(passage) -> list[str]:
    return [piece.text for piece in pieces_of(passage) if piece.is_marked]


@pytest.mark.spec("§13.6")
def test_marks_stand_at_their_offsets_in_characters(ledger: Ledger) -> None:
    named = spans("words", WORDS, "📜", "GRANTED", "ANTED</b>")
    accept(ledger, observation(ledger, "o", "words", source_refs=None, source_spans=named))
    item = only(ledger)
    [passage] = item["passages"]
    assert marked(passage) == ["📜", "GRANTED</b>"]
    assert "".join(piece.text for piece in pieces_of(passage)) == WORDS
    assert caption_of(passage) == "read from: words, all of it"
    assert dict(facts_of(item))["disposition"] == "granted"
    assert reason_of(item) == "nobody stated how sure it is"
    assert reader_text(item["read_by"]).startswith("the user; rules ")


def test_of_a_long_source_the_part_with_the_first_mark_is_shown(ledger: Ledger) -> None:
    named = spans("long", LONG, "DENIED", "y")
    accept(ledger, observation(ledger, "o", "long", source_refs=None, source_spans=named))
    [passage] = only(ledger)["passages"]
    assert marked(passage) == ["DENIED", "y"]
    assert (len(passage["text"]), passage["source_chars"]) == (PASSAGE_CHARS_MAX, len(LONG))
    offset = LONG.index("DENIED") - BEFORE_MARK_CHARS
    assert f"characters {offset} to {offset + PASSAGE_CHARS_MAX}" in caption_of(passage)


def test_a_relationship_shows_the_words_of_both_filings(ledger: Ledger) -> None:
    accept(ledger, own("filing_unit_write", "of-draft", **filed("draft")))
    accept(ledger, own("filing_unit_write", "of-order", **filed("order")))
    ends = {"source_filing_unit_id": "of-order", "target_filing_unit_id": "of-draft"}
    accept(ledger, candidate(ledger, "r", "order", **ends))
    passages = only(ledger, "relationship")["passages"]
    assert [(each["source_ref"], each["roles"]) for each in passages] == [
        ("order", ["the filing"]),
        ("draft", ["the filing that it is about"]),
    ]
    assert passages[1]["text"] == UNSIGNED


def filed(document: str) -> dict[str, str]:
    return {
        "document_ref": document,
        "filing_date_utc": "2026-02-09T12:00:00Z",
        "filing_date_originating_tz": "Etc/Unknown",
        "filing_date_originating_calendar_date": "2026-02-09",
    }


@pytest.mark.spec("§17.5")
def test_words_that_nobody_may_read_from_are_said_to_be_withheld(ledger: Ledger) -> None:
    named = spans("words", WORDS, "GRANTED")
    accept(ledger, observation(ledger, "o", "words", source_refs=None, source_spans=named))
    accept(ledger, taking("soft_delete", "words"))
    [passage] = only(ledger)["passages"]
    assert (passage["text"], passage["marks_elsewhere"]) == (None, 1)
    assert passage["withheld"] == "the source is soft_deleted"
    with ledger.view() as view:
        row = view.log_row_of(view.node("words")["updated_by_operation_id"])
    quarantined(ledger, row["ec_sequence_number"])
    [passage] = only(ledger)["passages"]
    assert passage["withheld"] == "the row of the log that wrote it is quarantined"
    assert [item["kind"] for item in [only(ledger, "quarantine")]] == ["quarantine"]


def test_what_waits_is_counted_as_the_tables_have_it(ledger: Ledger) -> None:
    accept(ledger, observation(ledger), candidate(ledger))
    with ledger.view() as view:
        counts = count_open_reviews(view)
        assert counts.keys() == {*REVIEW_KINDS, "counted_max"}
        members = view.tables.scan(TableQuery(schema.corpus_membership_records))
        waiting = [row for row in members if b'"state":"candidate"' in row["record"]]
        assert len(waiting) == len(open_reviews(view, "membership").items) == counts["membership"]
        assert counts["membership"] > 0
        assert (counts["relationship"], counts["observation"]) == (1, 1)
        first = open_reviews(view, "membership", limit=1)
        rest = open_reviews(view, "membership", after=first.next_after)
        assert len(first.items + rest.items) == counts["membership"]


def test_stretches_that_overlap_or_touch_are_one_mark() -> None:
    assert merge_stretches(iter([(5, 9), (0, 2), (2, 4), (6, 7)])) == [(0, 4), (5, 9)]
