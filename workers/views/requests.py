"""Requests on pages, and one by itself: how it stands, why it waits, what can be done."""

from dataclasses import dataclass

from kernel.ledger.ledger import LedgerView
from kernel.work.queue_kinds import asked_kind
from kernel.work.request_lists import RequestPage, RequestSearch, list_requests
from kernel.work.requests import WorkStatus, status_of
from workers.views.surroundings import RequestServices, why_open


@dataclass(frozen=True, slots=True)
class RequestView:
    """A request as it stands, and why it waits; `why` is None where it has its outcome."""

    status: WorkStatus
    why: str | None
    may_be_cancelled: bool
    may_be_requeued: bool
    may_be_dismissed: bool


async def request_view(
    services: RequestServices, queue: str, request_id: str
) -> RequestView | None:
    """Return a request of a queue; None where nothing asked this queue for it."""
    status = await services.read(lambda view: status_of(view, request_id))
    if status is None or status.queue != queue:
        return None
    why = await why_open(services, queue, request_id) if status.state == "open" else None
    is_settled = status.requeued_as is not None or status.dismissed is not None
    is_dead = status.state == "dead_letter" and not is_settled
    # What the record itself asks for is neither taken back nor asked for anew by anybody.
    is_asked = asked_kind(queue) is not None
    return RequestView(
        status,
        why,
        may_be_cancelled=status.state == "open" and is_asked,
        may_be_requeued=is_dead and is_asked,
        may_be_dismissed=is_dead,
    )


def requests_page(
    view: LedgerView, search: RequestSearch, after: int | None, limit: int
) -> RequestPage:
    """Return a page of the requests of all queues that fit, newest first."""
    return list_requests(view, None, search, after=after, limit=limit)
