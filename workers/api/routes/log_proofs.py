"""Proofs over the log: the head of its tree, that a row is in it, that it only grew."""

from collections.abc import Callable
from typing import Annotated, TypeVar

from fastapi import Path, Query

from kernel.ledger.ledger import LedgerView
from workers.api.errors import ApiError
from workers.api.json_routes import json_router
from workers.api.services import Given, Services
from workers.views.log_proofs import (
    ConsistencyDocument,
    InclusionDocument,
    TreeHeadDocument,
    consistency,
    inclusions,
    tree_head,
)
from workers.views.records import SEQUENCE_MAX

T = TypeVar("T")

Sequence = Annotated[int, Path(ge=1, le=SEQUENCE_MAX)]
Size = Annotated[int | None, Query(ge=0, le=SEQUENCE_MAX)]

router = json_router(prefix="/v1/tree", tags=["proofs"])


@router.get("")
async def head(services: Given, tree_size: Size = None) -> TreeHeadDocument:
    """Return the size and the root of the tree over the log, or over its first rows."""
    return await _answered(services, lambda view: tree_head(view.log_tree(), tree_size))


@router.get("/inclusion/{ec_sequence_number}")
async def inclusion(
    ec_sequence_number: Sequence, services: Given, tree_size: Size = None
) -> InclusionDocument:
    """Return a row's stored bytes and its path to the root of the tree of a size."""
    [proof] = await _answered(
        services, lambda view: inclusions(view, [ec_sequence_number], tree_size)
    )
    return proof


@router.get("/consistency/{old_tree_size}")
async def consistent(
    old_tree_size: Annotated[int, Path(ge=0, le=SEQUENCE_MAX)],
    services: Given,
    tree_size: Size = None,
) -> ConsistencyDocument:
    """Return the path that shows that the tree of a size begins with that of an older one."""
    return await _answered(services, lambda view: consistency(view, old_tree_size, tree_size))


async def _answered(services: Services, question: Callable[[LedgerView], T]) -> T:
    try:
        return await services.read(question)
    except ValueError as error:
        raise ApiError("tree_size_invalid", str(error)) from error
