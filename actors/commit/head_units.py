"""Defines the unit that accepts the head of a ledger that went back."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from actors.commit.decision_record import decide_in
from actors.commit.unit_context import CommitContext
from kernel.records.head_acceptance import accept_head
from kernel.records.legal_holds import Grounds


@dataclass(frozen=True, slots=True)
class AcceptHeadUnit:
    """Go on from the ledger that is there; again changes nothing."""

    grounds: Grounds
    evidence: Sequence[dict[str, Any]] = ()

    def run(self, context: CommitContext) -> bool:
        """Record it; False where nobody has found that the ledger went back.

        Raises `HeadNotAccepted`, `DecisionRefused`.
        """
        decide = decide_in(context)
        return accept_head(context.transaction, self.grounds, decide, self.evidence)
