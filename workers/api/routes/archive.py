"""Serves the move of what is old to the archive, beside the cron that does so by itself (§17.7)."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from kernel.model.numbers import DAYS_MAX
from workers.api.json_routes import json_router
from workers.api.services import Given
from workers.use_cases.access import does
from workers.use_cases.log_archiving import ArchivalDone, archive_some

router = json_router("operate.fleet", prefix="/v1/archive", tags=["operators"])


class ArchivalBody(BaseModel):
    """After how many days rows of the log are old; null: after as many as the gateway's setting."""

    model_config = ConfigDict(extra="forbid")

    older_than_days: Annotated[int | None, Field(ge=0, le=DAYS_MAX, strict=True)] = None


class ArchiveDocument(TypedDict):
    """Whether a place is named for an archive, and what is moved there by itself."""

    is_configured: bool
    """Where it is false nothing is moved, however old."""

    retention_days: int | None
    """Days after which rows of the log are moved; null: never."""

    audit_horizon_days: int | None
    """Days after which archived operations no longer keep answers of models; null: never."""


@router.get("", openapi_extra=does("read.fleet"))
async def archive(services: Given) -> ArchiveDocument:
    """Say whether there is a place for an archive, and after how many days what goes there."""
    return {
        "is_configured": services.ledger.archive.is_configured,
        "retention_days": services.retention.kernel_retention_days,
        "audit_horizon_days": services.retention.audit_horizon_days,
    }


@router.post("/runs")
async def archive_run(services: Given, body: ArchivalBody | None = None) -> ArchivalDone:
    """Take a few steps of archival; ask again while it is not complete. Again changes nothing.

    Whole tiles of 256 rows move, never the newest 1,024. Envelopes follow seven days later. So do
    contents of thoughts, whose rounds are old enough by the gateway's setting, and the space is
    given back.
    """
    days = None if body is None else body.older_than_days
    retention = services.retention.of(services.ledger, days=days)
    return await archive_some(services.ledger, services.write, retention)
