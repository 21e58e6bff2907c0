"""Records what courts decide: rulings (§4.3.18), dispositions (§4.3.13), case events (§4.3.21).

A disposition as a docket shows it has a life of four states.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from kernel.ledger import schema
from kernel.model.envelope import KernelEffect
from kernel.records.dates import Day, Instant, Zone, check_same_day
from kernel.records.record import Applied, Operation
from kernel.records.typed import Name, Payload, TypedStore, target_of, validate_payload
from kernel.values.errors import EffectInapplicable

LIFECYCLE = frozenset(
    {
        (None, "observed"),
        ("observed", "observed"),
        ("observed", "confirmed"),
        ("observed", "superseded"),
        ("observed", "withdrawn"),
        ("confirmed", "superseded"),
        ("confirmed", "withdrawn"),
    }
)
"""The allowed transitions; `None` is the state before the first observation."""


class CourtDispositionObservation(Payload):
    """What a docket entry says was decided."""

    disposition: Name
    lifecycle_state: Literal["observed", "confirmed", "superseded", "withdrawn"]
    docket_entry_date_utc: Instant
    docket_entry_date_originating_tz: Zone
    docket_entry_date_originating_calendar_date: Day

    @model_validator(mode="after")
    def _one_date(self) -> Self:
        check_same_day(self.docket_entry_date_utc, self.docket_entry_date_originating_calendar_date)
        return self


OBSERVATIONS = TypedStore(
    schema.court_disposition_observations,
    CourtDispositionObservation,
    frozenset({"court_disposition_observation_retract"}),
)


def apply_court_disposition(effect: KernelEffect, operation: Operation) -> Applied:
    """Record an observation in its next state, or retract it."""
    if effect.effect_kind not in OBSERVATIONS.retract_kinds:
        payload = validate_payload(CourtDispositionObservation, effect.payload)
        before = operation.transaction.record(OBSERVATIONS.table, target_of(effect))
        known = before is not None and before["state"] == "active"
        state = before["payload"]["lifecycle_state"] if known and before is not None else None
        if (state, payload.lifecycle_state) not in LIFECYCLE:
            raise EffectInapplicable(
                f"{state} cannot become {payload.lifecycle_state}",
                code="court_disposition_transition_disallowed",
                field="payload.lifecycle_state",
            )
    return OBSERVATIONS.apply(effect, operation)


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
