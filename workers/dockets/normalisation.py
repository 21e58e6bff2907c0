"""Reads a docket entry into the seven fields by which bindings select (§13.8), from tables.

`filing_unit_kind`, `filing_role` and `related_motion_type` are read from the entry's words
(`filing_forms.py`, `motion_types.py`), `content_type` from what the entry has, the others from its
docket. The same docket and entry give the same seven values.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from workers.dockets.claims import visibility_class
from workers.dockets.filing_forms import filing_form
from workers.dockets.motion_types import (
    MOTION_WORD,
    OTHER_MOTION,
    TITLE_CHARS_MAX,
    type_of_title,
)
from workers.dockets.postures import posture_kind
from workers.dockets.reader import Docket, DocketEntry

# The phases behind intake -> the fields that each finds (§13.3).
PHASE_FIELDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("post_doc25_conversion", ("content_type",)),
    (
        "post_group_o_normalization",
        ("filing_unit_kind", "filing_role", "related_motion_type", "legal_profile_kind"),
    ),
    ("post_relationship_resolution", ("case_ref", "court_id")),
)

NAME_CHARS_MAX = 239
"""As long as what is made of a name may be for every id of a docket to be one that is taken."""

CAPTION_CONTENT_TYPE = "docket_caption/text"

# Is it sealed? Has it a number? Its filing role -> content type. None fits anything; the first
# line that fits decides.
CONTENT_TYPES: tuple[tuple[bool | None, bool | None, str | None, str], ...] = (
    (True, None, None, "docket_entry/sealed_document"),
    (False, True, None, "docket_entry/document"),
    (False, False, "disposing", "docket_entry/minute_order"),
    (False, False, None, "docket_entry/text_only"),
)

# How courts and their services spell a case number -> how a case is referred to here.
CASE_NUMBER_FORMS: tuple[tuple[str, str, str], ...] = (
    ("with the judge's initials", r"(.{4,40}?\d)(?:-[A-Z]{2,4}){1,3}", r"\1"),
    ("the office before a hyphen", r"(\d)-(\d\d-\d{5})", r"\1:\2"),
    ("words before the number", r"(?:case |docket |no\.? ?|mdl ){1,3}(\d.{0,40})", r"\1"),
)

# How services spell a court -> the id of the court.
COURT_ID_FORMS: tuple[tuple[str, str, str], ...] = (
    ("a bankruptcy court in the case locator", r"([a-z]{2,4}b)ke", r"\1"),
    ("a district court in the case locator", r"([a-z]{2,4}d)ce", r"\1"),
    ("a court of appeals in the case locator", r"0?(\d{1,2})cae", r"ca\1"),
)


@dataclass(frozen=True, slots=True)
class NormalisedEntry:
    """The structural fields of an entry."""

    content_type: str
    filing_unit_kind: str
    filing_role: str
    related_motion_type: str | None
    """What the motion asks for that the entry is, or names; None where it names none."""
    legal_profile_kind: str
    case_ref: str
    """The court's id and the case number, with a colon between them."""
    court_id: str


def normalise(docket: Docket, entry: DocketEntry) -> NormalisedEntry:
    """Return the structural fields of an entry of a docket."""
    form = filing_form(entry.description)
    is_sealed = visibility_class(entry.description) == "sealed"
    return NormalisedEntry(
        content_type(
            is_sealed=is_sealed,
            has_number=entry.document_number is not None,
            filing_role=form.filing_role,
        ),
        form.filing_unit_kind,
        form.filing_role,
        related_motion_type(entry.description, form.filing_role),
        posture_kind(docket),
        case_ref(docket.court_id, docket.docket_number),
        court_id(docket.court_id),
    )


def normalise_caption(docket: Docket) -> dict[str, str]:
    """Return the structural fields of a docket's caption, as far as a caption has them."""
    return {
        "content_type": CAPTION_CONTENT_TYPE,
        "legal_profile_kind": posture_kind(docket),
        "case_ref": case_ref(docket.court_id, docket.docket_number),
        "court_id": court_id(docket.court_id),
    }


def by_phase(fields: Mapping[str, str | None]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each phase with those of the fields that it finds; what is None has no value."""
    for phase, names in PHASE_FIELDS:
        values = {name: fields.get(name) for name in names}
        yield phase, {name: value for name, value in values.items() if value is not None}


def content_type(*, is_sealed: bool, has_number: bool, filing_role: str) -> str:
    """Return the content type of an entry."""
    entry = (is_sealed, has_number, filing_role)
    return next(
        kind
        for *line, kind in CONTENT_TYPES
        if all(wanted is None or wanted == is_so for wanted, is_so in zip(line, entry, strict=True))
    )


def related_motion_type(description: str, filing_role: str) -> str | None:
    """Return what the first motion asks for that the entry names, `other` for what no row knows."""
    word = MOTION_WORD.search(description)
    if word is not None:
        return type_of_title(description, word.start()) or OTHER_MOTION
    if filing_role == "moving":
        return type_of_title(description, 0, TITLE_CHARS_MAX) or OTHER_MOTION
    return None


def case_ref(court: str, case_number: str) -> str:
    """Return how a case is referred to: `azb:2:09-bk-15586`."""
    number = _respell(" ".join(case_number.split()), CASE_NUMBER_FORMS)
    return bound_name(f"{court_id(court)}:{number}")


def bound_name(name: str) -> str:
    """Return a name of which ids can be made: itself, or its begin and its digest.

    What stands for a long name is longer than any that stands for itself, so no two are the same.
    """
    if len(name) <= NAME_CHARS_MAX:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()
    return f"{name[: NAME_CHARS_MAX - len(digest)]}~{digest}"


def court_id(court: str) -> str:
    """Return the id of a court, in lower case."""
    return _respell(court.strip().lower(), COURT_ID_FORMS)


def _respell(text: str, forms: tuple[tuple[str, str, str], ...]) -> str:
    for _, pattern, spelling in forms:
        match = re.fullmatch(pattern, text, re.IGNORECASE)
        if match is not None:
            text = match.expand(spelling)
    return text
