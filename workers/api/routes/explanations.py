"""Serves where something on the record comes from: one question for whatever has an id."""

from typing import Annotated, Literal

from fastapi import Query, Response
from fastapi.responses import PlainTextResponse

from workers.api.json_routes import json_router
from workers.api.services import Given
from workers.views.provenance import (
    ExplainedDocument,
    ProvenanceQuestion,
    explained,
    explained_mermaid,
    explained_text,
)

_Text = Annotated[str, Query(min_length=1, max_length=512)]

router = json_router(prefix="/v1", tags=["records"])


@router.get("/explain")
async def explain(
    services: Given,
    record_id: _Text,
    hypothesis: _Text | None = None,
    run_id: _Text | None = None,
    sink: _Text | None = None,
    shape: Annotated[Literal["json", "text", "mermaid"], Query(alias="format")] = "json",
) -> ExplainedDocument | Response:
    """Return what an id names and where it comes from, back to the words of its sources.

    With `format` as text or as a Mermaid graph, in plain text.
    """
    question = ProvenanceQuestion(record_id, hypothesis, run_id, sink)
    if shape == "json":
        return await services.read(lambda view: explained(view, question))
    shown = explained_mermaid if shape == "mermaid" else explained_text
    return PlainTextResponse(await services.read(lambda view: shown(view, question)))
