"""Queues rows of a pipeline as work, which a fleet's workers walk (decision workers/0270).

A row is asked for under a key that follows from its run and its place, so it is one request however
often a run is resumed, and its outcome, what happened to it on its way, is on the record once. A
row whose content or whose way does not fit into a request is walked by the process of the run.
"""

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Annotated, Any, Self

import anyio.to_thread
import orjson
from pydantic import BaseModel, ConfigDict, StringConstraints

from kernel.landscape.canonical_types import Canonical, typed_data
from workers.client import JobOutcome, NewRequest, Rotulus
from workers.environment.settings import load_settings
from workers.models.configured_model import model_of
from workers.pipelines.engine.events import WalkEvent, documents_of, events_of
from workers.pipelines.engine.pipeline import Pipeline
from workers.pipelines.engine.source_rows import SourceRow
from workers.pipelines.engine.step import WalkTools
from workers.pipelines.engine.walk import RowWalk
from workers.pipelines.engine.walks import Walks
from workers.pipelines.tools import walk_tools
from workers.plugins import JobContext, JobRefused, QueuePlugin

WAY_BYTES_MAX = 30 * 1024
"""Of a row as it is sent, and of what happened to it; a request takes 32 KiB."""

LOOK_S = 60.0
"""How long one look for outcomes waits."""

_Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class RowToWalk(BaseModel):
    """A row, as it is asked for."""

    model_config = ConfigDict(extra="forbid")

    row_id: _Name
    run_id: _Name
    topology: _Name
    data: Annotated[str, StringConstraints(max_length=WAY_BYTES_MAX)]
    """In canonical form."""


def pipeline_queue(pipeline: Pipeline, *, limit_s: float = 300.0) -> QueuePlugin:
    """Return the queue of a pipeline, to be named by an entry point of `rotulus.queues`."""
    return QueuePlugin(
        name=pipeline.name,
        content=RowToWalk,
        item_key="row_id",
        handler=partial(_walk_job, pipeline),
        limit_s=limit_s,
        concurrency=pipeline.concurrency,
    )


async def _walk_job(pipeline: Pipeline, job: JobContext[RowToWalk]) -> Mapping[str, Any]:
    row = job.content
    if row.topology != pipeline.graph.topology:
        raise JobRefused("pipeline_differs")
    walk = RowWalk(pipeline.graph, _tools(), row.run_id, row.row_id)
    content = Canonical(row.data.encode())
    events = await anyio.to_thread.run_sync(walk.of_row, content)
    way = {"way": documents_of(events)}
    return way if len(typed_data(way)) <= WAY_BYTES_MAX else {"is_too_large": True}


@cache
def _tools() -> WalkTools:
    settings = load_settings()
    return walk_tools(settings, model_of(settings))


class FleetWalks:
    """Has rows walked by the workers of a fleet, all of them at once."""

    def __init__(self, gateway_url: str, pipeline: Pipeline, local: Walks) -> None:
        self._rotulus = Rotulus(gateway_url)
        self._pipeline = pipeline
        self._local = local

    async def __aenter__(self) -> Self:
        await self._rotulus.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._rotulus.__aexit__(None, None, None)

    async def walk(self, run_id: str, rows: Sequence[SourceRow]) -> list[Sequence[WalkEvent]]:
        """Return what happened to each row, in their order.

        Raises:
            GatewayError: nobody could be asked; the run may be resumed.
        """
        requests = {row.index: self._request(run_id, row) for row in rows}
        sent = [row for row in rows if len(orjson.dumps(requests[row.index])) <= WAY_BYTES_MAX]
        walked: dict[int, Sequence[WalkEvent]] = {}
        for row, outcome in zip(sent, await self._outcomes(sent, requests), strict=True):
            way = (outcome.result or {}).get("way")
            if way is not None:
                walked[row.index] = events_of(way)
        # What did not fit, and what ended as a dead letter, is walked here, and says why it fails.
        rest = [row for row in rows if row.index not in walked]
        here = await self._local.walk(run_id, rest)
        walked |= {row.index: events for row, events in zip(rest, here, strict=True)}
        return [walked[row.index] for row in rows]

    def _request(self, run_id: str, row: SourceRow) -> dict[str, str]:
        return {
            "row_id": row.row_id,
            "run_id": run_id,
            "topology": self._pipeline.graph.topology,
            "data": row.content.decode(),
        }

    async def _outcomes(
        self, rows: Sequence[SourceRow], requests: Mapping[int, Mapping[str, str]]
    ) -> list[JobOutcome[Any]]:
        wanted = [
            NewRequest(requests[row.index], queue=self._pipeline.name, key=row.row_id)
            for row in rows
        ]
        jobs = await self._rotulus.enqueue_many(wanted) if wanted else []
        while True:
            outcomes = await self._rotulus.outcomes(jobs, LOOK_S)
            if all(outcome.state != "open" for outcome in outcomes):
                return outcomes
