"""Lists the metadata that is wrapped like text (INV-MVC-3, §10.5), as a table.

1. Every field is wrapped, whether it is listed here or not; the inventory only says what it is.
2. A name may belong to several families (a PDF, a document and a mail all have a subject): the
   family of which most names stand in the same mapping wins, then the earlier one of the table.
3. A field may say its family itself: `exif:Comment`, `exif.Comment`.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

UNKNOWN_FAMILY = "unknown"

_SEPARATORS = re.compile(r"[\s_\-]+")
_PREFIXED = re.compile(r"\A([^:./]+)[:./](.+)\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class FieldFamily:
    """One row of §10.5: what its fields are called, and under which prefixes they come."""

    name: str
    fields: tuple[str, ...]
    prefixes: tuple[str, ...] = ()


FIELD_FAMILIES = (
    FieldFamily("filename", ("filename", "file_name", "original_filename", "path"), ("file",)),
    FieldFamily(
        "ecf_entry_text",
        ("ecf_entry_text", "docket_entry_text", "entry_text", "docket_text", "entry_number"),
        ("ecf", "pacer", "docket"),
    ),
    FieldFamily(
        "ocr_headers",
        ("ocr_header", "ocr_footer", "page_header", "page_footer", "header", "footer", "watermark"),
        ("ocr",),
    ),
    FieldFamily("pdf_file_properties", ("Author", "Title", "Subject", "Keywords"), ("pdf",)),
    FieldFamily(
        "pdf_metadata",
        ("Creator", "Producer", "CreationDate", "ModDate", "Trapped"),
        ("pdf_metadata", "xmp"),
    ),
    FieldFamily(
        "exif",
        ("Description", "Comment", "ImageDescription", "UserComment", "Artist", "Copyright"),
        ("exif",),
    ),
    FieldFamily(
        "word_properties",
        ("Document Title", "Author", "Subject", "Title", "Company", "Last Modified By"),
        ("docx", "word"),
    ),
    FieldFamily(
        "excel_sheet_names", ("sheet_name", "sheet_names", "tab_name"), ("excel", "xlsx", "sheet")
    ),
    FieldFamily("email_subject", ("email_subject", "message_subject", "Subject"), ("email",)),
    FieldFamily(
        "email_addresses",
        ("From", "To", "CC", "BCC", "Reply-To", "Sender"),
        ("email_addresses", "address"),
    ),
    FieldFamily(
        "calendar_event_title",
        ("event_title", "calendar_event_title", "Summary", "Location"),
        ("calendar", "ics"),
    ),
    FieldFamily(
        "audio_metadata",
        ("track_title", "Performer", "Artist", "Album", "Composer", "Title"),
        ("audio", "id3"),
    ),
)
"""The twelve families, in the order of §10.5."""

_TOGETHER: Mapping[str, str] = MappingProxyType(
    {"email_subject": "email_addresses", "pdf_file_properties": "pdf_metadata"}
)
"""Families whose fields come from one place: those of the second speak for the first too."""


def plain_name(name: str) -> str:
    """Return a field's name without case and separators, as families are looked up."""
    return _SEPARATORS.sub("", name).casefold()


_NAMES: Mapping[str, frozenset[str]] = MappingProxyType(
    {family.name: frozenset(map(plain_name, family.fields)) for family in FIELD_FAMILIES}
)
_OF_PREFIX: Mapping[str, str] = MappingProxyType(
    {plain_name(prefix): family.name for family in FIELD_FAMILIES for prefix in family.prefixes}
)


def families_of(names: Iterable[str]) -> dict[str, str]:
    """Return the family of each field of one mapping of metadata, `unknown` for others."""
    listed = list(names)
    plain = {plain_name(name) for name in listed}
    weight = {family: len(plain & fields) for family, fields in _NAMES.items()}
    for family, companion in _TOGETHER.items():
        weight[family] += weight[companion]
    return {name: _family_of(name, weight) for name in listed}


def _family_of(name: str, weight: Mapping[str, int]) -> str:
    prefixed = _PREFIXED.match(name)
    if prefixed is not None:
        prefix_family = _OF_PREFIX.get(plain_name(prefixed[1]))
        if prefix_family is not None:
            return _narrower_family(prefix_family, plain_name(prefixed[2]))
    listing = [family for family, fields in _NAMES.items() if plain_name(name) in fields]
    return max(listing, key=weight.__getitem__, default=UNKNOWN_FAMILY)


def _narrower_family(family: str, field: str) -> str:
    """Mail and PDF have two families each: a prefix names the file, the field says which."""
    companion = _TOGETHER.get(family)
    return companion if companion is not None and field in _NAMES[companion] else family
