"""Asks what operations cost: each, and together."""

from typing import Annotated, Any, ClassVar, Final

from pydantic import Field

from kernel.audit.costs import CostTotals, cost_entries, cost_totals
from kernel.records.access.readable_view import ReadableView
from workers.questions.fields import AfterNumber, PageByNumber, Since, Until
from workers.questions.question import Question
from workers.views.audit import (
    CostPageDocument,
    CostTotalsDocument,
    costs_document,
    totals_document,
)
from workers.views.moments import us_of

SUMMED_UP_MAX: Final = 10_000


class ListCosts(PageByNumber):
    """List what operations were estimated to cost, what was measured, and to whom it counts."""

    paths: ClassVar = ("/v1/audit/costs",)
    subject: ClassVar = "audit"
    rows: ClassVar = "entries"

    since: Since = None
    until: Until = None

    def answer(self, view: ReadableView) -> CostPageDocument:
        """Return a page of entries."""
        time = {"from_us": us_of(self.since), "before_us": us_of(self.until)}
        return costs_document(cost_entries(view, after=self.after, limit=self.limit, **time))


class SumCosts(Question):
    """Sum up what operations cost, by intent and actor; go on while `next_after` is given."""

    paths: ClassVar = ("/v1/audit/costs/totals",)
    subject: ClassVar = "audit"
    rows: ClassVar = "totals"

    since: Since = None
    until: Until = None
    after: AfterNumber = 0
    limit: Annotated[
        int, Field(ge=1, le=SUMMED_UP_MAX, description="At most so many operations are summed up.")
    ] = SUMMED_UP_MAX

    def answer(self, view: ReadableView) -> CostTotalsDocument:
        """Return the sums."""
        page = self.page(view, self.after)
        return totals_document(page.totals, page.next_after, page.left_out)

    def page(self, view: ReadableView, after: int) -> CostTotals:
        """Return the sums over the operations after a sequence."""
        time = {"from_us": us_of(self.since), "before_us": us_of(self.until)}
        return cost_totals(view, after=after, limit=self.limit, **time)

    def summary(self, document: Any) -> str:
        """Return how many sums there are."""
        return f"{len(document['totals'])} sums by intent and actor"
