"""Units of undoing: an operation, or an epoch as far as it goes (K21).

Building the state again has a ledger to itself and is no unit.
"""

from dataclasses import dataclass

from actors.commit.unit_context import CommitContext
from kernel.rollback.confirmation import Confirmations
from kernel.rollback.execute import (
    EpochRollbackDocument,
    OperationRollbackDocument,
    rollback_epoch,
    rollback_operation,
)


@dataclass(frozen=True, slots=True)
class RollbackOperationUnit:
    """Undo one wholly reversible operation."""

    operation_id: str

    def run(self, context: CommitContext) -> OperationRollbackDocument:
        """Undo it and return what was done; raises `RollbackRefused`."""
        return rollback_operation(context.kernel, context.transaction, self.operation_id).document()


@dataclass(frozen=True, slots=True)
class RollbackEpochUnit:
    """Undo an epoch, or an operation that is one by itself, as far as it goes."""

    epoch_id: str
    user_confirmation_token: str | None
    confirmations: Confirmations

    def run(self, context: CommitContext) -> EpochRollbackDocument:
        """Undo it and return what was done; raises `RollbackRefused`."""
        return rollback_epoch(
            context.kernel,
            context.transaction,
            self.epoch_id,
            confirmations=self.confirmations,
            user_confirmation_token=self.user_confirmation_token,
        ).document()
