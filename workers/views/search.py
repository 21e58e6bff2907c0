"""Finds what a text names on the record, or else where it occurs; every list is bounded.

A text that is an id, a queue, a number of a row or the key of one request names one thing. It is
compared with the keys, items, tags and error signatures of requests, and with the beginnings of
ids, items and tags, along their indexes; and as words with reasons of requests, with sessions, runs
and queues, the newest first. Keys of producers are no column, so a key is found when it is whole.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Final, Literal

from kernel.audit.beginnings import (
    IdKind,
    ids_beginning,
    item_keys_beginning,
    tags_beginning,
)
from kernel.audit.newest_operations import newest_operations
from kernel.audit.operations import AuditFilter, OperationEntryDocument
from kernel.audit.provenance_steps import resolve_name
from kernel.landscape.errors import LandscapeRefused
from kernel.landscape.lineage import locate_record
from kernel.landscape.overview import runs_page
from kernel.landscape.runtime.views import run_view
from kernel.model.numbers import SEQUENCE_MAX
from kernel.records.access.readable_view import ReadableView
from kernel.work.queue_kinds import QUEUE_KINDS
from kernel.work.request_lists import RequestSummary, list_requests
from kernel.work.request_search import RequestSearch
from workers.views.session_lists import SessionSummaryDocument, find_sessions

ROWS_MAX: Final = 10
"""Rows of each list."""

RUNS_SCANNED_MAX: Final = 200
_DIGITS_MAX = len(str(SEQUENCE_MAX))

SubjectKind = IdKind | Literal["queue"]


@dataclass(frozen=True, slots=True)
class SearchSubject:
    """One thing that a text names."""

    kind: SubjectKind
    """`record` is whatever else has its own explanation."""

    name: str
    queue: str = ""
    """The queue of a request."""


@dataclass(frozen=True, slots=True)
class RequestMatches:
    """Requests in which a text occurs in one way."""

    criterion: str
    """The field of `RequestSearch` that has the text."""

    requests: tuple[RequestSummary, ...]
    are_all: bool


@dataclass(frozen=True, slots=True)
class SearchResults:
    """Where a text occurs, at most `ROWS_MAX` of each."""

    beginning: tuple[SearchSubject, ...]
    """Things whose ids begin with it and go on, in the order of their ids."""

    item_keys: tuple[str, ...]
    """Keys of items of requests that begin with it and go on."""

    tags: tuple[str, ...]
    """Tags of requests that begin with it and go on."""

    requests: tuple[RequestMatches, ...]
    sessions: tuple[SessionSummaryDocument, ...]
    operations: tuple[OperationEntryDocument, ...]
    """Those that wrote the record of this name."""

    runs: tuple[str, ...]
    queues: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        """Whether the text occurs nowhere."""
        return not any(getattr(self, each.name) for each in fields(self))


def named_subject(view: ReadableView, text: str) -> SearchSubject | None:
    """Return the one thing that a text names; None where it names none, or several requests."""
    if text in QUEUE_KINDS:
        return SearchSubject("queue", text)
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX:
        row = view.log_row_at(min(int(text), SEQUENCE_MAX))
        if row is not None:
            return SearchSubject("operation", row["operation_id"])
    named = resolve_name(view, text)
    if named is None:
        return _subject_beside_the_log(view, text)
    if named.kind == "request":
        return _request(view, RequestSearch(request_id=text))
    kinds: Mapping[str, SubjectKind] = {"operation": "operation", "session": "session"}
    return SearchSubject(kinds.get(named.kind, "record"), text)


def _subject_beside_the_log(view: ReadableView, text: str) -> SearchSubject | None:
    """Return what a text names that has no row on the log and no record of the kernel's."""
    if "\x00" in text:
        return None
    if view.receipts_of(text):
        return SearchSubject("operation", text)
    of_session = newest_operations(view, AuditFilter(session_id=text), before=None, limit=1)
    if of_session.entries:
        return SearchSubject("session", text)
    request = _request(view, RequestSearch(request_key=text))
    if request is not None:
        return request
    try:
        kind, _, _ = locate_record(run_view(view, text), text)
    except LandscapeRefused:
        return None
    return SearchSubject("run" if kind == "runs" else "record", text)


def _request(view: ReadableView, search: RequestSearch) -> SearchSubject | None:
    """Return the request that a search is about; None where it is about none or several."""
    requests = list_requests(view, search, after=None, limit=2).requests
    if len(requests) != 1:
        return None
    return SearchSubject("request", requests[0].request_id, requests[0].queue)


def search_results(view: ReadableView, text: str) -> SearchResults:
    """Return where a text occurs, the newest first, at most `ROWS_MAX` of each kind."""
    words = text.casefold()
    sessions = find_sessions(view, text, after=None, limit=ROWS_MAX)["sessions"]
    written = newest_operations(view, AuditFilter(entity=text), before=None, limit=ROWS_MAX)
    runs = runs_page(view, status=None, before_us=None, limit=RUNS_SCANNED_MAX).runs
    run_ids = [row["run_id"] for row in runs if words in row["run_id"].casefold()]
    return SearchResults(
        tuple(SearchSubject(*each) for each in ids_beginning(view, text, ROWS_MAX)),
        tuple(item_keys_beginning(view, text, ROWS_MAX)),
        tuple(tags_beginning(view, text, ROWS_MAX)),
        tuple(_request_matches(view, text)),
        tuple(sessions),
        tuple(entry.document() for entry in written.entries),
        tuple(run_ids[:ROWS_MAX]),
        tuple(name for name in QUEUE_KINDS if words in name.casefold())[:ROWS_MAX],
    )


def _request_matches(view: ReadableView, text: str) -> Iterator[RequestMatches]:
    searches = {
        "request_key": RequestSearch(request_key=text),
        "item_key": RequestSearch(item_key=text),
        "tag": RequestSearch(tag=text),
        "error_signature": RequestSearch(error_signature=text),
        "words": RequestSearch(words=text),
    }
    for criterion, search in searches.items():
        page = list_requests(view, search, after=None, limit=ROWS_MAX)
        if page.requests:
            yield RequestMatches(criterion, page.requests, page.next_after is None)
