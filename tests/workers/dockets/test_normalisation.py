"""What a docket entry is, in the terms by which bindings select."""

from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workers.dockets.dockets_for_tests import raw_docket, raw_entry, read_one
from workers.dockets.filing_forms import FORMS, OTHER_FORM, filing_form
from workers.dockets.motion_types import MOTION_TYPES, type_of_title
from workers.dockets.normalisation import (
    CONTENT_TYPES,
    case_ref,
    content_type,
    court_id,
    normalise,
    related_motion_type,
)
from workers.dockets.relationships import RELATIONSHIPS, TARGET_ROLES

OPENINGS = {
    "Notice of Lodging Proposed Order filed by A. B.": "proposed order",
    "Received UNSIGNED Order. Forwarded to Chambers": "proposed order",
    "BNC Certificate of Mailing - Order Granting Motion": "certificate of mailing",
    "Certificate of Service Filed by A. B.": "proof of service",
    "SUMMONS Returned Executed by A. B.": "proof of service",
    "Receipt of Motion for Relief from Stay": "receipt",
    "Certificate of No Objection to Motion": "certificate of no objection",
    "Notice of Withdrawal of Motion": "withdrawal",
    "Transcript regarding Hearing Held": "transcript",
    "Notice of Appearance and Request for Notice": "appearance",
    "Chapter 7 Indiv/Joint--Notice of Meeting of Creditors": "meeting of creditors",
    "Hearing Continued (RE: 1 Complaint)": "setting",
    "Order Scheduling Status Conference": "scheduling order",
    "Order signed on 1/11/2010 Scheduling Initial Conference": "scheduling order",
    "Order to Show Cause Why Case Should Not Be Dismissed": "order to show cause",
    "Order to File All Tax Returns": "standing order",
    "Minutes of Hearing held on: 1/2/2010": "minute entry",
    "So Ordered Stipulation signed on 1/2/2010": "stipulation ordered",
    "Agreed Order Granting Motion to Dismiss": "order",
    "AMENDED JUDGMENT as to A. B.": "judgment",
    "MEMORANDUM DISPOSITION (A. B.)": "opinion",
    "MANDATE ISSUED": "mandate",
    "Chapter 7 Discharge": "discharge",
    "Disposition of Adversary 2:09-ap-1 : Dismissed": "disposition of a case",
    "Final Decree": "final decree",
    "Declaration of A B in Reply to Opposition": "supporting reply",
    "REPLY TO RESPONSE to Motion": "reply",
    "Trustee's Objection to Claim 1": "objection to a claim",
    "Limited Objection to Motion": "opposition",
    "RESPONSE in Opposition by A": "opposition",
    "Response in Support of Motion": "supporting response",
    "Response to Motion": "response",
    "Joinder of A in Motion": "joinder",
    "Memorandum of Law in Support of Motion": "support",
    "Amendment to Schedules": "amendment",
    "Amended Chapter 13 Plan": "plan",
    "Disclosure Statement Filed by A": "disclosure statement",
    "Notice of Motion and Motion to Dismiss": "motion",
    "Notice of Hearing and Motion to Withdraw Funds": "motion",
    "(NONCONFORMING ENTRY) Application to Employ": "motion",
    "Trial Brief filed by A": "memorandum",
    "Stipulation By A and B": "stipulation",
    "Chapter 13 Voluntary Petition": "petition",
    "Adversary case 10-1. Complaint by A": "complaint",
    "INDICTMENT as to A": "charge",
    "Notice of Appeal": "appeal",
    "Answer to Complaint": "answer",
    "Alias Summons Issued on A": "summons",
    "Reaffirmation Agreement Filed by A": "agreement",
    "Transfer of Claim. Amount": "transfer of claim",
    "Statement of Financial Affairs": "schedules",
    "Monthly Operating Report for May": "report",
    "Affidavit of A. B.": "declaration",
    "Exhibit Filed by A": "exhibits",
    "Letter to Judge": "letter",
    "Court's Notice of Defective Filing": "notice",
    "Case as to A reassigned": "docket note",
}


