"""Seals a range of receipts by a unit: its root becomes an operation of the log (§17.5)."""

from dataclasses import dataclass

from actors.commit.unit_context import CommitContext
from actors.orchestrator.intents import SealReceipts
from kernel.model.result import RejectedResult, SubmissionResult
from kernel.model.stated_receipts import ReceiptsSealed
from kernel.records.receipt_seals import ReceiptRange, follows
from kernel.values.canonical import digest


@dataclass(frozen=True, slots=True)
class SealReceiptsUnit:
    """Seal a range, whose root was computed in a snapshot: what is in it never changes."""

    sealed: ReceiptRange

    def run(self, context: CommitContext) -> SubmissionResult | RejectedResult | None:
        """Seal it; None where another gateway was first."""
        if not follows(context.transaction, self.sealed):
            return None
        stated = self.sealed.document
        intent = SealReceipts(
            intent_key=digest(["seal_receipts", stated]),
            seal=ReceiptsSealed.model_validate(stated),
        )
        document = context.orchestrator.construct(
            intent, context.transaction, actor="system", session_id=None
        )
        return context.kernel.submit(
            context.transaction, document, "orchestrator", id_is_drawn=True
        )
