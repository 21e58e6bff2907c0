"""Serves proofs over the log: its tree's head, that a row is in it, that it only grew."""

from collections.abc import Callable
from typing import Annotated

from fastapi import Path, Query, Request

from kernel.model.numbers import SEQUENCE_MAX
from kernel.records.access.readable_view import ReadableView
from workers.api.json_routes import json_router
from workers.api.preferred_proofs import durability_of_row
from workers.api.services import Given
from workers.questions.log_tree import ProveInclusion
from workers.views.log_proofs import InclusionDocument

Sequence = Annotated[int, Path(ge=1, le=SEQUENCE_MAX)]
Size = Annotated[int | None, Query(ge=0, le=SEQUENCE_MAX)]

router = json_router("read.proofs", prefix="/v1/tree", tags=["proofs"])


@router.get("/inclusion/{ec_sequence_number}")
async def inclusion(
    ec_sequence_number: Sequence, request: Request, services: Given, tree_size: Size = None
) -> InclusionDocument:
    """Return a row's stored bytes and its path to the root of the tree of a size.

    With `Prefer: durability=witnessed, wait=10` the answer waits until witnesses have cosigned the
    row, and the tree is that of their checkpoint where no other is asked for.
    """

    def proof_in(size: int | None) -> Callable[[ReadableView], InclusionDocument]:
        return ProveInclusion(ec_sequence_number=ec_sequence_number, tree_size=size).answer

    proof = await services.read(proof_in(tree_size))
    durability, size = await durability_of_row(request, services, ec_sequence_number, tree_size)
    if durability is not None:
        proof = await services.read(proof_in(size))
        proof["durability"] = durability
    return proof
