"""Undoes an operation, or an epoch as far as it goes: units (K21).

Building the state again has a ledger to itself and is no unit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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
    said: Mapping[str, str] = field(default_factory=dict)
    """Who has it undone (`decided_by`), and why (`reason`), as far as that was said."""

    def run(self, context: CommitContext) -> OperationRollbackDocument:
        """Undo it and return what was done; raises `RollbackRefused`."""
        return rollback_operation(
            context.kernel, context.transaction, self.operation_id, self.said
        ).document()


@dataclass(frozen=True, slots=True)
class RollbackTogetherUnit:
    """Undo operations in order, each by an operation of its own: all of them or none."""

    operation_ids: Sequence[str]
    said: Mapping[str, str] = field(default_factory=dict)

    def run(self, context: CommitContext) -> list[OperationRollbackDocument]:
        """Undo them and return what was done; raises `RollbackRefused`, and undoes none then."""
        with context.transaction.savepoint():
            return [
                RollbackOperationUnit(operation_id, self.said).run(context)
                for operation_id in self.operation_ids
            ]


@dataclass(frozen=True, slots=True)
class RollbackEpochUnit:
    """Undo an epoch, or an operation that is one by itself, as far as it goes."""

    epoch_id: str
    user_confirmation_token: str | None
    confirmations: Confirmations
    said: Mapping[str, str] = field(default_factory=dict)

    def run(self, context: CommitContext) -> EpochRollbackDocument:
        """Undo it and return what was done; raises `RollbackRefused`."""
        return rollback_epoch(
            context.kernel,
            context.transaction,
            self.epoch_id,
            confirmations=self.confirmations,
            user_confirmation_token=self.user_confirmation_token,
            said=self.said,
        ).document()
