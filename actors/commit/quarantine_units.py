"""The unit that lifts a quarantine of rows of the log (§17.5)."""

from dataclasses import dataclass

from actors.commit.decision_record import decide_in
from actors.commit.unit_context import CommitContext
from kernel.legal_holds import Grounds
from kernel.quarantine_lifts import lift_quarantine


@dataclass(frozen=True, slots=True)
class LiftQuarantineUnit:
    """Lift a quarantine; again changes nothing."""

    quarantine_id: str
    grounds: Grounds

    def run(self, context: CommitContext) -> bool:
        """Record it; False where it was lifted before.

        Raises `QuarantineRefused`, `DecisionRefused`.
        """
        decide = decide_in(context)
        return lift_quarantine(context.transaction, self.quarantine_id, self.grounds, decide)
