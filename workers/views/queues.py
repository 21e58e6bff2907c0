"""Describes a queue on one page: its open requests, pauses, dead letters, requests."""

from dataclasses import dataclass, replace

from kernel.records.access.readable_view import ReadableView
from kernel.work.dead_letters import DeadLetters, dead_letters
from kernel.work.outcomes import open_by_queue
from kernel.work.pauses import Pause, pauses_of
from kernel.work.queue_kinds import QUEUE_KINDS
from kernel.work.request_lists import RequestPage, list_requests
from kernel.work.request_search import RequestSearch
from queues.queue.items import QueueDepth
from workers.views.backlog import Backlog, backlog


@dataclass(frozen=True, slots=True)
class QueueSummary:
    """A queue with a page of its requests and of its unsettled dead letters."""

    priorities: tuple[str, ...]
    backlog: Backlog | None
    """None where Redis does not answer."""

    pauses: tuple[Pause, ...]
    requests: RequestPage
    dead: DeadLetters


def queue_summary(
    view: ReadableView,
    name: str,
    depth: QueueDepth | None,
    search: RequestSearch,
    *,
    after: int | None,
    dead_after: int | None,
    limit: int,
) -> QueueSummary:
    """Return a queue; `depth` is None where Redis does not answer."""
    return QueueSummary(
        tuple(priority.name for priority in QUEUE_KINDS[name].priorities),
        None if depth is None else backlog(depth, open_by_queue(view).get(name, 0)),
        tuple(pause for pause in pauses_of(view) if pause.queue == name),
        list_requests(view, replace(search, queue=name), after=after, limit=limit),
        dead_letters(view, name, error_signature=None, after=dead_after, limit=limit),
    )
