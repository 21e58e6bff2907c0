"""Dispositions of a ruling, each with what it is about (§4.3.18)."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from kernel.ledger import schema
from kernel.records.dates import Day, Instant, Zone, check_same_day
from kernel.records.typed import Name, Payload, TypedStore


class Disposition(Payload):
    """What a court decided about one thing."""

    disposition: Name


class RulingDisposition(Payload):
    """A ruling: its dispositions, its targets and its date."""

    dispositions: Annotated[
        tuple[Disposition, ...], Field(min_length=1, max_length=256, fail_fast=True)
    ]
    scope_targets: Annotated[tuple[Name, ...], Field(min_length=1, max_length=256, fail_fast=True)]
    ruling_date_utc: Instant
    ruling_date_originating_tz: Zone
    ruling_date_originating_calendar_date: Day

    @model_validator(mode="after")
    def _one_date(self) -> Self:
        check_same_day(self.ruling_date_utc, self.ruling_date_originating_calendar_date)
        return self


RULINGS = TypedStore(
    schema.ruling_dispositions, RulingDisposition, frozenset({"ruling_disposition_retract"})
)
