"""Undoing over HTTP: first what would happen, then to do it (K21).

Building the state again needs a ledger that nobody else writes: `rotulus rollback rebuild`.
"""

from typing import Annotated, Any

from fastapi import Body

from kernel.kernel import Kernel
from workers.api.json_bodies import json_router
from workers.api.services import Given
from workers.use_cases.rollbacks import UndoEpoch, UndoOperation, dry_run, unit_of

router = json_router(prefix="/v1/rollbacks", tags=["rollbacks"])


def _plain(schema: dict[str, Any]) -> None:
    """OpenAPI's discriminators are texts and a tier is a number; `oneOf` says the same."""
    schema.pop("discriminator", None)


RollbackRequest = Annotated[
    UndoOperation | UndoEpoch,
    Body(discriminator="tier", json_schema_extra=_plain),
]


@router.post("/dry-run")
async def what_would_happen(rollback: RollbackRequest, services: Given) -> dict[str, Any]:
    """Return exactly what undoing would do, and the digest that a confirmation binds."""
    return await services.read(lambda view: dry_run(Kernel(), view, rollback))


@router.post("")
async def roll_back(rollback: RollbackRequest, services: Given) -> dict[str, Any]:
    """Undo an operation or an epoch; answered when it is durable.

    A large epoch goes back in pages: while the answer says that operations are left, ask again.
    """
    result = await services.write(unit_of(rollback, services.confirmations))
    answer: dict[str, Any] = result
    return answer
