"""Serves synthesis by a model: one request, one operation, or a coded error and nothing."""

from uuid import UUID

from typing_extensions import TypedDict

from actors.orchestrator.intents import SynthesizeByModel
from workers.api.json_routes import json_router
from workers.api.operation_results import ResultDocument, result_document
from workers.api.services import Given
from workers.use_cases.principal_use import current_use

router = json_router("write.sessions", prefix="/v1/sessions", tags=["sessions"])


class SynthesisDocument(TypedDict):
    """The operation that a synthesis came to."""

    result: ResultDocument


@router.post("/{session_id}/syntheses")
async def synthesize(
    session_id: UUID, body: SynthesizeByModel, services: Given
) -> SynthesisDocument:
    """Let a model make an understanding of sources, and record it with its answer."""
    if services.door is not None and (use := current_use()) is not None:
        use.call_model()
    result = await services.synthesis.run(str(session_id), body)
    return {"result": result_document(result)}
