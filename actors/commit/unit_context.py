"""Defines what a unit works with, and what it leaves for the end of the transaction."""

from dataclasses import dataclass, field

from actors.orchestrator.orchestrator import Orchestrator
from kernel.belief.record import BeliefBatch
from kernel.ledger.ledger import LedgerTransaction
from kernel.model.result import SubmissionResult
from kernel.transaction.kernel import Kernel


@dataclass(slots=True)
class PendingBelief:
    """Holds one session's events, and their outcome once the transaction was anchored."""

    batches: tuple[BeliefBatch, ...]
    """The session's, and that of the successor that its last event declares, if it has one."""

    outcome: SubmissionResult | Exception | None = None
    """The result of the operation that anchors them, or why they were not recorded."""


@dataclass(frozen=True, slots=True)
class CommitContext:
    """The open transaction, the kernel and the orchestrator, as a unit is handed them."""

    transaction: LedgerTransaction
    kernel: Kernel
    orchestrator: Orchestrator
    pending_belief: list[PendingBelief] = field(default_factory=list)
    """Events that wait for the anchor of this transaction."""
