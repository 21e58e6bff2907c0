"""Sums up what happened lately: operations by intent and actor, the newest of them, runs."""

from typing import Final

from typing_extensions import TypedDict

from kernel.audit.costs import CostTotalDocument, cost_totals
from kernel.audit.operations import AuditFilter, OperationEntryDocument, find_operations
from kernel.records.access.readable_view import ReadableView
from kernel.values.host import iso_time
from workers.views import landscape
from workers.views.audit import page_document, totals_document

NEWEST_SHOWN: Final = 10
LOOKED_AT_MAX: Final = 1000
"""Rows of the log, from its end, among which the newest operations of a time are."""


class RecentActivityDocument(TypedDict):
    """What happened since a time."""

    since: str
    by_intent: list[CostTotalDocument]
    complete: bool
    """Whether all of the time is in the sums."""

    newest: list[OperationEntryDocument]
    runs: landscape.ActivityDocument


def recent_activity(
    view: ReadableView, now_us: int, *, minutes: int, summed_max: int
) -> RecentActivityDocument:
    """Return what happened in the last minutes, the newest operations first."""
    since_us = max(0, now_us - minutes * 60_000_000)
    sums = cost_totals(view, after=0, limit=summed_max, from_us=since_us, before_us=None)
    totals = totals_document(sums.totals, sums.next_after, sums.left_out)
    first = max(0, view.head().ec_sequence_number - LOOKED_AT_MAX)
    page = find_operations(view, AuditFilter(from_us=since_us), after=first, limit=LOOKED_AT_MAX)
    newest = page_document(page)["operations"][-NEWEST_SHOWN:]
    return {
        "since": iso_time(since_us),
        "by_intent": totals["totals"],
        "complete": totals["next_after"] is None,
        "newest": newest[::-1],
        "runs": landscape.recent_activity(view, now_us, minutes=minutes),
    }
