"""The requests for work in pages, newest first: of one queue, or of all of them."""

from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from kernel.model.numbers import SEQUENCE_MAX
from kernel.work.dead_letters import DeadLetters, dead_letters
from kernel.work.queue_kinds import QUEUE_KINDS, no_such_queue
from kernel.work.request_lists import RequestPage, RequestSearch, list_requests
from kernel.work.requests import State
from workers.api.errors import ApiError
from workers.api.json_routes import json_router
from workers.api.routes.audit import Moment, Text
from workers.api.routes.records import PAGE_MAX, TEXT_MAX
from workers.api.routes.work_requests import QueueName
from workers.api.services import Given
from workers.views.moments import us_of

router = json_router(prefix="/v1", tags=["operators"])


class RequestCriteria(BaseModel):
    """Which requests are meant; see `RequestSearch`."""

    model_config = ConfigDict(extra="forbid")

    request_id: Text = None
    item_key: Text = None
    request_key: Text = None
    session_id: Text = None
    state: State | None = None
    priority: Text = None
    words: Text = None
    since: Moment | None = None
    until: Moment | None = None
    after: Annotated[int, Field(ge=0, le=SEQUENCE_MAX)] | None = None
    limit: Annotated[int, Field(ge=1, le=PAGE_MAX)] = 100

    def search(self) -> RequestSearch:
        """Return the search that the parameters give."""
        stated = self.model_dump(exclude={"since", "until", "after", "limit"})
        return RequestSearch(**stated, from_us=us_of(self.since), before_us=us_of(self.until))


@router.get("/requests")
async def requests(services: Given, criteria: Annotated[RequestCriteria, Query()]) -> RequestPage:
    """List the requests of all queues, newest first; go on while there is a `next_after`."""
    return await _listed(services, None, criteria)


@router.get("/queues/{queue}/requests")
async def requests_of_queue(
    queue: QueueName, services: Given, criteria: Annotated[RequestCriteria, Query()]
) -> RequestPage:
    """List the requests of a queue, newest first; go on while there is a `next_after`."""
    if queue not in QUEUE_KINDS:
        raise ApiError("work_queue_unknown", no_such_queue(queue))
    return await _listed(services, queue, criteria)


@router.get("/dead-letters")
async def dead_letters_of_all(
    services: Given,
    error_signature: Annotated[str | None, Query(max_length=TEXT_MAX)] = None,
    after: Annotated[str, Query(max_length=TEXT_MAX)] = "",
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 100,
) -> DeadLetters:
    """List what was given up in any queue and is not settled; go on while there is a `next_after`.

    A page may be empty and not the last.
    """
    return await services.read(
        lambda view: dead_letters(
            view, None, error_signature=error_signature, after=after, limit=limit
        )
    )


async def _listed(services: Given, queue: str | None, criteria: RequestCriteria) -> RequestPage:
    search = criteria.search()
    return await services.read(
        lambda view: list_requests(view, queue, search, after=criteria.after, limit=criteria.limit)
    )
