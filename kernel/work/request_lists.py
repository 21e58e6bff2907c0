"""The requests of a queue, or of all of them, in pages, newest first, by what is asked of them.

A page is read along an index of the queue, of one item, or of all requests, so it costs what it
shows and not the past. What no index knows (an outcome, a priority, a time, a session, words of an
error) is compared with each request as it is read: a call looks at `SCANNED_MAX` requests at most
and says where to go on.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import islice

from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView, Request
from kernel.ledger.store.tables import SEARCH_ROWS, Row, TableQuery, rows_in_pages
from kernel.values.host import iso_time
from kernel.work.queue_kinds import QUEUE_KINDS
from kernel.work.requests import State, closing_receipt, request_id_of

SCANNED_MAX = 1000


@dataclass(frozen=True, slots=True)
class RequestSearch:
    """What is asked of requests; None asks nothing."""

    request_id: str | None = None
    item_key: str | None = None
    request_key: str | None = None
    session_id: str | None = None
    """The session of the operation that it follows from; no producer's request has one."""

    state: State | None = None
    priority: str | None = None
    words: str | None = None
    """A part of the reason for which it was given up or cancelled, in whatever case."""

    from_us: int | None = None
    before_us: int | None = None


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


@dataclass(frozen=True, slots=True)
class RequestPage:
    """Requests, newest first."""

    requests: tuple[RequestSummary, ...]
    next_after: int | None
    """Where the next page begins; None after the last. A page may be empty and not the last."""


def list_requests(
    view: LedgerView, queue: str | None, search: RequestSearch, *, after: int | None, limit: int
) -> RequestPage:
    """Return the requests that fit, of a queue or of all, recorded before the one `after` names."""
    page: list[RequestSummary] = []
    scanned = 0
    last = after
    for row in islice(_newest_first(view, queue, search, after), SCANNED_MAX):
        scanned += 1
        summary = _summary_of_fitting(view, row, search)
        if summary is not None:
            if len(page) == limit:
                return RequestPage(tuple(page), page[-1].request_sequence)
            page.append(summary)
        last = row["request_sequence"]
    return RequestPage(tuple(page), last if scanned == SCANNED_MAX else None)


def _newest_first(
    view: LedgerView, queue: str | None, search: RequestSearch, after: int | None
) -> Iterator[Row]:
    """Read the open requests and the closed ones, each along its part of an index."""
    if search.request_id is not None or search.request_key is not None:
        return iter(_requests_by_name(view, queue, search) if after is None else [])
    if queue is None and search.item_key is None and search.state != "open":
        # Along the sequence of all requests; what is asked of an outcome is compared.
        return _part(view, _where(search, None, None), after)
    parts = (1, 0) if search.state is None else (1,) if search.state == "open" else (0,)
    queues = sorted(QUEUE_KINDS) if queue is None else [queue]
    streams = [
        _part(view, _where(search, name, is_open), after) for name in queues for is_open in parts
    ]
    return merge(*streams, key=lambda row: row["request_sequence"], reverse=True)


def _requests_by_name(view: LedgerView, queue: str | None, search: RequestSearch) -> list[Row]:
    """Return the requests under an id or under a producer's key, the newest first."""
    ids: set[str | None] = {search.request_id}
    if search.request_key is not None:
        names = sorted(QUEUE_KINDS) if queue is None else [queue]
        by_key: set[str | None] = {request_id_of(name, search.request_key) for name in names}
        ids = by_key if search.request_id is None else by_key & ids
    rows = [view.tables.get(schema.outbox, request_id) for request_id in ids if request_id]
    fitting = [
        row
        for row in rows
        if row is not None
        and queue in (None, row["queue"])
        and search.item_key in (None, row["item_key"])
    ]
    return sorted(fitting, key=lambda row: row["request_sequence"], reverse=True)


def _where(search: RequestSearch, queue: str | None, is_open: int | None) -> dict[str, int | str]:
    equal = {"queue": queue, "open": is_open, "item_key": search.item_key}
    return {name: value for name, value in equal.items() if value is not None}


def _part(view: LedgerView, where: dict[str, int | str], after: int | None) -> Iterator[Row]:
    query = TableQuery(
        schema.outbox,
        where,
        order_by="request_sequence",
        after=after,
        descending=True,
        limit=SEARCH_ROWS,
    )
    return rows_in_pages(
        view.tables,
        query,
    )


def _summary_of_fitting(view: LedgerView, row: Row, search: RequestSearch) -> RequestSummary | None:
    """Return the summary of a request that fits; what costs least to read is compared first."""
    if not _row_fits(row, search):
        return None
    request_id = row["request_id"]
    outcome = view.outcome_of(request_id)
    state: State = "open" if outcome is None else outcome["outcome"]
    if search.state not in (None, state):
        return None
    document = Request.of_row(row).document
    if search.session_id is not None and search.session_id != _session_of(view, row, document):
        return None
    receipt = {} if outcome is None else closing_receipt(view, request_id)
    reason = receipt.get("reason", receipt.get("error_signature"))
    if search.words is not None and search.words.casefold() not in (reason or "").casefold():
        return None
    return RequestSummary(
        request_id,
        row["request_sequence"],
        row["queue"],
        document.get("request_key"),
        row["item_key"],
        row["priority"],
        state,
        iso_time(row["enqueued_at_us"]),
        None if outcome is None else iso_time(outcome["closed_at_us"]),
        reason,
    )


def _session_of(view: LedgerView, row: Row, document: Document) -> str | None:
    """Return the session of the operation from which a request follows."""
    if "request_key" in document:
        return None
    cause = view.tables.get(schema.kernel_event_log, row["cause_sequence"])
    return None if cause is None else cause["session_id"]


def _row_fits(row: Row, search: RequestSearch) -> bool:
    at_us = row["enqueued_at_us"]
    return (
        search.priority in (None, row["priority"])
        and (search.from_us is None or at_us >= search.from_us)
        and (search.before_us is None or at_us < search.before_us)
    )
