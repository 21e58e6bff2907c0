"""Puts back what was set aside of the shards' mailboxes."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from workers.api.json_routes import json_router
from workers.api.services import Given

router = json_router("operate.fleet", prefix="/v1", tags=["records"])


class PutBackDocument(TypedDict):
    """Whether an entry was there to be put back."""

    put_back: bool


class PutBackBody(BaseModel):
    """An entry that was set aside, by its place."""

    model_config = ConfigDict(extra="forbid")

    shard: Annotated[int, Field(ge=0, le=4095, strict=True)]
    offset: Annotated[str, Field(pattern=r"^[0-9]{15}-[0-9]{20}$")]


@router.post("/shards/put-back")
async def put_back(body: PutBackBody, services: Given) -> PutBackDocument:
    """Let an entry that was set aside be taken again, behind what waits in its mailbox."""
    mail = services.fleet.mail
    return {"put_back": mail is not None and await mail.put_back(body.shard, body.offset, None)}
