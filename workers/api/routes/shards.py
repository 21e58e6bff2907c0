"""Which gateway owns which shards, and what of their mailboxes was set aside."""

from dataclasses import asdict
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from actors.commit.refusal_units import SET_ASIDE
from kernel.host import iso_time
from kernel.ledger.ledger import LedgerView
from kernel.ledger.shards import NOBODY, shards_of
from workers.api.json_bodies import json_router
from workers.api.services import Given

FINDINGS_MAX = 500

router = json_router(prefix="/v1", tags=["records"])


@router.get("/shards")
async def shards(services: Given) -> dict[str, Any]:
    """Return the shards of each gateway, and those that nobody owns right now."""
    return await services.read(describe_shards)


def describe_shards(view: LedgerView) -> dict[str, Any]:
    """Return who owns what at one point of the record."""
    gateways: dict[str, dict[str, Any]] = {}
    unowned = []
    known = shards_of(view)
    for shard in known:
        if shard.owner == NOBODY:
            unowned.append(shard.shard)
            continue
        gateway = gateways.setdefault(shard.owner, {"shards": [], "last_acquired_at": ""})
        gateway["shards"].append(shard.shard)
        acquired_at = iso_time(shard.acquired_at_us)
        gateway["last_acquired_at"] = max(gateway["last_acquired_at"], acquired_at)
    return {"of": len(known), "gateways": dict(sorted(gateways.items())), "unowned": unowned}


@router.get("/gateways")
async def gateways(services: Given) -> dict[str, list[dict[str, str]]]:
    """Return the living gateways that clients may ask directly, with the URL of each."""
    urls = sorted(services.gateway_urls().items())
    return {"gateways": [{"gateway": name, "url": url} for name, url in urls]}


class PutBackBody(BaseModel):
    """An entry that was set aside, by its place."""

    model_config = ConfigDict(extra="forbid")

    shard: Annotated[int, Field(ge=0, le=4095, strict=True)]
    offset: Annotated[str, Field(pattern=r"^[0-9]{15}-[0-9]{20}$")]


@router.get("/shards/set-aside")
async def set_aside(services: Given) -> dict[str, Any]:
    """List what ended each process that took it: what can be put back, and the newest findings."""
    findings = await services.read(
        lambda view: view.receipts_of_kind(SET_ASIDE, limit=FINDINGS_MAX)
    )
    shards = {int(finding["shard"]) for finding in findings}
    entries = [] if services.mail is None else await services.mail.aside(sorted(shards))
    return {"set_aside": [asdict(entry) for entry in entries], "findings": findings}


@router.post("/shards/put-back")
async def put_back(body: PutBackBody, services: Given) -> dict[str, bool]:
    """Let an entry that was set aside be taken again, behind what waits in its mailbox."""
    mail = services.mail
    return {"put_back": mail is not None and await mail.put_back(body.shard, body.offset, None)}
