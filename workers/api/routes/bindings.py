"""Source bindings over HTTP: changing and reading them.

A binding belongs to no session. Its intents may be sent to one, in order with what else that does,
or here.
"""

from typing import Annotated

from fastapi import Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from actors.commit.units import IntentUnit
from actors.errors import IntentInvalid
from actors.orchestrator.intents import BindingIntent, Intent
from kernel.records.bindings import GENERATION_ID
from workers.api.errors import ApiError
from workers.api.json_routes import json_router
from workers.api.operation_results import (
    ResultsDocument,
    are_only_counted,
    only_counted,
    results_document,
)
from workers.api.preferred_proofs import add_preferred
from workers.api.routes.records import TEXT_MAX, RecordId
from workers.api.services import Given, Services
from workers.api.union_tags import short_tag
from workers.views.bindings import (
    BindingDocument,
    BindingPageDocument,
    describe_binding,
    list_bindings,
)

PAGE_MAX = 100
INTENTS_MAX = 64

router = json_router(prefix="/v1/bindings", tags=["bindings"])

_Tagged = Annotated[BindingIntent, short_tag("intent_kind")]


class BindingIntentsBody(BaseModel):
    """Intents of bindings, in order."""

    model_config = ConfigDict(extra="forbid")

    intents: Annotated[list[_Tagged], Field(min_length=1, max_length=INTENTS_MAX, fail_fast=True)]


@router.post("")
async def change(
    body: BindingIntentsBody, request: Request, services: Given
) -> ResultsDocument | Response:
    """Put intents of bindings through the kernel in order; each has its own result.

    With `Prefer: proof` a result on the record has the proof that its row is in the log, and with
    `Prefer: durability=witnessed, wait=10` the answer waits until witnesses have cosigned.
    """
    results = [await _carried_out(services, intent) for intent in body.intents]
    document = results_document(results)
    await add_preferred(request, services, document, document["results"])
    return only_counted(document) if are_only_counted(results) else document


async def _carried_out(services: Services, intent: Intent) -> object:
    try:
        return await services.write(IntentUnit(intent, None))
    except IntentInvalid as invalid:
        return invalid


@router.get("")
async def bindings(
    services: Given,
    after: Annotated[str | None, Query(min_length=1, max_length=TEXT_MAX)] = None,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 20,
) -> BindingPageDocument:
    """Return bindings by their ids, with their states; go on while there is a `next_after`."""
    return await services.read(lambda view: list_bindings(view, after, limit))


@router.get("/{binding_id:path}")
async def binding(
    binding_id: RecordId,
    services: Given,
    generation: Annotated[str | None, Query(pattern=GENERATION_ID)] = None,
) -> BindingDocument:
    """Return a binding: what its generation means, and how many pairs are in which state.

    By default it is the generation in force; `generation` names an earlier one, which says what
    supersedes it.
    """
    description = await services.read(lambda view: describe_binding(view, binding_id, generation))
    if description is None:
        raise ApiError("not_found", "no such binding, or no such generation of it")
    return description
