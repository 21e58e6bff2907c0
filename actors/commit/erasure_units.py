"""Defines the units that erase payloads, and that set and lift legal holds (P6)."""

from dataclasses import dataclass

from actors.commit.decision_record import decide_in
from actors.commit.unit_context import CommitContext
from kernel.records.legal_holds import Grounds, LegalHold, SubjectKind, lift_hold, set_hold
from kernel.retention.erasure import ErasablePayload, Erasure, erase


@dataclass(frozen=True, slots=True)
class EraseUnit:
    """Erase a payload; again changes nothing."""

    payload: ErasablePayload
    grounds: Grounds

    def run(self, context: CommitContext) -> Erasure:
        """Delete it and record that; raises `ErasureRefused`, `DecisionRefused`."""
        return erase(context.transaction, self.payload, self.grounds, decide_in(context))


@dataclass(frozen=True, slots=True)
class SetHoldUnit:
    """Set a legal hold; the same again is the same hold."""

    hold_id: str
    subject: tuple[SubjectKind, str]
    grounds: Grounds
    is_archived: bool = False
    """Whether it is a payload that lies in the archive."""

    def run(self, context: CommitContext) -> LegalHold:
        """Record it; raises `ErasureRefused`, `DecisionRefused`."""
        return set_hold(
            context.transaction,
            self.hold_id,
            self.subject,
            self.grounds,
            decide_in(context),
            is_archived=self.is_archived,
        )


@dataclass(frozen=True, slots=True)
class LiftHoldUnit:
    """Lift a legal hold; again changes nothing."""

    hold_id: str
    grounds: Grounds

    def run(self, context: CommitContext) -> bool:
        """Record it; False where it was lifted before.

        Raises `ErasureRefused`, `DecisionRefused`.
        """
        return lift_hold(context.transaction, self.hold_id, self.grounds, decide_in(context))
