"""What the deterministic extractor reads from the text of an entry."""

import re
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.model.extraction_result import check_extraction
from workers.dockets.fields import FIELDS, VALUES_OF_A_FIELD_MAX, extract_fields
from workers.dockets.reader import read_dockets, sample_path
from workers.dockets.references import CUES, REFERENCES_MAX, references
from workers.dockets.relationships import RelationshipIndex


def values(text: str, field: str) -> list[tuple[str, str | None]]:
    result = extract_fields(text)
    check_extraction(result, text)
    return [(value.value, value.role) for value in result.values if value.field == field]


@pytest.mark.parametrize(
    ("text", "parties"),
    [
        (
            "Motion filed by A. B. COOK of COOK PLLC on behalf of C. HEREDIA, R C HEREDIA. (COOK)",
            [
                ("A. B. COOK", "attorney"),
                ("C. HEREDIA", "represented"),
                ("R C HEREDIA", "represented"),
            ],
        ),
        (
            "Objection Filed by Creditor Widgets Bank, N.A. (related document(s)5).",
            [("Widgets Bank, N.A.", "creditor")],
        ),
        (
            "MOTION to Compel by ACME, INC., BOLT LLC as to C. D. (1)",
            [("ACME, INC.", "filer"), ("BOLT LLC", "filer"), ("C. D.", "subject")],
        ),
        ("Order Granting Motion. Signed by Judge A. B.", []),
        # Who filed what is referred to is no party of this entry.
        (
            "Hearing Set (RE: related document(s) 19 Motion for Relief filed by Creditor C D)",
            [],
        ),
        (
            "NOTICE OF APPEARANCE by A. B. for Respondent C. D. [Entered: 1/1/2020]",
            [("A. B.", "filer"), ("C. D.", "respondent")],
        ),
        (
            "Notice filed by A. F. Newell of Cook & Dale, P.C. on behalf of E BUILDING, INC..",
            [("A. F. Newell", "attorney"), ("E BUILDING, INC.", "represented")],
        ),
        ("Notice by Pro Hac Vice A. B. Watt to receive notices", [("A. B. Watt", "pro hac vice")]),
        # A name that goes on beyond what is read is none.
        (
            f"Motion filed by {', '.join(f'Insurer {letter * 60} Co' for letter in 'ABCDEFGHIJ')}",
            [(f"Insurer {letter * 60} Co", "filer") for letter in "ABCDEFGH"],
        ),
    ],
)
def test_parties_are_who_files_who_is_filed_for_and_whom_it_is_about(text, parties):
    assert values(text, "party") == parties


@pytest.mark.parametrize(
    ("text", "judges"),
    [
        (
            "ORDER granting 5 Motion. Signed by Magistrate Judge Jo R. Almo on 1/1/24",
            ["Jo R. Almo"],
        ),
        ("Hearing - Courtroom 3-C - Judge Lipp. Objections due", ["Lipp"]),
        ("The case judge is Theo Alb (Ngo, K)", ["Theo Alb"]),
        ("Forwarded to Chambers for Judge's Signature", []),
        ("Minutes held before Judge Ann Bee Court Reporter: C. D.", ["Ann Bee"]),
    ],
)
def test_judges_are_named_after_their_title(text, judges):
    assert [name for name, _ in values(text, "judge")] == judges


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("Order Granting Motion (Related Doc # 30 ).", ["30"]),
        ("Reply (related document(s)31, 29) filed by A", ["31", "29"]),
        (
            "Hearing (RE: related document(s) 4 Motion to Dismiss (150.00 fee), 7 Notice of A)",
            ["4", "7"],
        ),
        ("ORDER denying as moot 139 Motion to Amend as to A", ["139"]),
        ("Order granting motion to extend by 9-days [48], resetting", ["48"]),
        ("OPPOSITION to MOTION to Dismiss Case 30 filed by A", ["30"]),
        ("Objection to (246 Disclosure Statement filed by A)", ["246"]),
        (
            "Motion Hearing held. 7 Motion for Leave - Granted; denying 21 Motion to Dismiss",
            ["7", "21"],
        ),
        ("motion to seal (Filing No. 50 ) is granted", ["50"]),
        # What is no document of the docket.
        ("Chapter 11 Plan", []),
        ("RE: 2415 ALTA VISTA ROAD WEST", []),
        ("(Attachments: # 1 Exhibit A # 2 Order)", []),
        ("341 Meeting Continued to 341 Meeting room", []),
        ("Withdrawal of Claim # 4", []),
        ("denying in part the claim no. 12", []),
    ],
)
def test_documents_are_named_by_their_number_behind_a_word_of_the_court(text, numbers):
    assert [item.number for item in references(text)] == numbers
    assert [value for value, _ in values(text, "document_number")] == numbers


