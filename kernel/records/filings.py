"""Keeps filing units, their versions, and the versions of their text (§4.3.8)."""

from typing import Self

from pydantic import model_validator

from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.records.comparison import SameThing
from kernel.records.dates import Day, Instant, Zone, check_same_day
from kernel.records.typed import Name, Payload, Sha256, TypedStore


class FilingUnit(Payload):
    """What was filed, and when, in the court's time zone."""

    filing_date_utc: Instant
    filing_date_originating_tz: Zone
    filing_date_originating_calendar_date: Day

    @model_validator(mode="after")
    def _one_date(self) -> Self:
        check_same_day(self.filing_date_utc, self.filing_date_originating_calendar_date)
        return self


class FilingUnitVersion(FilingUnit):
    """One version of a filing unit, with a filing date of its own."""

    filing_unit_id: Name
    version_label: Name


class FilingUnitTextVersion(Payload):
    """One reading of a filing unit's text, independent of how the filing is structured."""

    filing_unit_id: Name
    text_hash: Sha256


UNITS = TypedStore(
    schema.filing_units,
    FilingUnit,
    frozenset({"filing_unit_retract"}),
    # A document is filed once, whichever of its units says when.
    same_thing=SameThing(
        "document_ref",
        schema.document_of,
        (
            "filing_date_utc",
            "filing_date_originating_tz",
            "filing_date_originating_calendar_date",
        ),
    ),
)
VERSIONS = TypedStore(
    schema.filing_unit_versions,
    FilingUnitVersion,
    frozenset({"filing_unit_version_retract"}),
    {"filing_unit_id": schema.filing_units},
)
TEXT_VERSIONS = TypedStore(
    schema.filing_unit_text_versions,
    FilingUnitTextVersion,
    frozenset({"filing_unit_text_version_retract"}),
    {"filing_unit_id": schema.filing_units},
)


def document_of_unit(view: LedgerView, filing_unit_id: str) -> str | None:
    """Return the document that a filing unit names; None where there is none."""
    record = view.record(UNITS.table, filing_unit_id)
    return None if record is None else schema.document_of(record["payload"])
