"""Serves a ledger that went back: what is known to be lost, and going on from what is there."""

from functools import partial

from fastapi import Request

from actors.commit.head_units import AcceptHeadUnit
from workers.api.json_routes import json_router
from workers.api.routes.erasures import GroundsBody
from workers.api.services import Given, Services
from workers.publication.lost_evidence import Evidence, evidence, items_in, of_items, of_witnesses
from workers.publication.witnesses import WitnessClient
from workers.views.lost_answers import LostDocument, losses_document

LOST_AT_ONCE = 1000

router = json_router("operate.fleet", prefix="/v1/ledger", tags=["operators"])


class AcceptedDocument(LostDocument):
    """Whether anything changed, and the first page of what is known to be lost."""

    changed: bool


@router.post("/accept-head")
async def accept_head(body: GroundsBody, services: Given, request: Request) -> AcceptedDocument:
    """Go on from the ledger that is there, on the record, with the reason.

    Every gateway begins anew from it. Where nobody has found that the ledger went back, nothing
    changes.
    """
    grounds = body.grounds(request)
    stands = await services.read(lambda view: view.finding_stands())
    unit = AcceptHeadUnit(grounds, await _evidence(services) if stands else [])
    changed = await services.write(unit)
    document = await services.read(lambda view: losses_document(view, after=0, limit=LOST_AT_ONCE))
    return {**document, "changed": changed}


async def _evidence(services: Services) -> list[Evidence]:
    items = await items_in(services.work.queues)
    return [
        *await _checkpoint_evidence(services),
        *await _witness_evidence(services),
        *await services.read(partial(of_items, items=items)),
    ]


async def _checkpoint_evidence(services: Services) -> list[Evidence]:
    """Return what the published checkpoint says beside the findings: how far the log had been."""
    checkpoint = (await services.checkpoint())["checkpoint"]
    if checkpoint is None or checkpoint["tree_size"] is None:
        return []
    says = f"{checkpoint['verdict']}: {checkpoint['message']}"
    return [evidence("published_checkpoint", f"{checkpoint['tree_size']} rows", says)]


async def _witness_evidence(services: Services) -> list[Evidence]:
    publishing = services.publishing
    if publishing is None:
        return []
    witnesses = WitnessClient(publishing.policy())
    try:
        return await of_witnesses(publishing.note(), witnesses)
    finally:
        await witnesses.aclose()