def test_what_another_document_is_about_is_not_what_the_entry_relates_to():
    text = (
        "Order (related document(s) 9 Motion (RE: related document(s) 3 Notice filed by A)) signed"
    )
    assert [value for value, _ in values(text, "document_number")] == ["9", "3"]
    assert [value for value, _ in values(text, "relates_to")] == ["9"]


def test_a_document_that_is_only_seen_is_named_and_not_related_to():
    text = "(UNSEALED Pursuant to Order Dated 11/2/09, Doc. #51; See Doc. #60) Reply re 8 Motion"
    assert [value for value, _ in values(text, "document_number")] == ["51", "60", "8"]
    assert [value for value, _ in values(text, "relates_to")] == ["8"]


def test_each_cue_of_the_table_finds_a_number():
    texts = {
        "related document": "related documents 4",
        "re": "re: 4 Motion",
        "ruling": "granting 4 Motion",
        "preposition": "to 4 Motion",
        "document number": "ECF No. 4",
        "bracket": "motion to extend [4]",
        "title": "Complaint, 4 filed by A",
        "sentence": "Held. 4 Motion granted",
    }
    assert texts.keys() == {name for name, _, _ in CUES}
    for name, text in texts.items():
        assert [(item.number, item.cue.replace("_", " ")) for item in references(text)] == [
            ("4", name)
        ]


@pytest.mark.parametrize(
    ("text", "title", "kind"),
    [
        ("Motion for Relief from Stay (150.00 fee) filed by A", "Motion for Relief from Stay", "relief_from_stay"),
        ("Order Granting Motion of A. Signed", "Motion of A", "other"),
    ],
)  # fmt: skip
def test_a_motion_is_its_title_and_what_it_asks_for(text, title, kind):
    (motion,) = [value for value in extract_fields(text).values if value.field == "motion"]
    assert (motion.words, motion.value) == (title, kind)


@pytest.mark.parametrize(
    ("text", "deadlines"),
    [
        ("Hearing. Objections due by 10/14/2008. (K)", [("2008-10-14", "objections")]),
        ("Schedule A due 7/2/09, Chapter 13 Plan due: 7/3/2009", [("2009-07-02", "schedule a"), ("2009-07-03", "chapter 13 plan")]),
        ("respond no later than October 23, 2023, and", [("2023-10-23", "respond")]),
        ("The deadline is extended to March 16, 2021.", [("2021-03-16", "the")]),
        ("Remote access is restricted until 02/6/2012.", []),
        ("Hearing held on 1/1/2010", []),
    ],
)  # fmt: skip
def test_deadlines_are_dates_behind_words_that_something_is_due(text, deadlines):
    assert values(text, "deadline") == deadlines


@pytest.mark.parametrize(
    ("text", "dispositions"),
    [
        ("Order Granting Motion To Dismiss", [("granted", None)]),
        ("ORDER denying as moot 5 Motion; granting 7 Motion", [("denied_as_moot", "document 5"), ("granted", "document 7")]),
        ("Minutes. Proceedings: GRANTED IN PART", [("granted_in_part", None)]),
        ("Trustee's objection is sustained, says the Motion", []),
        ("Notice of Lodging Proposed Order Granting Motion", []),
        ("Order to Show Cause Why Case Should Not Be Dismissed", []),
        ("Amended Order. (Modified on 2/11/2010) Modified Text on 2/12/2010 (A, B)", []),
        ("Order. The stay is modified as to Creditor A", [("modified", None)]),
    ],
)  # fmt: skip
def test_dispositions_are_read_from_what_the_court_entered_alone(text, dispositions):
    assert values(text, "disposition") == dispositions


