"""What an entry claims, what it is worth, and whether it is sealed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.dockets.claims import (
    ANY_OTHER,
    CLAIM_CHARS_MAX,
    DOCUMENT_KINDS,
    claim_of,
    document_kind,
    visibility_class,
)


@pytest.mark.parametrize(
    ("claim", "rest"),
    [
        ("ORDER Dismissing Case Debtor.", " (X, Y) (Entered: 1/4/2019)"),
        ("Case Closed.", " (xx) (Entered: 12/11/2019)"),
        ("ORDER FILED. Motion to stay is not opposed.", " [Entered: 1/2/2019]"),
        ("Motion filed by Widgets, Inc. of Ohio in v. Smith.", " Next"),
        ("Order signed by Judge J. Q. Public today.", " More"),
        ("no end in sight", " \n"),
    ],
)
def test_a_claim_is_the_first_sentence_word_for_word(claim, rest):
    description = f"  {claim}{rest}"
    claimed = claim_of(description)
    assert claimed.text == claim
    assert claimed.span.of(description) == claim


def test_a_claim_without_an_end_is_cut_between_two_words():
    claim = claim_of("motion " * 100)
    assert claim.text == ("motion " * 40).strip()
    assert len(claim_of("x" * 1_000).text) == CLAIM_CHARS_MAX


@pytest.mark.parametrize(
    ("description", "kind", "essentiality", "authority"),
    [
        ("ORDER Granting Motion for Relief", "order", "core", 0.95),
        ("So Ordered Stipulation signed on 5/1/2019", "order", "core", 0.95),
        ("Second Interim Order on Motion", "order", "core", 0.95),
        ("JUDGMENT entered by A. B.", "judgment, opinion or mandate", "core", 0.95),
        ("MANDATE issued.", "judgment, opinion or mandate", "core", 0.95),
        ("MEMORANDUM DISPOSITION (A. B.)", "judgment, opinion or mandate", "core", 0.95),
        ("Motion for Relief from Stay", "request or pleading", "supporting", 0.6),
        ("Chapter 7 Voluntary Petition . Fee", "request or pleading", "supporting", 0.6),
        ("COMPLAINT against Widgets", "request or pleading", "supporting", 0.6),
        ("ANSWER to Complaint", "request or pleading", "supporting", 0.6),
        ("APPELLANT'S BRIEF filed", "request or pleading", "supporting", 0.6),
        ("INDICTMENT as to A. B.", "charge", "supporting", 0.6),
        ("Notice of Lodging Proposed Order", "proposed order", "tangential", 0.6),
        ("Proposed Order confirming plan", "proposed order", "tangential", 0.6),
        ("Affidavit of Service", "paper of a party", "tangential", 0.6),
        ("BNC Certificate of Mailing - Order", "notice by mail", "tangential", 0.4),
        ("Receipt of Motion for Relief", "notice by mail", "tangential", 0.4),
        ("Hearing Continued.", "clerical note", "tangential", 0.4),
    ],
)
def test_the_kind_of_a_document_decides_its_weight(description, kind, essentiality, authority):
    claim = claim_of(description)
    assert (claim.document_kind, claim.essentiality, claim.authority) == (
        kind,
        essentiality,
        authority,
    )


def test_the_table_of_kinds_stays_within_its_bounds():
    for kind in (*DOCUMENT_KINDS, ANY_OTHER):
        assert kind.essentiality in {"core", "supporting", "tangential"}
        assert 0 <= kind.authority <= 1


@pytest.mark.parametrize(
    "description",
    [
        "(DOCUMENT FILED UNDER SEAL) Unredacted Version of: Motion",
        "**SEALED DOCUMENT** Letter",
        "SEALED INDICTMENT as to Sld Dft",
        "SEALED LETTER ORDER. Signed by Judge A. B.",
        "Pretrial Services Report (Sealed) as to A. B.",
        "Summons Issued (Sealed - Attorney) for appearance",
        "Letter from Defendants to Judge A. B. - (Under Seal).",
        "RESTRICTED DOCUMENT. THIS DOCKET ENTRY AND PDF DOCUMENT ARE SEALED PURSUANT TO AN ORDER",
        "Minute Entry for proceedings held before Judge A. B.: SEALED MINUTE ENTRY for hearing",
    ],
)
def test_a_document_under_seal_is_sealed(description):
    assert visibility_class(description) == "sealed"


@pytest.mark.parametrize(
    "description",
    [
        "Certificate with the Seal of the Court",
        "Motion to File Under Seal Reply to Objection",
        "MOTION to Seal by Widgets, Inc.",
        "ORDER granting 84 Motion to Seal.",
        "Order Authorizing the Filing Under Seal of Pleadings",
        "(UNSEALED Pursuant to Order Dated 10/29/19) Motion",
        "**SEALED DOCUMENT** Letter. Modified by unsealing entry per order 120",
        "Indictment unsealed as to A. B.",
        "RECORD RECEIVED. CD/DVD, Sealed: None.",
        "Notes: CD of sealed district court documents sent.",
        "ORDER re: Sealed Documents as to A. B.",
        "Sealed-bid sale of real property approved",
    ],
)
def test_talk_of_seals_does_not_seal_a_document(description):
    assert visibility_class(description) == "public_open"


@given(st.text(min_size=1, max_size=700).filter(str.strip))
def test_a_claim_is_a_verbatim_stretch_of_any_text(description):
    claim = claim_of(description)
    assert claim.text == claim.span.of(description)
    assert 0 < len(claim.text) <= CLAIM_CHARS_MAX
    assert claim.text == claim.text.strip()
    assert description.lstrip().startswith(claim.text)
    assert document_kind(description).name == claim.document_kind
