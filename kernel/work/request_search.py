"""Finds the requests that fit a search, newest first, along an index and within bounds.

An index leads to what has a tag, an error signature, an item, a state or a queue, each of the first
three with a queue; with a tag and with a queue also by state. Requests are numbered in the order of
their times, so a time is a number, and an id, a number or a producer's key is one request. What
leads to none (a priority, a session, words of a reason or of a content, a signature beside a tag,
an item beside either) is compared with each request that an index leads to: one call looks at
`ROWS_MAX` requests, or at `ENTRIES_MAX` entries of the index of an item, and says where to go on.

An error signature is why a request was given up, or that of its newest attempt that failed,
whatever became of it: two indexes lead there. The second one knows no states: where one is asked
for, it is looked up, of `FAILURES_MAX` requests in one call.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from types import MappingProxyType
from typing import Final, Literal

import orjson
from sqlalchemy import Table

from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView, Request
from kernel.ledger.outbox import CANCELLED, COMPLETED, DEAD_LETTER, OPEN, SETTLED, STATES
from kernel.ledger.store.tables import (
    PAGE_ROWS,
    SEARCH_ROWS,
    Row,
    TableQuery,
    distinct_look,
    distinct_values,
    rows_in_pages,
)
from kernel.work.errors import WorkRefused
from kernel.work.outcomes import known_queues
from kernel.work.requests import State, closing_ids, request_id_of

ROWS_MAX = 1000
"""Requests that one call compares with what no index knows."""

ENTRIES_MAX = 20_000
"""Entries of an index that one call compares: more than an item may have requests."""

FAILURES_MAX = 4000
"""Requests with failures whose states one call looks up."""

NUMBERS_MAX: Final = 256
"""Requests that a search names by their numbers."""

DIGITS_MAX: Final = 15
"""Digits of a number: fewer than those of the largest one that every reader takes."""

FIRST_ROWS: Final = 16
"""Entries that are read first of each part of an index; the next time twice as many."""

STATE_NAMES: Final[Mapping[int, State]] = MappingProxyType(
    {
        OPEN: "open",
        COMPLETED: "completed",
        CANCELLED: "cancelled",
        DEAD_LETTER: "dead_letter",
        SETTLED: "dead_letter",
    }
)


StateAsked = Literal["open", "completed", "dead_letter", "cancelled", "standing"]


@dataclass(frozen=True, slots=True)
class RequestSearch:
    """What is asked of requests; None asks nothing."""

    queue: str | None = None
    request_id: str | None = None
    item_key: str | None = None
    request_key: str | None = None
    tag: str | None = None
    """A key and its value, as `customer=acme`."""

    error_signature: str | None = None
    """Why it was given up, or the signature of its newest attempt that failed."""

    session_id: str | None = None
    """The session of the operation that it follows from; no producer's request has one."""

    state: StateAsked | None = None
    """`standing` are the dead letters that nobody has requeued or dismissed."""

    priority: str | None = None
    words: str | None = None
    """A part of the reason for which it was given up or cancelled, in whatever case."""

    content_words: str | None = None
    """A part of the content as JSON, in whatever case."""

    numbers: str | None = None
    """The sequences of requests, such as `3,17`; see `numbers_in`."""

    from_us: int | None = None
    before_us: int | None = None

    def is_named(self) -> bool:
        """Tell whether it names requests, so that no index is walked along."""
        names = (self.request_id, self.request_key, self.numbers)
        return any(name is not None for name in names)

    def states(self) -> tuple[int, ...]:
        """Return the states that are asked for."""
        if self.state == "standing":
            return (DEAD_LETTER,)
        return tuple(s for s in STATES if self.state in (None, STATE_NAMES[s]))


@dataclass(frozen=True, slots=True)
class FittingRequests:
    """Rows of the outbox that fit a search, newest first."""

    rows: tuple[Row, ...]
    next_after: int | None
    """Before which sequence the search goes on; None at its end."""

    complete: bool
    """False where a bound ended the call before it had as many rows as were asked for, or all."""


