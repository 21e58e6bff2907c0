"""Serves the published log as C2SP tlog-tiles lays it out, and the verdict on its checkpoint.

An answer is what the folder holds, which any static server could hold as well. A path is read into
numbers and written again from them, so nothing outside of the tiles can be named. There are no
entry bundles: rows are read where reading is controlled (decision workers/0200). C2SP says what
these two routes answer, so the OpenAPI document leaves them out.
"""

import anyio.to_thread
from fastapi import Response
from pydantic import BaseModel, ConfigDict

from actors.commit.units import IntentUnit
from actors.orchestrator.intents import RecordKeyHandover
from kernel.model.result import RejectedResult
from kernel.model.stated_receipts import KeyHandedOver
from kernel.proof.key_handover import KeyHandover
from kernel.proof.tiles import tile_of_path
from kernel.proof.verification import ProofInvalid
from kernel.values.canonical import digest
from workers.api.errors import ApiError
from workers.api.json_routes import json_router
from workers.api.operation_results import OperationDocument, operation_document
from workers.api.routes.thoughts import answer_or_refusal
from workers.api.services import Given
from workers.environment.checkpoint_folder import read_tile
from workers.use_cases.access import does
from workers.views.checkpoints import difference

IMMUTABLE = {"Cache-Control": "public, max-age=31536000, immutable"}
RENEWED = {"Cache-Control": "no-cache"}

TEXT_TYPE = "text/plain; charset=utf-8"
TILE_TYPE = "application/octet-stream"

_NO_TILE = "no such tile is published"

router = json_router("public", tags=["published log"])


class HandoverBody(BaseModel):
    """A hand-over of the log's keys, as every key of it has signed it."""

    model_config = ConfigDict(extra="forbid")

    handover: KeyHandedOver


@router.post("/v1/checkpoint/handovers", openapi_extra=does("manage.keys"))
async def record_handover(body: HandoverBody, services: Given) -> OperationDocument | Response:
    """Put a hand-over of the log's keys onto the log; the same is recorded once."""
    try:
        handover = KeyHandover.of_document(body.handover.model_dump())
    except ProofInvalid as error:
        raise ApiError("key_handover_invalid", str(error)) from error
    problem = await services.read(lambda view: difference(view.log_tree(), handover.last))
    if problem is not None:
        raise ApiError(
            "key_handover_invalid", f"this is not the log that is handed over: {problem}"
        )
    intent = RecordKeyHandover(intent_key=digest(handover.document), handover=handover.document)
    result = await services.write(IntentUnit(intent, None, "system"))
    return answer_or_refusal(
        result if isinstance(result, RejectedResult) else operation_document(result)
    )


@router.get("/checkpoint", include_in_schema=False)
async def checkpoint(services: Given) -> Response:
    """Return the newest published checkpoint, a signed note."""
    publishing = services.publishing
    note = None if publishing is None else await anyio.to_thread.run_sync(publishing.note)
    if note is None:
        raise ApiError("checkpoint_not_published", "no checkpoint is published here")
    return Response(note, headers=RENEWED, media_type=TEXT_TYPE)


@router.get("/tile/{path:path}", include_in_schema=False)
async def tile(path: str, services: Given) -> Response:
    """Return a tile of the published log: `tile/0/x001/067`, `tile/0/x001/068.p/5`."""
    named, publishing = tile_of_path(f"tile/{path}"), services.publishing
    if named is None or publishing is None:
        raise ApiError("tile_not_published", _NO_TILE)
    try:
        hashes = await anyio.to_thread.run_sync(read_tile, publishing.folder, *named)
    except OSError:
        hashes = None
    if hashes is None:
        raise ApiError("tile_not_published", _NO_TILE)
    return Response(hashes, headers=IMMUTABLE, media_type=TILE_TYPE)
