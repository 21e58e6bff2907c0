"""Defines the units that record damage met by a reader, and lift a quarantine (§17.5)."""

from collections.abc import Sequence
from dataclasses import dataclass

from actors.commit.decision_record import decide_in
from actors.commit.unit_context import CommitContext
from kernel.ledger.damage import Damage
from kernel.records.legal_holds import Grounds
from kernel.records.quarantine_lifts import lift_quarantine
from kernel.verify.violation import record_damage


@dataclass(frozen=True, slots=True)
class LiftQuarantineUnit:
    """Lift a quarantine; lifting it again changes nothing."""

    quarantine_id: str
    grounds: Grounds

    def run(self, context: CommitContext) -> bool:
        """Record it; False where it was lifted before.

        Raises:
            QuarantineRefused, DecisionRefused: nothing was recorded.
        """
        decide = decide_in(context)
        return lift_quarantine(context.transaction, self.quarantine_id, self.grounds, decide)


@dataclass(frozen=True, slots=True)
class RecordDamageUnit:
    """Leave a receipt of damaged records, which stand until they are lifted (L3)."""

    damage: Sequence[Damage]

    def run(self, context: CommitContext) -> str | None:
        """Return the receipt's id, None where somebody knows of all of them."""
        return record_damage(context.transaction, self.damage)
