"""Undoes, the same at every door: over HTTP and on a ledger file (K21).

Building the state again takes every shard away in its own transaction, so a gateway that reaches
the database from elsewhere drops its memory and takes its shards anew.
"""

from collections.abc import Mapping
from contextlib import closing
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from actors.commit.rollback_units import (
    RollbackEpochUnit,
    RollbackOperationUnit,
    RollbackTogetherUnit,
)
from actors.commit.units import Unit
from kernel.audit.log import log_document
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.ledger.shards import take_away_all
from kernel.rollback.confirmation import Confirmable, Confirmations, Role
from kernel.rollback.errors import RollbackRefused
from kernel.rollback.plan import (
    RollbackPlan,
    RollbackPlanDocument,
    plan_epoch,
    plan_operation,
    plan_operations,
)
from kernel.rollback.rebuild import (
    Archive,
    RebuildPlanDocument,
    plan_rebuild,
    prepare_rebuild,
    rebuild,
)
from kernel.transaction.kernel import Kernel
from workers.use_cases.access import Caller

Name = Annotated[str, Field(min_length=1, max_length=512)]
Token = Annotated[str | None, Field(max_length=2048)]


SAID_CHARS_MAX = 1024
Said = Annotated[str | None, Field(min_length=1, max_length=SAID_CHARS_MAX)]


class _Undoing(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    decided_by: Said = None
    reason: Said = None
    """Who has it undone, and why; the receipt of the undoing says it."""

    @property
    def said(self) -> dict[str, str]:
        """What was said of who has it undone, and why."""
        stated = {"decided_by": self.decided_by, "reason": self.reason}
        return {name: value for name, value in stated.items() if value is not None}

    @model_validator(mode="before")
    @classmethod
    def _has_a_number(cls, document: Any) -> Any:
        """Refuse a tier that is `true`, which a literal takes for 1."""
        if isinstance(document, dict) and isinstance(document.get("tier"), bool):
            raise ValueError("a tier is a number")  # noqa: TRY004 - pydantic takes no other
        return document


class UndoOperation(_Undoing):
    """Undo one wholly reversible operation."""

    tier: Literal[1]
    operation_id: Name


class UndoTogether(_Undoing):
    """Undo operations in order, which go together or not at all."""

    tier: Literal[1] = 1
    operation_ids: Annotated[tuple[Name, ...], Field(min_length=1, max_length=64)]


class UndoEpoch(_Undoing):
    """Undo an epoch, or an operation that is one by itself, as far as it goes."""

    tier: Literal[2]
    epoch_id: Name
    user_confirmation_token: Token = None


class BuildAgain(BaseModel):
    """Build the state again from the log."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tier: Literal[3]
    checkpoint_ec_sequence_number: Annotated[int, Field(ge=0, le=2**53 - 1)]
    architect_confirmation_token: Token = None


Undoing = UndoOperation | UndoEpoch | BuildAgain


def plan_of(view: LedgerView, undoing: UndoOperation | UndoEpoch) -> RollbackPlanDocument:
    """Return what undoing an operation or an epoch would do; raises `RollbackRefused`."""
    return _plan(view, undoing).document()


def check_not_own(
    view: LedgerView, undoing: UndoOperation | UndoTogether | UndoEpoch, caller: Caller | None
) -> None:
    """Refuse to let anybody but an owner undo what their own key brought.

    Where access is open nobody has a key.

    Raises:
        RollbackRefused: `rollback_of_own_operation`, and what a plan raises.
    """
    if caller is None or "owner" in caller.roles:
        return
    for step in _plan(view, undoing).steps:
        row = view.log_row_of(step.operation_id)
        if row is not None and log_document(view, row).get("principal") == caller.principal:
            message = f"{caller.principal} asked for {step.operation_id}: let another reviewer see"
            raise RollbackRefused(
                "rollback_of_own_operation", message, operation_id=step.operation_id
            )


def _plan(view: LedgerView, undoing: UndoOperation | UndoTogether | UndoEpoch) -> RollbackPlan:
    if isinstance(undoing, UndoTogether):
        return plan_operations(view, undoing.operation_ids)
    if isinstance(undoing, UndoOperation):
        return plan_operation(view, undoing.operation_id)
    return plan_epoch(view, undoing.epoch_id)


def dry_run(
    kernel: Kernel, view: LedgerView, undoing: Undoing
) -> RollbackPlanDocument | RebuildPlanDocument:
    """Return exactly what would happen, with the digest that a confirmation binds.

    Raises:
        RollbackRefused: what stands in the way.
    """
    if isinstance(undoing, BuildAgain):
        return plan_rebuild(kernel, view, undoing.checkpoint_ec_sequence_number).document()
    return plan_of(view, undoing)


def unit_of(
    undoing: UndoOperation | UndoTogether | UndoEpoch, confirmations: Confirmations
) -> Unit:
    """Return the unit that undoes it."""
    if isinstance(undoing, UndoTogether):
        return RollbackTogetherUnit(undoing.operation_ids, undoing.said)
    if isinstance(undoing, UndoOperation):
        return RollbackOperationUnit(undoing.operation_id, undoing.said)
    token = undoing.user_confirmation_token
    return RollbackEpochUnit(undoing.epoch_id, token, confirmations, undoing.said)


def build_again(
    kernel: Kernel,
    ledger: Ledger,
    undoing: BuildAgain,
    confirmations: Confirmations,
    archive: Archive,
) -> dict[str, Any]:
    """Build the state again; others write meanwhile, but for the transaction that replaces.

    Raises:
        RollbackRefused: what stands in the way; nothing was replaced.
    """
    with ledger.view() as view:
        prepared = prepare_rebuild(kernel, view, undoing.checkpoint_ec_sequence_number)
    with closing(prepared), ledger.transaction() as transaction:
        # Whatever gateways know of the record is from before; none of them can write it on.
        take_away_all(transaction)
        return rebuild(
            kernel,
            transaction,
            prepared,
            confirmations=confirmations,
            architect_confirmation_token=undoing.architect_confirmation_token,
            archive=archive,
        ).document()


def confirmations_of(user: SecretStr | None, architect: SecretStr | None) -> Confirmations:
    """Return what issues and checks tokens, for the roles that have a key."""
    keys: dict[Role, SecretStr | None] = {"user": user, "architect": architect}
    return Confirmations(
        {role: key.get_secret_value().encode() for role, key in keys.items() if key is not None}
    )


def confirmable(plan: Mapping[str, Any]) -> Confirmable:
    """Return what a token for a dry run confirms."""
    return Confirmable(plan["tier"], plan["scope"], plan["digest"])
