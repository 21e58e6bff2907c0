"""The page of a worker: what it said of itself with its last beat."""

from starlette.requests import Request
from starlette.responses import Response

from queues.errors import QueueError
from workers.dashboard.pages.page import Pages


async def show(pages: Pages, request: Request) -> Response:
    """Answer with the page of a living worker."""
    worker_id = request.path_params["worker_id"]
    try:
        beat = await pages.source.worker(worker_id)
    except QueueError as error:
        return await pages.refused(request, error.code, str(error))
    if beat is None:
        message = f"no living worker is called {worker_id!r}; its beat may have ended"
        return await pages.refused(request, "not_found", message)
    return await pages.answer(request, "worker", {"beat": beat})