@pytest.mark.parametrize(("description", "name"), OPENINGS.items())
def test_an_entry_has_the_form_that_it_opens_as(description, name):
    assert filing_form(description).name == name


def test_each_form_has_an_example_here():
    assert set(OPENINGS.values()) == {form.name for form in (*FORMS, OTHER_FORM)}


@pytest.mark.parametrize(
    ("title", "motion_type"),
    [
        ("Motion for Relief from the Automatic Stay", "relief_from_stay"),
        ("Motion to Shorten Time on Motion for Relief from Stay", "shorten_time"),
        ("Motion to Extend the Automatic Stay", "continue_stay"),
        ("Motion to Extend Time to File Schedules", "extend_time"),
        ("Application to Employ A as Attorney", "employ_professional"),
        ("Motion to Dismiss Case", "dismiss"),
        ("Motion of A", None),
    ],
)
def test_the_first_words_of_a_title_say_what_a_motion_asks_for(title, motion_type):
    assert type_of_title(title) == motion_type


def test_no_type_of_motion_stands_twice():
    names = [name for name, _ in MOTION_TYPES]
    assert len(names) == len(set(names))


@pytest.mark.spec("INV-K-SELECTOR-1")
def test_an_entry_has_every_structural_field_that_is_read_from_it():
    docket = read_one(
        raw_docket(
            [
                raw_entry(
                    "Objection to Motion to Dismiss (related document(s) 4 )", document_number=9
                )
            ],
            court_id="azbke",
            docket_number="2:09-bk-15586-ABC",
        )
    )
    assert asdict(normalise(docket, docket.entries[0])) == {
        "content_type": "docket_entry/document",
        "filing_unit_kind": "opposition",
        "filing_role": "opposing",
        "related_motion_type": "dismiss",
        "legal_profile_kind": "bankruptcy",
        "case_ref": "azb:2:09-bk-15586",
        "court_id": "azb",
    }


@pytest.mark.parametrize(
    ("is_sealed", "has_number", "filing_role", "kind"),
    [
        (True, True, "moving", "docket_entry/sealed_document"),
        (False, True, "disposing", "docket_entry/document"),
        (False, False, "disposing", "docket_entry/minute_order"),
        (False, False, "scheduling", "docket_entry/text_only"),
    ],
)
def test_a_content_type_follows_from_what_an_entry_has(is_sealed, has_number, filing_role, kind):
    answer = content_type(is_sealed=is_sealed, has_number=has_number, filing_role=filing_role)
    assert answer == kind


def test_every_entry_has_a_content_type():
    assert CONTENT_TYPES[0][:3] == (True, None, None)
    assert {line[:3] for line in CONTENT_TYPES[1:]} >= {(False, True, None), (False, False, None)}


def test_a_motion_of_no_known_kind_is_another_and_no_motion_is_none():
    assert related_motion_type("Motion of A", "moving") == "other"
    assert related_motion_type("Notice of Presentment of Order", "moving") == "other"
    assert related_motion_type("Order Discharging Debtor", "disposing") is None


@pytest.mark.parametrize(
    ("court", "number", "ref"),
    [
        ("nyeb", "8-09-78585", "nyeb:8:09-78585"),
        ("casd", "3:15-mj-00091-DHB", "casd:3:15-mj-00091"),
        ("JPML ", "MDL No. 2168", "jpml:2168"),
        ("09cae", "17-15589", "ca9:17-15589"),
        ("azdce", "2:09-cv-1", "azd:2:09-cv-1"),
    ],
)
def test_a_case_is_referred_to_in_one_spelling(court, number, ref):
    assert case_ref(court, number) == ref
    assert court_id(court) == ref.partition(":")[0]


def test_the_roles_that_relate_are_roles_of_forms():
    roles = {form.filing_role for form in (*FORMS, OTHER_FORM)}
    assert set(RELATIONSHIPS) <= roles
    assert {role for first, second in TARGET_ROLES.values() for role in first | second} <= roles


@given(st.text(max_size=2_000))
def test_any_text_has_a_form(text):
    assert filing_form(text) in (*FORMS, OTHER_FORM)
