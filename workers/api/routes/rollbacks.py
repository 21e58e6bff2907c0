"""Serves undoing: first what would happen, then to do it (K21).

Building the state again needs a ledger that nobody else writes: `rotulus rollback rebuild`.
"""

from typing import Annotated, Any

from fastapi import Body, Request

from kernel.rollback.execute import EpochRollbackDocument, OperationRollbackDocument
from kernel.rollback.plan import RollbackPlanDocument
from workers.api.access import decider
from workers.api.json_routes import json_router
from workers.api.services import Given
from workers.use_cases.access import caller_of
from workers.use_cases.rollbacks import (
    UndoEpoch,
    UndoOperation,
    check_not_own,
    plan_of,
    unit_of,
)

router = json_router("review.operations", prefix="/v1/rollbacks", tags=["rollbacks"])


def _plain(schema: dict[str, Any]) -> None:
    """OpenAPI's discriminators are texts and a tier is a number; `oneOf` says the same."""
    schema.pop("discriminator", None)


RollbackRequest = Annotated[
    UndoOperation | UndoEpoch,
    Body(discriminator="tier", json_schema_extra=_plain),
]


RollbackDocument = OperationRollbackDocument | EpochRollbackDocument


@router.post("/dry-run")
async def what_would_happen(rollback: RollbackRequest, services: Given) -> RollbackPlanDocument:
    """Return exactly what undoing would do, and the digest that a confirmation binds."""
    return await services.read(lambda view: plan_of(view, rollback))


@router.post("")
async def roll_back(
    rollback: RollbackRequest, services: Given, request: Request
) -> RollbackDocument:
    """Undo an operation or an epoch; answered when it is durable.

    With a key nobody but an owner undoes their own operations.
    A large epoch goes back in pages: while the answer says that operations are left, ask again.
    """
    caller = caller_of(request.scope)
    if caller is not None:
        decided_by = decider(request, rollback.decided_by or "")
        rollback = rollback.model_copy(update={"decided_by": decided_by})
        await services.read(lambda view: check_not_own(view, rollback, caller))
    answer: RollbackDocument = await services.write(unit_of(rollback, services.confirmations))
    return answer
