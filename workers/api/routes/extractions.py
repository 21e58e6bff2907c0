"""Extractions over HTTP: a run with what it read, runs by their state, the fields of a source.

They are asked for through the queue `extraction-transition` (`work_requests.py`), and their runs
cancelled with their requests.
"""

from typing import Annotated

from fastapi import Path, Query
from typing_extensions import TypedDict

from kernel.records.extraction import State
from kernel.work.extractions.reading import (
    ExtractionRunDocument,
    ExtractionSummary,
    SourceExtractionDocument,
    describe_run,
    describe_source,
    runs_in_state,
)
from workers.api.errors import ApiError
from workers.api.json_routes import json_router
from workers.api.services import Given

PAGE_MAX = 200
NAME_CHARS_MAX = 512
AFTER_CHARS_MAX = 600

Name = Annotated[str, Path(min_length=1, max_length=NAME_CHARS_MAX)]

router = json_router(prefix="/v1", tags=["extractions"])


class RunsDocument(TypedDict):
    """A page of runs; it may be empty and not the last."""

    runs: list[ExtractionSummary]
    next_after: str | None


@router.get("/extractions")
async def in_state(
    services: Given,
    state: State = "blocked",
    after: Annotated[str, Query(max_length=AFTER_CHARS_MAX)] = "",
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 50,
) -> RunsDocument:
    """Return runs that are in a state now, the blocked ones with their `block_reason`."""
    page = await services.read(lambda view: runs_in_state(view, state, after=after, limit=limit))
    return {"runs": list(page.runs), "next_after": page.next_after}


@router.get("/extractions/{run_id:path}")
async def run(run_id: Name, services: Given) -> ExtractionRunDocument:
    """Return a run: its steps, what it read, which fields failed and why."""
    description = await services.read(lambda view: describe_run(view, run_id))
    if description is None:
        raise ApiError("extraction_run_not_known", "no run of this name has begun")
    return description


@router.get("/sources/{source_ref:path}/extraction")
async def of_source(source_ref: Name, services: Given) -> SourceExtractionDocument:
    """Return the fields of a source: current, failed, or stale and framed as that."""
    return await services.read(lambda view: describe_source(view, source_ref))