@pytest.mark.parametrize(
    ("text", "amounts"),
    [
        ("fees awarded: $2,335.55, expenses $0.00", ["2335.55", "0.00"]),
        ("Fee Amount $150, Filed", ["150.00"]),
        ("[misc,volp7] ( 299.00) Filing Fee", ["299.00"]),
        ("Fee amount 1039.00.", ["1039.00"]),
        ("$1,00 and (1.5)", []),
    ],
)
def test_amounts_are_dollars_and_fees(text, amounts):
    assert [value for value, _ in values(text, "amount")] == amounts


@pytest.mark.spec("INV-EXT-3")
def test_what_an_entry_of_its_form_should_say_and_does_not_is_listed_with_the_reason():
    result = extract_fields("Opposition")
    assert result.state == "degraded"
    failed = result.extraction_completeness.failed_fields
    assert [(item.field, item.reason) for item in failed] == [
        ("party", "not_stated"),
        ("relates_to", "not_stated"),
    ]


@pytest.mark.spec("INV-EXT-3")
def test_a_field_is_not_whole_where_words_give_no_value_or_there_are_too_many():
    result = extract_fields("Schedules due by 13/45/2009. Plan due by 1/2/2009. " + "$1 " * 60)
    failed = result.extraction_completeness.failed_fields
    assert [(item.field, item.reason) for item in failed] == [
        ("deadline", "not_readable"),
        ("amount", "limit_reached"),
    ]
    assert sum(value.field == "amount" for value in result.values) == VALUES_OF_A_FIELD_MAX


def test_every_span_of_the_bundled_dockets_proves_its_value():
    fields = set()
    with sample_path().open("rb") as lines:
        for docket in read_dockets(lines):
            for entry in docket.entries:
                result = extract_fields(entry.description)
                check_extraction(result, entry.description)
                fields |= {value.field for value in result.values}
    assert fields == set(FIELDS)


PIECES = (
    "a", "A", " ", "(", ")", "[", "1", "12 ", "1,", "$", "$1,", "motion ", "related document(s) ",
    "(related document(s) 1, ", "(related document(s) 1 Motion, 2 Order (", "re: 1 ",
    "granting in part and denying as moot ", "granting 12 Motion, ", "due by ", "last day to ",
    "due 1/1/2001 ", "filed by ", "Filed by A. B., Inc., and ", "on behalf of A, ", "as to A ",
    "by A, ", "Judge A. B. ", "(Attachments: # 1 ", "See ", "January 1, ", "order ", "amended ",
    "1.1.1.", "\n", "\u00a0", "file by ", "fee amount ", "( 1.00", "-", "debtor ", "9" * 11 + " ",
)  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join))
def test_any_text_gives_a_result_that_its_text_proves(text):
    check_extraction(extract_fields(text), text)
    assert len(references(text)) <= REFERENCES_MAX


@given(st.text(max_size=400))
def test_any_characters_give_a_result_that_their_text_proves(text):
    check_extraction(extract_fields(text), text)


def cpu_s(call: Callable[[], object]) -> float:
    before = time.process_time()
    call()
    return time.process_time() - before


def costs(text: str) -> tuple[float, float]:
    """Return what the text costs to be read by the rules, and to be scanned once, in CPU time."""
    scan = cpu_s(lambda: sum(1 for _ in re.finditer(r"(?s).", text)))
    extracting = cpu_s(lambda: extract_fields(text))
    relating = cpu_s(lambda: RelationshipIndex().add(0, "1", "Reply " + text))
    return extracting + relating, scan


def test_no_hostile_text_costs_more_than_a_multiple_of_a_scan():
    for piece in PIECES:
        text = (piece * (40_000 // len(piece) + 1))[:40_000]
        cost, scan = costs(text)
        assert cost < 100 * scan, piece


@pytest.mark.nightly
@pytest.mark.parametrize("piece", ["re: 1 ", "last day to ", "1.1.1.", "granting 12 Motion, ", "("])
def test_a_hostile_megabyte_costs_the_same_multiple(piece):
    cost, scan = costs((piece * (1_000_000 // len(piece) + 1))[:1_000_000])
    assert cost < 100 * scan


@pytest.mark.nightly
def test_a_megabyte_of_every_hostile_piece_costs_the_same_multiple():
    size = 1_000_000 // len(PIECES)
    cost, scan = costs("".join((piece * size)[:size] for piece in PIECES))
    assert cost < 100 * scan
