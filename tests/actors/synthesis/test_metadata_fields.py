"""The inventory of §10.5 is a table, and every field has its row."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.synthesis.metadata_fields import FIELD_FAMILIES, UNKNOWN_FAMILY, families_of

pytestmark = pytest.mark.spec("V4-A-3", "§10.5")

EXAMPLES = {
    "filename": ["filename"],
    "ecf_entry_text": ["docket_entry_text"],
    "ocr_headers": ["page header", "page-footer", "watermark"],
    "pdf_file_properties": ["Author", "Title", "Subject", "Keywords"],
    "pdf_metadata": ["Creator", "Producer", "ModDate", "Trapped"],
    "exif": ["Description", "Comment", "ImageDescription"],
    "word_properties": ["Document Title", "docx:Author", "docx.Subject"],
    "excel_sheet_names": ["sheet_names", "tab_name"],
    "email_subject": ["email_subject", "email:Subject"],
    "email_addresses": ["From", "To", "CC", "email/From"],
    "calendar_event_title": ["event_title"],
    "audio_metadata": ["track_title", "Performer"],
}


def test_the_table_has_the_twelve_families():
    assert [family.name for family in FIELD_FAMILIES] == list(EXAMPLES)


@pytest.mark.parametrize("family", EXAMPLES)
def test_every_example_belongs_to_its_family(family):
    for name in EXAMPLES[family]:
        assert families_of([name]) == {name: family}


def test_a_name_of_several_families_belongs_to_the_one_it_stands_among():
    assert families_of(["Subject", "Keywords"])["Subject"] == "pdf_file_properties"
    assert families_of(["Subject", "From", "To"])["Subject"] == "email_subject"
    assert families_of(["Title", "Performer", "Album"])["Title"] == "audio_metadata"
    assert families_of(["Title", "Producer"])["Title"] == "pdf_file_properties"


def test_a_field_that_nobody_knows_is_unknown_and_not_left_out():
    assert families_of(["", "x-unheard-of", "exif"]) == dict.fromkeys(
        ["", "x-unheard-of", "exif"], UNKNOWN_FAMILY
    )


@given(names=st.lists(st.text() | st.sampled_from(["a:b", "exif:", ":", "Subject"]), unique=True))
def test_every_field_has_exactly_one_family(names):
    known = {family.name for family in FIELD_FAMILIES} | {UNKNOWN_FAMILY}
    families = families_of(names)

    assert list(families) == names
    assert set(families.values()) <= known
