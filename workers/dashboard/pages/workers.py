"""Answers with the pages of who works: workers, the capacity that they share, and schedules."""

from starlette.requests import Request
from starlette.responses import Response

from queues.errors import QueueError
from workers.dashboard.formatting import duration
from workers.dashboard.pages.page import Pages
from workers.environment.system_host import now_ms


async def list_workers(pages: Pages, request: Request) -> Response:
    """Answer with the living workers, and with who holds what capacity."""
    try:
        queues = await pages.source.queues()
        capacity = await pages.source.capacity()
    except QueueError as error:
        return await pages.refuse(request, error.code, str(error))
    context = {
        "fleet": queues["fleet"],
        "late": queues["late_workers"],
        "unserved": [*queues["queues"].keys() - {q for b in queues["fleet"] for q in b.queues}],
        "capacity": capacity,
        "now_ms": now_ms(),
        "duration": duration,
    }
    return await pages.answer(request, "workers", context)


async def show_worker(pages: Pages, request: Request) -> Response:
    """Answer with the page of a living worker, and what it has in hand."""
    worker_id = request.path_params["worker_id"]
    try:
        beat = await pages.source.worker(worker_id)
        in_hand = await pages.source.in_hand(None, worker_id)
    except QueueError as error:
        return await pages.refuse(request, error.code, str(error))
    if beat is None:
        message = f"no living worker is called {worker_id!r}; its beat may have ended"
        return await pages.refuse(request, "not_found", message)
    context = {"beat": beat, "in_hand": in_hand, "now_ms": now_ms(), "duration": duration}
    return await pages.answer(request, "worker", context)


async def list_schedules(pages: Pages, request: Request) -> Response:
    """Answer with what is done periodically: when it was done last, and when it is due next."""
    try:
        schedules = await pages.source.schedules()
    except QueueError as error:
        return await pages.refuse(request, error.code, str(error))
    context = {"schedules": schedules, "now_s": now_ms() // 1000, "duration": duration}
    return await pages.answer(request, "schedules", context)
