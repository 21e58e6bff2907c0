"""Carries a plan out: all of it or nothing, an epoch's page by page (§5.2, §5.3, K21).

A page is a transaction. Its result, and where the next one begins, is recorded with it, so whoever
asks again goes on there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from typing_extensions import TypedDict

from kernel.algebra.effects import COMPENSATING, REVERSIBLE
from kernel.algebra.verbs import EPOCH_ROLLBACK
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerTransaction
from kernel.model.envelope import MAX_CAUSAL_PARENTS
from kernel.model.receipt import receipt_effect
from kernel.model.result import RejectedResult, SubmissionDocument, SubmissionResult
from kernel.rollback.compensation import compensating_effects
from kernel.rollback.confirmation import Confirmable, Confirmations
from kernel.rollback.envelopes import (
    NOTHING_SAID,
    compensating_envelope,
    envelope,
    inverse_envelope,
    scope_of,
)
from kernel.rollback.errors import RollbackRefused
from kernel.rollback.plan import (
    RollbackPlan,
    plan_epoch,
    plan_operation,
)
from kernel.rollback.steps import PlannedEffect, RollbackStep
from kernel.transaction.kernel import Kernel
from kernel.values.idempotency_keys import runtime_key


class OperationRollbackDocument(TypedDict):
    """An operation that was undone (tier 1)."""

    result: Literal["tier_1_rollback_applied"]
    original_operation_id: str
    inverse_operation_id: str
    submission: SubmissionDocument


class EpochRollbackDocument(TypedDict):
    """An epoch, or a page of it, that was undone as far as it goes (tier 2)."""

    result: Literal["tier_2_rollback_under_way", "tier_2_rollback_applied"]
    epoch_id: str
    page: int
    operations_left: int
    inverse_operation_ids: list[str]
    compensations_applied: list[Document]
    persistent_external_effects: list[Document]
    submission: SubmissionDocument


@dataclass(frozen=True, slots=True)
class OperationRollback:
    """An operation that was undone, or one recompute of a page (tier 1)."""

    original_operation_id: str
    """Its id, or that of the request by which a recompute was named."""

    submission: SubmissionResult
    """The result of submitting the inverse operation."""

    def document(self) -> OperationRollbackDocument:
        """Return the form that leaves the process."""
        return {
            "result": "tier_1_rollback_applied",
            "original_operation_id": self.original_operation_id,
            "inverse_operation_id": self.submission.operation_id,
            "submission": self.submission.document(),
        }


@dataclass(frozen=True, slots=True)
class EpochRollback:
    """An epoch, or a page of it, that was undone as far as it goes (tier 2)."""

    epoch_id: str
    submission: SubmissionResult
    """The result of submitting the operation that holds the receipts."""

    inverse_operation_ids: tuple[str, ...]
    compensations_applied: tuple[Document, ...]
    persistent_external_effects: tuple[Document, ...]
    page: int = 1
    operations_left: int = 0
    """How many remain; asked for again, the rollback goes on with them."""

    def document(self) -> EpochRollbackDocument:
        """Return the form that leaves the process."""
        return {
            "result": "tier_2_rollback_under_way"
            if self.operations_left
            else "tier_2_rollback_applied",
            "epoch_id": self.epoch_id,
            "page": self.page,
            "operations_left": self.operations_left,
            "inverse_operation_ids": list(self.inverse_operation_ids),
            "compensations_applied": list(self.compensations_applied),
            "persistent_external_effects": list(self.persistent_external_effects),
            "submission": self.submission.document(),
        }


def rollback_operation(
    kernel: Kernel,
    transaction: LedgerTransaction,
    operation_id: str,
    said: Mapping[str, str] = NOTHING_SAID,
) -> OperationRollback:
    """Undo one wholly reversible operation; durable when the caller's transaction is.

    `said` is who has it undone (`decided_by`), and why (`reason`), as far as that was said.

    Raises:
        RollbackRefused: see `plan_operation`; `rollback_refused` where a check refuses the inverse.
    """
    plan = plan_operation(transaction, operation_id)
    with transaction.savepoint():
        document = inverse_envelope(transaction, plan.steps[0], 1, said)
        return OperationRollback(operation_id, _submit(kernel, transaction, document))


def rollback_epoch(
    kernel: Kernel,
    transaction: LedgerTransaction,
    epoch_id: str,
    *,
    confirmations: Confirmations,
    user_confirmation_token: str | None = None,
    said: Mapping[str, str] = NOTHING_SAID,
) -> EpochRollback:
    """Undo an epoch, or its next page: inverses, compensations, and receipts of what was done.

    Where operations are left, the rollback is under way until it was asked for again and again,
    by whatever process. A token is needed where something outside would persist; it binds the
    whole plan's digest, and the first page alone asks for it.

    Raises:
        RollbackRefused: see `plan_epoch` and `Confirmations.check`; `confirmation_used`;
            `rollback_refused` where a check or the state refuses a part; nothing is undone then.
    """
    plan = plan_epoch(transaction, epoch_id)
    confirmation_id = None
    if plan.needs_user_confirmation and plan.page == 1:
        subject = Confirmable(2, epoch_id, plan.digest)
        now_us = transaction.host.now_us()
        confirmation_id = confirmations.check(
            "user", user_confirmation_token, subject, now_us=now_us
        )
    operation_id = confirmed_operation_id(transaction, confirmation_id)
    with transaction.savepoint():
        word = confirmation_id or plan.confirmation_id
        return _undo_epoch(kernel, transaction, plan, operation_id, word, said)


def confirmed_operation_id(transaction: LedgerTransaction, confirmation_id: str | None) -> str:
    """Return the id of the operation that a token confirms, which can be on the log once.

    Raises:
        RollbackRefused: `confirmation_used`.
    """
    if confirmation_id is None:
        return transaction.host.new_id()
    operation_id = f"confirmed:{confirmation_id}"
    if transaction.log_row_of(operation_id) is not None:
        raise RollbackRefused("confirmation_used", "the token has confirmed a rollback already")
    return operation_id


def _undo_epoch(
    kernel: Kernel,
    transaction: LedgerTransaction,
    plan: RollbackPlan,
    operation_id: str,
    confirmation_id: str,
    said: Mapping[str, str],
) -> EpochRollback:
    inverses: list[str] = []
    compensations: list[Document] = []
    for step in plan.steps:
        # Compensations start from the state that the effect left, so they come first.
        compensations += _compensate(kernel, transaction, step)
        if step.of(REVERSIBLE):
            document = inverse_envelope(transaction, step, 2)
            inverses.append(_submit(kernel, transaction, document).operation_id)
    body = {
        "epoch_id": plan.scope,
        "user_confirmation_token": confirmation_id,
        "compensations_applied": compensations,
        "partial_external_effects_persist": plan.persists,
        "plan_digest": plan.digest,
        "page": plan.page,
        "undone_from_sequence": str(plan.undone_from_sequence),
        "operations_left": plan.operations_left,
        **said,
    }
    effects = [receipt_effect("tier_2_rollback", body)]
    if plan.persists:
        descriptors = [effect["external_effect_descriptor"] for effect in plan.persists]
        effects.append(
            receipt_effect(
                "rollback_partial_external_effect_persists",
                {"epoch_id": plan.scope, "descriptors": descriptors},
            )
        )
    targets = dict.fromkeys(ref for step in plan.steps for ref in step.envelope["target_refs"])
    parents = [*inverses, *(step.operation_id for step in plan.steps)]
    fields = {
        "operation_id": operation_id,
        "causal_parent_operation_ids": parents[:MAX_CAUSAL_PARENTS],
        "affected_subgraph_descriptor": scope_of(list(targets) or [plan.scope]),
    }
    key = runtime_key("epoch_rollback", operation_id)
    document = envelope(transaction, EPOCH_ROLLBACK, key, effects, fields)
    submission = _submit(kernel, transaction, document)
    return EpochRollback(
        plan.scope,
        submission,
        tuple(inverses),
        tuple(compensations),
        tuple(plan.persists),
        plan.page,
        plan.operations_left,
    )


def _compensate(
    kernel: Kernel, transaction: LedgerTransaction, step: RollbackStep
) -> list[Document]:
    applied = []
    for ordinal, effect in enumerate(step.of(COMPENSATING)):
        effects = compensating_effects(transaction, step.operation_id, effect)
        if effects:
            document = compensating_envelope(transaction, step, effects, ordinal)
            compensation = _submit(kernel, transaction, document).operation_id
        else:
            compensation = _last_writer(transaction, effect)
        applied.append(
            {
                "original_operation_id": step.operation_id,
                "compensating_operation_id": compensation,
                "compensating_operation_kind": effect.declared["compensating_operation_kind"],
            }
        )
    return applied


def _last_writer(transaction: LedgerTransaction, effect: PlannedEffect) -> str:
    record = transaction.record(schema.corpus_membership_records, effect.place[1])
    return "" if record is None else str(record["updated_by_operation_id"])


def _submit(kernel: Kernel, transaction: LedgerTransaction, document: Document) -> SubmissionResult:
    result = kernel.submit(transaction, document, "orchestrator")
    if isinstance(result, RejectedResult):
        rejection = result.rejection
        raise RollbackRefused(
            "rollback_refused",
            f"{document['semantic_intent']} is refused: {rejection.message}",
            check=rejection.check,
            reason_code=rejection.reason_code,
            field=rejection.field,
        )
    return result
