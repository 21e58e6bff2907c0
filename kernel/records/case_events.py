"""Events by which cases become one, move, or come apart (§4.3.21)."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from kernel.ledger import schema
from kernel.records.dates import Day, Instant, Zone, check_same_day
from kernel.records.typed import Name, Payload, TypedStore


class CaseResolutionEvent(Payload):
    """A consolidation, a transfer or a severance, and the identity that it resolves to."""

    event_kind: Literal["ConsolidationEvent", "TransferEvent", "SeveranceEvent"]
    case_refs: Annotated[tuple[Name, ...], Field(min_length=1, max_length=256, fail_fast=True)]
    resolved_case_identity: Name
    event_date_utc: Instant
    event_date_originating_tz: Zone
    event_date_originating_calendar_date: Day

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.event_kind == "ConsolidationEvent" and len(set(self.case_refs)) == 1:
            raise ValueError("one case is not consolidated")
        check_same_day(self.event_date_utc, self.event_date_originating_calendar_date)
        return self


CASE_EVENTS = TypedStore(
    schema.case_resolution_events,
    CaseResolutionEvent,
    frozenset({"case_resolution_event_retract"}),
)
