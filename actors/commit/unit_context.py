"""What a unit works with, and what it leaves for the end of the transaction."""

from dataclasses import dataclass, field

from actors.orchestrator.orchestrator import Orchestrator
from kernel.belief_record import BeliefBatch
from kernel.kernel import Kernel
from kernel.ledger.ledger import LedgerTransaction
from kernel.model.result import SubmissionResult


@dataclass(slots=True)
class PendingBelief:
    """One session's events, and what became of them once the transaction was anchored."""

    batch: BeliefBatch
    outcome: SubmissionResult | Exception | None = None
    """The operation that anchors them."""


@dataclass(frozen=True, slots=True)
class Bench:
    """The open transaction, the rules, and the one who writes envelopes."""

    transaction: LedgerTransaction
    kernel: Kernel
    orchestrator: Orchestrator
    pending_belief: list[PendingBelief] = field(default_factory=list)
    """What belief sessions have put down for the anchor of this transaction."""