def find_requests(
    view: LedgerView, search: RequestSearch, *, after: int | None, limit: int
) -> FittingRequests:
    """Return the requests that fit and were recorded before the one that `after` names."""
    walk = _Walk(view, search, limit)
    rows: list[Row] = []
    for part in walk.parts(after):
        rows += part
        if len(rows) > limit:
            return FittingRequests(tuple(rows[:limit]), rows[limit - 1]["request_sequence"], True)
    stopped_at = walk.stopped_at
    return FittingRequests(tuple(rows), stopped_at, stopped_at is None)


def count_requests(
    view: LedgerView, search: RequestSearch, most: int, *, after: int | None = None
) -> tuple[int, bool]:
    """Count the requests that fit, at most so many; False where there may be more.

    Where `after` names a request, those are counted that were recorded before it.

    Along an index its entries are counted and no request is read; otherwise one call's bound holds.
    """
    walk = _Walk(view, search, PAGE_ROWS)
    count = walk.count(most + 1, after)
    return min(count, most), count <= most and walk.stopped_at is None


class _Walk:
    """One call of a search."""

    def __init__(self, view: LedgerView, search: RequestSearch, limit: int) -> None:
        self._view = view
        self._search = search
        self._states = search.states()
        self._limit = limit
        self._tests = self._tests_of(search)
        self._compares = bool(
            self._tests
            or search.priority is not None
            or (search.item_key is not None and (search.tag or search.error_signature is not None))
        )
        self._looks_up_states = (
            search.error_signature is not None
            and search.tag is None
            and len(self._states) < len(STATES)
        )
        self.stopped_at: int | None = None
        """The last sequence that was looked at, where a bound ended the call."""

    def parts(self, after: int | None) -> Iterator[list[Row]]:
        """Yield the rows that fit, in parts, until all or a bound's worth was looked at."""
        search = self._search
        if search.is_named():
            rows = self._rows_by_name()
            yield self._fitting([row for row in rows if after is None or _is_before(row, after)])
            return
        low, high = self._sequences(after)
        at_once = SEARCH_ROWS if self._compares else self._limit + 1
        looked_at, part = 0, list[int]()
        for sequence in self._candidates(low, high):
            part.append(sequence)
            if len(part) == at_once:
                yield self._fitting(self._rows(part))
                looked_at += len(part)
                part = []
                if self._compares and looked_at >= ROWS_MAX:
                    self.stopped_at = sequence
                    return
        if part:
            yield self._fitting(self._rows(part))

    def count(self, most: int, after: int | None) -> int:
        """Return how many requests fit, at most so many."""
        search = self._search
        if self._compares or search.is_named():
            return sum(map(len, self.parts(after)))
        return sum(1 for _ in islice(self._candidates(*self._sequences(after)), most))

    def _sequences(self, after: int | None) -> tuple[int, int | None]:
        """Return the first sequence of the time that is asked for, and the first one behind it."""
        search, view = self._search, self._view
        low = 0 if search.from_us is None else _first_at(view, search.from_us)
        if search.before_us is None:
            return low, after
        high = _first_at(view, search.before_us)
        return low, high if after is None else min(high, after)

    def _candidates(self, low: int, high: int | None) -> Iterator[int]:
        """Yield the sequences to which an index leads, newest first."""
        queries = self._queries()
        page = max(FIRST_ROWS, self._limit // max(len(queries), 1) + 1)
        if len(queries) > 1:
            self._view.ask_ahead(others=[_page_of(query, high, page) for query in queries])
        streams = [self._entries(query, high, page) for query in queries]
        with_states_max = FAILURES_MAX if self._looks_up_states else ENTRIES_MAX
        with_states, newer = 0, None
        for sequence, *state in merge(*streams, reverse=True):
            if sequence < low:
                return
            if with_states == with_states_max and state:
                self.stopped_at = sequence + 1
                return
            with_states += len(state)
            # A request may have been given up for what is its signature too.
            if sequence != newer and (not state or state[0] in self._states):
                newer = sequence
                yield sequence

    def _queries(self) -> list[TableQuery]:
        """Return the queries whose rows, taken together, an index leads to."""
        search, states = self._search, self._states
        if search.tag is not None:
            return self._of_queues(schema.request_tags, {"tag": search.tag}, "state", states)
        if search.error_signature is not None:
            equal = {"error_signature": search.error_signature}
            settled = [int(s == SETTLED) for s in states if s in (DEAD_LETTER, SETTLED)]
            return [
                *self._of_queues(schema.dead_letters, equal, "settled", settled),
                *self._of_queues(schema.request_failures, equal),
            ]
        if search.item_key is not None:
            item = {"item_key": search.item_key}
            opens = sorted({int(state == OPEN) for state in states})
            return [
                query._replace(columns=("request_sequence", "state"))
                for query in self._of_queues(schema.outbox, item, "open", opens)
            ]
        if search.queue is None and len(states) == len(STATES):
            return [_query(schema.outbox, {})]
        return self._of_queues(schema.outbox, {}, "state", states)

    def _of_queues(
        self, table: Table, equal: Mapping[str, str], column: str = "", values: Iterable[int] = ()
    ) -> list[TableQuery]:
        """Return a query for each queue, and where a column is named for each of its values."""
        queue = self._search.queue
        queues = recorded_queues(self._view) if queue is None else [queue]
        of_values: list[dict[str, int]] = [{column: value} for value in values] if column else [{}]
        return [
            _query(table, {**equal, **of_value, "queue": name})
            for of_value in of_values
            for name in queues
        ]

    def _entries(
        self, query: TableQuery, before: int | None, at_once: int
    ) -> Iterator[tuple[int, ...]]:
        """Yield the entries of an index before a sequence, newest first, the next page larger."""
        looks_up = self._looks_up_states and query.table is schema.request_failures
        after = before
        while True:
            rows = self._view.tables.scan(_page_of(query, after, at_once))
            yield from self._with_states(rows) if looks_up else rows
            if len(rows) < at_once:
                return
            after, at_once = rows[-1][0], min(at_once * 2, PAGE_ROWS)

    def _with_states(self, rows: list[tuple[int]]) -> list[tuple[int, int]]:
        """Return the sequences of requests with their states."""
        columns = ("request_sequence", "state")
        any_of = ("request_sequence", [sequence for (sequence,) in rows])
        query = TableQuery(schema.outbox, any_of=any_of, columns=columns)
        return sorted(self._view.tables.scan(query), reverse=True)

    def _rows_by_name(self) -> list[Row]:
        """Return the requests under an id, under numbers or a producer's key, the newest first."""
        search = self._search
        numbers = None if search.numbers is None else numbers_in(search.numbers)
        if search.request_id is None and search.request_key is None:
            return self._rows(numbers or [])
        ids = {search.request_id}
        if search.request_key is not None:
            queue = search.queue
            queues = recorded_queues(self._view) if queue is None else [queue]
            by_key: set[str | None] = {request_id_of(name, search.request_key) for name in queues}
            ids = by_key if search.request_id is None else by_key & ids
        rows = [self._view.tables.get(schema.outbox, name) for name in ids if name]
        numbered = [row for row in rows if row and (numbers is None or _sequence(row) in numbers)]
        return sorted(numbered, key=_sequence, reverse=True)

    def _rows(self, sequences: list[int]) -> list[Row]:
        query = TableQuery(schema.outbox, any_of=("request_sequence", sequences))
        return sorted(self._view.tables.scan(query), key=_sequence, reverse=True)

    def _fitting(self, rows: list[Row]) -> list[Row]:
        """Return the rows that fit; what costs least to read is compared first."""
        rows = [row for row in rows if self._row_fits(row)]
        for test in self._tests:
            fitting = test(rows) if rows else ()
            rows = [row for row in rows if row["request_sequence"] in fitting]
        return rows

    def _tests_of(self, search: RequestSearch) -> list[Callable[[list[Row]], set[int]]]:
        """Return what finds among rows those that fit in what their columns do not say."""
        is_named = search.is_named()
        tests: list[Callable[[list[Row]], set[int]]] = []
        if search.tag is not None and is_named:
            tests.append(self._has_tag)
        if search.error_signature is not None and (is_named or search.tag is not None):
            tests.append(self._has_signature)
        if search.session_id is not None:
            tests.append(self._is_of_session)
        if search.content_words is not None:
            tests.append(self._has_content_words)
        if search.words is not None:
            tests.append(self._has_words)
        return tests

    def _row_fits(self, row: Row) -> bool:
        search = self._search
        return (
            row["state"] in self._states
            and search.queue in (None, row["queue"])
            and search.item_key in (None, row["item_key"])
            and search.priority in (None, row["priority"])
            and (search.from_us is None or row["enqueued_at_us"] >= search.from_us)
            and (search.before_us is None or row["enqueued_at_us"] < search.before_us)
        )

    def _has_tag(self, rows: list[Row]) -> set[int]:
        return self._sequences_in(schema.request_tags, {"tag": self._search.tag}, rows)

    def _has_signature(self, rows: list[Row]) -> set[int]:
        signature = self._search.error_signature
        query = TableQuery(
            schema.request_failures,
            any_of=("request_id", [row["request_id"] for row in rows]),
            columns=("request_sequence", "error_signature"),
        )
        failed = {sequence for sequence, why in self._view.tables.scan(query) if why == signature}
        given_up = self._sequences_in(schema.dead_letters, {"error_signature": signature}, rows)
        return failed | given_up

    def _sequences_in(self, table: Table, equal: Document, rows: list[Row]) -> set[int]:
        sequences = [row["request_sequence"] for row in rows]
        query = TableQuery(
            table, equal, ("request_sequence", sequences), columns=("request_sequence",)
        )
        return {sequence for (sequence,) in self._view.tables.scan(query)}

    def _is_of_session(self, rows: list[Row]) -> set[int]:
        """Return those that an operation of the session caused; no producer's request has one."""
        causes = {
            row["request_sequence"]: row["cause_sequence"]
            for row in rows
            if "request_key" not in Request.of_row(row).document
        }
        query = TableQuery(
            schema.kernel_event_log,
            {"session_id": self._search.session_id},
            ("ec_sequence_number", [*causes.values()]),
            ("ec_sequence_number",),
        )
        of_session = {sequence for (sequence,) in self._view.tables.scan(query)}
        return {sequence for sequence, cause in causes.items() if cause in of_session}

    def _has_content_words(self, rows: list[Row]) -> set[int]:
        words = (self._search.content_words or "").casefold()
        return {_sequence(row) for row in rows if words in _content_text(row).casefold()}

    def _has_words(self, rows: list[Row]) -> set[int]:
        words = (self._search.words or "").casefold()
        reasons = reasons_of(self._view, rows)
        return {sequence for sequence, why in reasons.items() if words in why.casefold()}


def _page_of(query: TableQuery, after: int | None, limit: int) -> TableQuery:
    return query._replace(after=after, limit=limit)


_QUEUES = TableQuery(schema.outbox, columns=("queue",))


def numbers_in(text: str) -> list[int]:
    """Return the sequences that a text names, such as `3,17`.

    Raises:
        WorkRefused: `work_request_invalid`.
    """
    parts = text.split(",")
    if not all(part.isascii() and part.isdigit() and len(part) <= DIGITS_MAX for part in parts):
        raise WorkRefused("work_request_invalid", "numbers are written like 3,17", "numbers")
    if len(parts) > NUMBERS_MAX:
        message = f"a search names {NUMBERS_MAX} requests at most"
        raise WorkRefused("work_request_invalid", message, "numbers")
    return sorted(set(map(int, parts)))


def _content_text(row: Row) -> str:
    document = Request.of_row(row).document
    return orjson.dumps(document.get("content", document)).decode()


def recorded_queues(view: LedgerView) -> list[str]:
    """Return the queues of which requests are on the record, by a look for each."""
    view.ask_ahead(others=looks_for_queues())
    return [*distinct_values(view.tables, _QUEUES)]


def looks_for_queues() -> list[TableQuery]:
    """Return the looks of `recorded_queues` where there are no queues but those that are known."""
    return [distinct_look(_QUEUES, name) for name in (None, *known_queues())]


def reasons_of(view: LedgerView, rows: Iterable[Row]) -> dict[int, str]:
    """Return why requests were given up or cancelled, by their sequences; of others nothing."""
    sequences = {
        receipt_id: row["request_sequence"]
        for row in rows
        if not row["open"]
        for receipt_id in closing_ids(row["request_id"])
    }
    query = TableQuery(
        schema.receipts,
        any_of=("receipt_id", [*sequences]),
        columns=("receipt_id", "receipt_bytes"),
    )
    reasons = {}
    for receipt_id, content in view.tables.scan(query):
        receipt = orjson.loads(content)
        reason = receipt.get("reason", receipt.get("error_signature"))
        if reason is not None:
            reasons[sequences[receipt_id]] = str(reason)
    return reasons


def closing_times_of(view: LedgerView, rows: Iterable[Row]) -> dict[str, int]:
    """Return when requests had their outcomes, by their ids; of open ones nothing."""
    query = TableQuery(
        schema.outbox_outcomes,
        any_of=("request_id", [row["request_id"] for row in rows if not row["open"]]),
        columns=("request_id", "closed_at_us"),
    )
    return dict(view.tables.scan(query))


def _query(table: Table, where: Mapping[str, str | int]) -> TableQuery:
    return TableQuery(
        table, where, columns=("request_sequence",), order_by="request_sequence", descending=True
    )


def requests_caused_by(view: LedgerView, ec_sequence_number: int) -> Iterator[Request]:
    """Yield what the record asks for because of an operation, in its order."""
    after = first_request_caused_at(view, ec_sequence_number) - 1
    query = TableQuery(schema.outbox, order_by="request_sequence", after=after, limit=SEARCH_ROWS)
    for row in rows_in_pages(view.tables, query):
        request = Request.of_row(row)
        if request.cause_sequence != ec_sequence_number:
            return
        # A producer's request is recorded behind an operation that has nothing to do with it.
        if "request_key" not in request.document:
            yield request


def first_request_caused_at(view: LedgerView, ec_sequence_number: int) -> int:
    """Return the sequence of the first request that was asked for behind a row, or later.

    Where there is none it is that of the next one.
    """
    return _first_at(view, ec_sequence_number, "cause_sequence")


def _first_at(view: LedgerView, at: int, column: str = "enqueued_at_us") -> int:
    """Return the sequence of the first request with a value, or a greater one, in a column.

    The column rises with the sequence, as the time does at which it was asked for.
    """
    newest = view.tables.scan(_query(schema.outbox, {})._replace(limit=1))
    low, high = 1, newest[0][0] + 1 if newest else 1
    while low < high:
        middle = (low + high) // 2
        query = TableQuery(
            schema.outbox,
            columns=("request_sequence", column),
            order_by="request_sequence",
            after=middle - 1,
            limit=1,
        )
        rows = view.tables.scan(query)
        if rows and rows[0][1] < at:
            low = rows[0][0] + 1
        else:
            high = middle
    return low


def _sequence(row: Row) -> int:
    sequence: int = row["request_sequence"]
    return sequence


def _is_before(row: Row, after: int) -> bool:
    return _sequence(row) < after
