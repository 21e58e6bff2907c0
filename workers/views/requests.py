"""Describes requests on pages, and one by itself: how it stands, why it waits, what can be done."""

from dataclasses import dataclass, fields
from typing import Final, Self

from kernel.records.access.readable_view import ReadableView
from kernel.values.host import iso_time
from kernel.work.queue_kinds import QUEUE_KINDS, is_requestable
from kernel.work.request_history import RequestHistory, request_history
from kernel.work.request_lists import (
    RequestPage,
    RequestSummary,
    list_requests,
    requests_under,
)
from kernel.work.request_search import RequestSearch, count_requests
from kernel.work.requests import WorkStatus, ask_ahead_of, status_of
from queues.errors import QueueError
from queues.queue.items import BATCH_ITEMS_MAX, LiveItem, claimed_us, is_of, worker_of
from queues.queue.job_progress import JobProgress, NotedProgress
from workers.views.surroundings import RequestServices, why_open
from workers.views.waiting import RecordedHold, hold_of_request

COUNTED_MAX: Final = 1000
"""Requests of a list that are counted."""


@dataclass(frozen=True, slots=True)
class RequestDocument(WorkStatus):
    """A request as it stands, and how far its handler is."""

    progress: NotedProgress | None = None
    """What the handler of an open one said last; kept for an hour, and lost with Redis."""

    @classmethod
    def of(cls, status: WorkStatus, progress: NotedProgress | None) -> Self:
        """Return what the record says of a request, with what its handler says."""
        said = {field.name: getattr(status, field.name) for field in fields(status)}
        return cls(**said, progress=progress)


@dataclass(frozen=True, slots=True)
class RequestView:
    """A request as it stands, and why it waits; `why` is None where it has its outcome."""

    status: RequestDocument
    why: str | None
    may_be_cancelled: bool
    may_be_requeued: bool
    may_be_dismissed: bool
    other_priorities: tuple[str, ...]
    """The priorities that an open one may be given."""

    history: RequestHistory


async def request_view(
    services: RequestServices, queue: str, request_id: str
) -> RequestView | None:
    """Return a request of a queue; None where nothing asked this queue for it."""
    now_us = services.ledger.host.now_us()

    def read(view: ReadableView) -> tuple[WorkStatus, RequestHistory, RecordedHold | None] | None:
        ask_ahead_of(view, [request_id], attempts=True, holds=True)
        status = status_of(view, request_id, attempts=True)
        if status is None or status.queue != queue:
            return None
        history = request_history(view, status)
        return status, history, hold_of_request(view, request_id, now_us)

    known = await services.read(read)
    if known is None:
        return None
    status, history, held = known
    why = await why_open(services, queue, held)
    is_settled = status.requeued_as is not None or status.dismissed is not None
    is_dead = status.state == "dead_letter" and not is_settled
    # What the record itself asks for is neither taken back nor asked for anew by anybody.
    is_asked = is_requestable(queue)
    return RequestView(
        RequestDocument.of(status, await progress_of(services, status)),
        why,
        may_be_cancelled=status.state == "open" and is_asked,
        may_be_requeued=is_dead and is_asked,
        may_be_dismissed=is_dead,
        other_priorities=_other_priorities(status),
        history=history,
    )


def _other_priorities(status: WorkStatus) -> tuple[str, ...]:
    kind = QUEUE_KINDS.get(status.queue) if status.state == "open" else None
    names = () if kind is None else (priority.name for priority in kind.priorities)
    return tuple(name for name in names if name != status.priority)


async def progress_of(services: RequestServices, status: WorkStatus) -> NotedProgress | None:
    """Return what the handler of an open request said last; None where Redis does not answer."""
    if status.state != "open":
        return None
    try:
        return await JobProgress(services.work.redis).of(status.queue, status.request_id)
    except QueueError:
        return None


@dataclass(frozen=True, slots=True)
class FittingPage:
    """A page of requests, with how many fit on all pages."""

    page: RequestPage
    count: int
    counted_all: bool
    """False where there may be more than were counted."""


def requests_page(
    view: ReadableView, search: RequestSearch, after: int | None, limit: int
) -> FittingPage:
    """Return a page of the requests of all queues that fit, newest first, with their number."""
    count, is_complete = count_requests(view, search, COUNTED_MAX)
    page = list_requests(view, search, after=after, limit=limit)
    return FittingPage(page, count, is_complete)


@dataclass(frozen=True, slots=True)
class RequestInHand:
    """A request whose item a worker has claimed."""

    request: RequestSummary
    attempts: int
    worker: str
    """Who claimed it, as far as the claim says so."""

    claimed_at: str
    claimed_until: str
    """When its claim ends, unless its worker renews it."""


@dataclass(frozen=True, slots=True)
class RequestsInHand:
    """What workers have in hand, those first that have it longest."""

    requests: tuple[RequestInHand, ...]
    count: int
    """Items in hand in all."""


async def requests_in_hand(
    services: RequestServices, queue: str | None, limit: int, worker_id: str | None = None
) -> RequestsInHand:
    """Return what workers have in hand, of a queue or of all; or one of them, where it is named.

    Raises:
        QueueError: `queue_unavailable`.
    """
    items: dict[str, LiveItem] = {}
    count = 0
    for name, each in tuple(services.work.queues.items()):
        if queue in (None, name):
            claimed = await each.peek(BATCH_ITEMS_MAX, state="in_flight")
            theirs = [each for each in claimed if worker_id is None or is_of(each.token, worker_id)]
            count += len(theirs)
            items |= {_request_of(item): item for item in theirs}
    oldest = sorted(items, key=lambda request_id: _claimed_us(items[request_id]))[:limit]
    known = await services.read(lambda view: requests_under(view, oldest))
    in_hand = (_in_hand(request, items[request.request_id]) for request in known)
    rows = sorted(in_hand, key=lambda each: (each.claimed_at, each.request.request_sequence))
    return RequestsInHand(tuple(rows), count)


def _request_of(item: LiveItem) -> str:
    """Return the first request of an item, which its first cause names."""
    return item.causes[0].rpartition("!")[0] if item.causes else item.key


def _in_hand(request: RequestSummary, item: LiveItem) -> RequestInHand:
    return RequestInHand(
        request,
        item.attempts,
        worker_of(item.token),
        iso_time(_claimed_us(item)),
        iso_time(1000 * (item.state_ends_at_ms or 0)),
    )


def _claimed_us(item: LiveItem) -> int:
    """Return when an item was claimed; the end of its claim where the claim does not say so."""
    return claimed_us(item.token, 1000 * (item.state_ends_at_ms or 0))
