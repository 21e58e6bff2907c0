"""Asks what gateways counted of queues and of the ledger, at each step of a span of time."""

from typing import Annotated, Any, ClassVar

from pydantic import Field

from kernel.records.access.readable_view import ReadableView
from workers.questions.fields import Since, Until
from workers.questions.question import Question
from workers.questions.requests import Queue
from workers.views.charts import SPANS_S, ChartsDocument, MeasureName, Span, charts
from workers.views.moments import us_of


class GetCharts(Question):
    """Show queues and commits over time, a point for each step; null where nobody counted.

    There are seconds of the last hour and minutes of thirty days.
    """

    paths: ClassVar = ("/v1/charts",)
    subject: ClassVar = "operators"
    action: ClassVar = "read.fleet"

    queue: Queue = None
    measure: Annotated[
        MeasureName | None, Field(description="The one series that is shown, or all of them.")
    ] = None
    span: Annotated[Span, Field(description="Where `since` says no other.")] = "hour"
    since: Since = None
    until: Until = None

    def answer_at(self, view: ReadableView, now_us: int) -> ChartsDocument:
        """Return the charts."""
        until_us = us_of(self.until)
        until_us = now_us if until_us is None else until_us
        since_us = us_of(self.since)
        since_us = until_us - SPANS_S[self.span] * 1_000_000 if since_us is None else since_us
        return charts(
            view,
            now_us,
            since_us=since_us,
            until_us=until_us,
            queue=self.queue,
            measure=self.measure,
        )

    def summary(self, document: Any) -> str:
        """Return how many series there are, and how far apart their points are."""
        count, step_s = len(document["series"]), document["step_s"]
        return f"{count} series since {document['since']}, a point for each {step_s} s"
