"""Dispositions as a court's docket shows them, with a life of four states (§4.3.13)."""

from typing import Literal, Self

from pydantic import model_validator

from kernel.ledger import schema
from kernel.model.envelope import KernelEffect
from kernel.records.dates import Day, Instant, Zone, check_same_day
from kernel.records.record import Applied, Operation
from kernel.records.typed import Name, Payload, TypedStore, target_of, validated
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
        payload = validated(CourtDispositionObservation, effect.payload)
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
