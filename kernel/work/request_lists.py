"""Lists the requests of a queue, or of all, in pages, newest first (`request_search.py`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView, Request
from kernel.ledger.outbox import OPEN
from kernel.ledger.store.tables import Row, TableQuery
from kernel.values.host import iso_time
from kernel.work.request_search import (
    STATE_NAMES,
    RequestSearch,
    closing_times_of,
    find_requests,
    reasons_of,
    recorded_queues,
)
from kernel.work.requests import State


@dataclass(frozen=True, slots=True)
class RequestSummary:
    """A request on a list."""

    request_id: str
    request_sequence: int
    queue: str
    request_key: str | None
    """The producer's name for it; None for a recompute, which no producer named."""

    item_key: str
    priority: str
    state: State
    enqueued_at: str
    closed_at: str | None
    reason: str | None
    tags: dict[str, str]


@dataclass(frozen=True, slots=True)
class RequestPage:
    """Requests, newest first."""

    requests: tuple[RequestSummary, ...]
    next_after: int | None
    """Where the next page begins; None after the last. A page may be empty and not the last."""

    complete: bool
    """False where so much was looked at that the page ended before it was full."""


def list_requests(
    view: LedgerView, search: RequestSearch, *, after: int | None, limit: int
) -> RequestPage:
    """Return the requests that fit, recorded before the one that `after` names."""
    fitting = find_requests(view, search, after=after, limit=limit)
    requests = summaries_of(view, fitting.rows)
    return RequestPage(requests, fitting.next_after, fitting.complete)


def oldest_open(view: LedgerView, queue: str | None, *, after: int, limit: int) -> RequestPage:
    """Return open requests of a queue or of all, those first that were asked for first."""
    rows: list[Row] = []
    for name in recorded_queues(view) if queue is None else [queue]:
        where = {"state": OPEN, "queue": name}
        query = TableQuery(schema.outbox, where, order_by="request_sequence", after=after)
        rows += view.tables.scan(query._replace(limit=limit + 1))
    rows.sort(key=itemgetter("request_sequence"))
    page = rows[:limit]
    next_after = page[-1]["request_sequence"] if len(rows) > limit else None
    return RequestPage(summaries_of(view, page), next_after, True)


def requests_under(view: LedgerView, request_ids: Sequence[str]) -> tuple[RequestSummary, ...]:
    """Return those of the requests with these ids that are on the record, in no order."""
    query = TableQuery(schema.outbox, any_of=("request_id", request_ids))
    return summaries_of(view, view.tables.scan(query))


def summaries_of(view: LedgerView, rows: Sequence[Row]) -> tuple[RequestSummary, ...]:
    """Return rows of the outbox as a list shows them."""
    closed_at_us = closing_times_of(view, rows)
    reasons = reasons_of(view, rows)
    requests = []
    for row in rows:
        document = Request.of_row(row).document
        ended_us = closed_at_us.get(row["request_id"])
        summary = RequestSummary(
            row["request_id"],
            row["request_sequence"],
            row["queue"],
            document.get("request_key"),
            row["item_key"],
            row["priority"],
            STATE_NAMES[row["state"]],
            iso_time(row["enqueued_at_us"]),
            None if ended_us is None else iso_time(ended_us),
            reasons.get(row["request_sequence"]),
            document.get("tags", {}),
        )
        requests.append(summary)
    return tuple(requests)
