"""Serves source bindings: changing and reading them.

A binding belongs to no session. Its intents may be sent to one, in order with what else that does,
or here.
"""

from typing import Annotated

from fastapi import Request, Response
from pydantic import BaseModel, ConfigDict, Field

from actors.commit.units import IntentUnit
from actors.errors import IntentInvalid
from actors.messages import PRINCIPAL
from actors.orchestrator.intents import BindingIntent, Intent
from workers.api.json_routes import json_router
from workers.api.operation_results import (
    ResultsDocument,
    are_only_counted,
    count_only_response,
    results_document,
)
from workers.api.preferences import preferences_of
from workers.api.preferred_proofs import add_preferred
from workers.api.services import Given, Services
from workers.api.union_tags import short_tag

INTENTS_MAX = 64

router = json_router("operate.bindings", prefix="/v1/bindings", tags=["bindings"])

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
    results = [await _carry_out(services, intent) for intent in body.intents]
    document = results_document(results)
    await add_preferred(preferences_of(request), services, document, document["results"])
    return count_only_response(document) if are_only_counted(results) else document


async def _carry_out(services: Services, intent: Intent) -> object:
    try:
        return await services.write(IntentUnit(intent, None, principal=PRINCIPAL.get()))
    except IntentInvalid as invalid:
        return invalid
