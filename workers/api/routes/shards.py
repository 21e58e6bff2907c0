"""Serves which gateways clients may ask, and what of the shards' mailboxes was set aside."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from actors.commit.refusal_units import SET_ASIDE
from queues.gateways.shard_mailboxes import SetAside
from workers.api.json_routes import json_router
from workers.api.services import Given

FINDINGS_MAX = 500

router = json_router(prefix="/v1", tags=["records"])


class GatewayPlace(TypedDict):
    """A gateway that clients may ask directly."""

    gateway: str
    url: str


class GatewaysDocument(TypedDict):
    """The gateways that advertise a URL."""

    gateways: list[GatewayPlace]


class SetAsideDocument(TypedDict):
    """The entries that can be put back, and the newest findings."""

    set_aside: list[SetAside]
    findings: list[dict[str, Any]]


class PutBackDocument(TypedDict):
    """Whether an entry was there to be put back."""

    put_back: bool


@router.get("/gateways")
async def gateways(services: Given) -> GatewaysDocument:
    """Return the living gateways that clients may ask directly, with the URL of each."""
    urls = sorted(services.fleet.gateway_urls().items())
    return {"gateways": [{"gateway": name, "url": url} for name, url in urls]}


class PutBackBody(BaseModel):
    """An entry that was set aside, by its place."""

    model_config = ConfigDict(extra="forbid")

    shard: Annotated[int, Field(ge=0, le=4095, strict=True)]
    offset: Annotated[str, Field(pattern=r"^[0-9]{15}-[0-9]{20}$")]


@router.get("/shards/set-aside")
async def set_aside(services: Given) -> SetAsideDocument:
    """List what ended each process that took it: what can be put back, and the newest findings."""
    findings = await services.read(
        lambda view: view.receipts_of_kind(SET_ASIDE, limit=FINDINGS_MAX)
    )
    shards = {int(finding["shard"]) for finding in findings}
    entries = [] if services.fleet.mail is None else await services.fleet.mail.aside(sorted(shards))
    return {"set_aside": entries, "findings": findings}


@router.post("/shards/put-back")
async def put_back(body: PutBackBody, services: Given) -> PutBackDocument:
    """Let an entry that was set aside be taken again, behind what waits in its mailbox."""
    mail = services.fleet.mail
    return {"put_back": mail is not None and await mail.put_back(body.shard, body.offset, None)}
