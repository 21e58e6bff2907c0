"""Counts how requests ended, by queue: once, and then by what is new since the last look.

Every request that was given up or cancelled has a durable receipt that says so; whatever else is
recorded and not open was completed. So no look reads more than what is new, and none of the past.
"""

from collections import Counter

import orjson

from kernel.authority.requests import AUTHORITY_QUEUE
from kernel.ledger.store.tables import PAGE_ROWS, Row
from kernel.records.access.readable_view import ReadableView
from kernel.records.external import EXTERNAL_QUEUE
from kernel.records.external_report import FAILED
from kernel.verify.causeless import GIVEN_UP
from kernel.work.outcomes import open_by_queue
from kernel.work.receipts import CLOSED

PAGES_MAX = 100
"""Pages of requests, and of receipts, that one look reads."""

OUTCOMES = ("completed", "dead_letter", "cancelled")

_GIVEN_UP_OF = {GIVEN_UP: AUTHORITY_QUEUE, FAILED: EXTERNAL_QUEUE}
"""The queue of the request that a receipt gives up, by its kind."""


class RequestTally:
    """The tally of one ledger; one look at a time."""

    def __init__(self) -> None:
        self._recorded: Counter[str] = Counter()
        self._not_completed: Counter[tuple[str, str]] = Counter()
        self._request_sequence = 0
        self._receipt_sequence = 0

    def look(self, view: ReadableView) -> dict[tuple[str, str], int] | None:
        """Return how many requests ended, by queue and outcome, for the queues that have any.

        None while the past has not been read to its end; the next look goes on.
        """
        # Both are read, so that they reach the end together.
        is_whole = all([self._count_requests(view), self._count_receipts(view)])
        if not is_whole:
            return None
        still_open = open_by_queue(view)
        counts: dict[tuple[str, str], int] = {}
        for queue, recorded in sorted(self._recorded.items()):
            others = {outcome: self._not_completed[queue, outcome] for outcome in OUTCOMES[1:]}
            completed = recorded - still_open.get(queue, 0) - sum(others.values())
            for outcome, count in {OUTCOMES[0]: completed, **others}.items():
                counts[queue, outcome] = count
        return counts

    def _count_requests(self, view: ReadableView) -> bool:
        for _ in range(PAGES_MAX):
            rows = view.recorded_queues(after=self._request_sequence, limit=PAGE_ROWS)
            self._recorded.update(queue for _, queue in rows)
            if rows:
                self._request_sequence = rows[-1][0]
            if len(rows) < PAGE_ROWS:
                return True
        return False

    def _count_receipts(self, view: ReadableView) -> bool:
        for _ in range(PAGES_MAX):
            rows = view.receipt_rows(after=self._receipt_sequence, limit=PAGE_ROWS)
            for row in rows:
                self._count_receipt(row)
            if rows:
                self._receipt_sequence = rows[-1]["receipt_sequence"]
            if len(rows) < PAGE_ROWS:
                return True
        return False

    def _count_receipt(self, row: Row) -> None:
        kind = row["receipt_kind"]
        # An operation may emit a receipt of any kind; of these, it closes a request with one alone.
        if (kind == FAILED) != (row["operation_id"] is not None):
            return
        if kind in _GIVEN_UP_OF:
            self._not_completed[_GIVEN_UP_OF[kind], "dead_letter"] += 1
        elif kind == CLOSED:
            receipt = orjson.loads(row["receipt_bytes"])
            if receipt["outcome"] != "completed":
                self._not_completed[receipt["queue"], receipt["outcome"]] += 1
