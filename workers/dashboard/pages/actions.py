"""Records the action of a posted form, then leads the browser back to its page."""

from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from kernel.values.errors import KernelError
from queues.errors import REDIS_FAILED, QueueError
from workers.dashboard.headers import PAGE
from workers.dashboard.pages.forms import FormRefused, action_of
from workers.dashboard.pages.page import Pages, in_url, relative_root


async def act(pages: Pages, request: Request) -> Response:
    """Do what a form asks for; a reload of the page that follows does not ask again."""
    queue, verb = request.path_params["queue"], request.path_params["verb"]
    try:
        action = await action_of(request, queue, verb)
        if action.request_id and await pages.source.request(queue, action.request_id) is None:
            message = "nobody asked this queue for this request"
            return await pages.refused(request, "work_request_unknown", message)
        await pages.source.act(action)
    except (FormRefused, KernelError) as error:
        return await pages.refused(request, error.code, str(error))
    except QueueError as error:
        if error.code not in REDIS_FAILED:
            return await pages.refused(request, error.code, str(error))
        message = "it is on the record, and Redis did not answer; the queue follows once it does"
        return await pages.refused(request, error.code, message)
    place = f"{relative_root(request)}/queues/{in_url(queue)}"
    if action.request_id:
        place += f"/requests/{in_url(action.request_id)}"
    return RedirectResponse(f"{place}?{urlencode({'done': verb})}", 303, headers=PAGE)
