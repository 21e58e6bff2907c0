"""The requests of a queue in pages, newest first, by what is asked of them.

A page is read along an index of the queue, or of one item, so it costs what it shows and not the
past. What no index knows (an outcome, a priority, a time, words of an error) is compared with each
request as it is read: a call looks at `SCANNED_MAX` requests at most and says where to go on.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import islice

from kernel.host import iso_time
from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView, Request
from kernel.ledger.tables import Row
from kernel.work.requests import State, closing_receipt, request_id_of

SCANNED_MAX = 1000
PAGE_ROWS = 200


@dataclass(frozen=True, slots=True)
class RequestSearch:
    """What is asked of requests; None asks nothing."""

    item_key: str | None = None
    request_key: str | None = None
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
    """Requests of a queue, newest first."""

    requests: tuple[RequestSummary, ...]
    next_after: int | None
    """Where the next page begins; None after the last. A page may be empty and not the last."""


def list_requests(
    view: LedgerView, queue: str, search: RequestSearch, *, after: int | None, limit: int
) -> RequestPage:
    """Return the requests of a queue that fit, of those recorded before the one `after` names."""
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
    view: LedgerView, queue: str, search: RequestSearch, after: int | None
) -> Iterator[Row]:
    """Read the open requests and the closed ones, each along its part of the index."""
    if search.request_key is not None:
        row = view.tables.get(schema.outbox, request_id_of(queue, search.request_key))
        fits = row is not None and search.item_key in (None, row["item_key"])
        return iter([row] if row is not None and fits and after is None else [])
    parts = (1, 0) if search.state is None else (1,) if search.state == "open" else (0,)
    streams = [_part(view, queue, search.item_key, is_open, after) for is_open in parts]
    return merge(*streams, key=lambda row: row["request_sequence"], reverse=True)


def _part(
    view: LedgerView, queue: str, item_key: str | None, is_open: int, after: int | None
) -> Iterator[Row]:
    where: dict[str, int | str] = {"queue": queue, "open": is_open}
    if item_key is not None:
        where["item_key"] = item_key
    while True:
        rows = view.tables.select(
            schema.outbox,
            where,
            order_by="request_sequence",
            after=after,
            descending=True,
            limit=PAGE_ROWS,
        )
        yield from rows
        if len(rows) < PAGE_ROWS:
            return
        after = rows[-1]["request_sequence"]


def _summary_of_fitting(view: LedgerView, row: Row, search: RequestSearch) -> RequestSummary | None:
    """Return the summary of a request that fits; what costs least to read is compared first."""
    if not _row_fits(row, search):
        return None
    request_id = row["request_id"]
    outcome = view.outcome_of(request_id)
    state: State = "open" if outcome is None else outcome["outcome"]
    if search.state not in (None, state):
        return None
    receipt = {} if outcome is None else closing_receipt(view, request_id)
    reason = receipt.get("reason", receipt.get("error_signature"))
    if search.words is not None and search.words.casefold() not in (reason or "").casefold():
        return None
    return RequestSummary(
        request_id,
        row["request_sequence"],
        Request.of_row(row).document.get("request_key"),
        row["item_key"],
        row["priority"],
        state,
        iso_time(row["enqueued_at_us"]),
        None if outcome is None else iso_time(outcome["closed_at_us"]),
        reason,
    )


def _row_fits(row: Row, search: RequestSearch) -> bool:
    at_us = row["enqueued_at_us"]
    return (
        search.priority in (None, row["priority"])
        and (search.from_us is None or at_us >= search.from_us)
        and (search.before_us is None or at_us < search.before_us)
    )
