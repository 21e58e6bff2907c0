"""Synthesis by a model over HTTP: one request, one operation, or a coded error and nothing."""

from typing import Any
from uuid import UUID

from actors.orchestrator.intents import SynthesizeByModel
from workers.api.json_bodies import json_router
from workers.api.operation_results import result_document
from workers.api.services import Given

router = json_router(prefix="/v1/sessions", tags=["sessions"])


@router.post("/{session_id}/syntheses")
async def synthesize(session_id: UUID, body: SynthesizeByModel, services: Given) -> dict[str, Any]:
    """Let a model make an understanding of sources, and record it with its answer."""
    result = await services.synthesis.run(str(session_id), body)
    return {"result": result_document(result)}
