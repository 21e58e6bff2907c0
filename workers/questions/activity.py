"""Asks what happened lately, and what needs attention among the newest runs."""

from typing import Annotated, Any, ClassVar

from pydantic import Field

from kernel.records.access.readable_view import ReadableView
from workers.questions.costs import SUMMED_UP_MAX
from workers.questions.question import Question
from workers.views import landscape
from workers.views.recent_activity import RecentActivityDocument, recent_activity

Minutes = Annotated[int, Field(ge=1, le=landscape.MINUTES_MAX)]
"""Minutes before now, from which on things are shown."""


class GetRecentActivity(Question):
    """Show what happened lately: operations by intent and actor, the newest of them, runs.

    `complete` says whether all of the time was summed up, or its first 10,000 operations.
    """

    subject: ClassVar = "audit"

    minutes: Minutes = 60

    def answer_at(self, view: ReadableView, now_us: int) -> RecentActivityDocument:
        """Return the sums and the newest operations, the newest first."""
        return recent_activity(view, now_us, minutes=self.minutes, summed_max=SUMMED_UP_MAX)

    def summary(self, document: Any) -> str:
        """Return how many operations there were since when."""
        count = sum(total["operations"] for total in document["by_intent"])
        return f"{count} operations since {document['since']}"


class GetRecentRuns(Question):
    """Show the runs that began in the last minutes, the newest first."""

    paths: ClassVar = ("/v1/landscape/activity",)
    subject: ClassVar = "landscape"

    minutes: Minutes = 60

    def answer_at(self, view: ReadableView, now_us: int) -> landscape.ActivityDocument:
        """Return the runs."""
        return landscape.recent_activity(view, now_us, minutes=self.minutes)


class DiagnoseRuns(Question):
    """Show what needs attention among the newest runs: failed, stuck, unsealed, many errors."""

    paths: ClassVar = ("/v1/landscape/diagnose",)
    subject: ClassVar = "landscape"

    def answer_at(self, view: ReadableView, now_us: int) -> landscape.DiagnosisDocument:
        """Return the problems."""
        return landscape.diagnose(view, now_us)
