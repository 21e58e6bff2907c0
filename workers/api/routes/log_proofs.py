"""Proofs over the log: the head of its tree, that a row is in it, that it only grew."""

from collections.abc import Callable
from typing import Annotated, TypeVar

from fastapi import Path, Query, Request

from kernel.ledger.ledger import LedgerView
from kernel.model.numbers import SEQUENCE_MAX
from workers.api.errors import ApiError
from workers.api.json_routes import json_router
from workers.api.preferred_proofs import durability_of_row
from workers.api.services import Given, Services
from workers.views.log_proofs import (
    ConsistencyDocument,
    InclusionDocument,
    TreeHeadDocument,
    consistency,
    inclusions,
    tree_head,
)

T = TypeVar("T")

Sequence = Annotated[int, Path(ge=1, le=SEQUENCE_MAX)]
Size = Annotated[int | None, Query(ge=0, le=SEQUENCE_MAX)]

router = json_router(prefix="/v1/tree", tags=["proofs"])


@router.get("")
async def head(services: Given, tree_size: Size = None) -> TreeHeadDocument:
    """Return the size and the root of the tree over the log, or over its first rows."""
    return await tree_answer(services, lambda view: tree_head(view.log_tree(), tree_size))


@router.get("/inclusion/{ec_sequence_number}")
async def inclusion(
    ec_sequence_number: Sequence, request: Request, services: Given, tree_size: Size = None
) -> InclusionDocument:
    """Return a row's stored bytes and its path to the root of the tree of a size.

    With `Prefer: durability=witnessed, wait=10` the answer waits until witnesses have cosigned the
    row, and the tree is that of their checkpoint where no other is asked for.
    """

    def proof_in(size: int | None) -> Callable[[LedgerView], InclusionDocument]:
        return lambda view: inclusions(view, [ec_sequence_number], size)[0]

    proof = await tree_answer(services, proof_in(tree_size))
    durability, size = await durability_of_row(request, services, ec_sequence_number, tree_size)
    if durability is not None:
        proof = await tree_answer(services, proof_in(size))
        proof["durability"] = durability
    return proof


@router.get("/consistency/{old_tree_size}")
async def consistent(
    old_tree_size: Annotated[int, Path(ge=0, le=SEQUENCE_MAX)],
    services: Given,
    tree_size: Size = None,
) -> ConsistencyDocument:
    """Return the path that shows that the tree of a size begins with that of an older one."""
    return await tree_answer(services, lambda view: consistency(view, old_tree_size, tree_size))


async def tree_answer(services: Services, question: Callable[[LedgerView], T]) -> T:
    """Answer a question about the tree of a size; one that the log has not is a refusal."""
    try:
        return await services.read(question)
    except ValueError as error:
        raise ApiError("tree_size_invalid", str(error)) from error
