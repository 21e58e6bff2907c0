"""Asks for what waits for a person, with its words, and for what people decided about it."""

from typing import Annotated, Any, ClassVar

from pydantic import Field

from kernel.audit.adjudications import AdjudicationState, adjudications
from kernel.audit.batch_reviews import ReviewedBatchDocument, reviewed_batch
from kernel.audit.open_reviews import (
    BY_NUMBER,
    REVIEWS_MAX,
    ReviewCountsDocument,
    ReviewKind,
    ReviewPageDocument,
    count_open_reviews,
    is_place,
    open_reviews,
)
from kernel.audit.recent_decisions import DECISIONS_MAX, DecisionsDocument, recent_decisions
from kernel.model.receipt import MIGRATION_KIND
from kernel.records.access.readable_view import ReadableView
from kernel.records.reviews.batch import BatchId
from workers.questions.fields import PageByName, PageByNumber
from workers.questions.question import Question, QuestionRefused, existing
from workers.views.audit import AdjudicationPageDocument, adjudications_document

State = Annotated[
    AdjudicationState, Field(description="What waits for a person, or what was settled.")
]


class ListAdjudications(PageByNumber):
    """List conflicts that wait for a person to settle them, or who settled which."""

    paths: ClassVar = ("/v1/audit/adjudications",)
    subject: ClassVar = "audit"
    rows: ClassVar = "items"

    state: State = "open"

    def answer(self, view: ReadableView) -> AdjudicationPageDocument:
        """Return a page of conflicts."""
        return adjudications_document(
            adjudications(view, self.state, after=self.after, limit=self.limit)
        )


class ListMigrationReviews(PageByNumber):
    """List lite operations of version 1.5 that could not be migrated, or who settled which."""

    paths: ClassVar = ("/v1/audit/migration-reviews",)
    subject: ClassVar = "audit"
    rows: ClassVar = "items"

    state: State = "open"

    def answer(self, view: ReadableView) -> AdjudicationPageDocument:
        """Return a page of operations."""
        page = adjudications(
            view, self.state, kind=MIGRATION_KIND, after=self.after, limit=self.limit
        )
        return adjudications_document(page)


class ListReviews(PageByName):
    """List what waits for a person, of a kind, with the words that it was read from, and why.

    `passages` are the words of its sources; `marks` in them are counted in characters of the
    source. Go on while `next_after` is given.
    """

    paths: ClassVar = ("/v1/reviews/open",)
    subject: ClassVar = "reviews"
    rows: ClassVar = "items"

    kind: Annotated[ReviewKind, Field(description="What waits.")]
    limit: Annotated[int, Field(ge=1, le=REVIEWS_MAX, description="At most so many rows.")] = (
        REVIEWS_MAX
    )

    def answer(self, view: ReadableView) -> ReviewPageDocument:
        """Return a page of what waits."""
        if not is_place(self.kind, self.after):
            raise QuestionRefused(f"{self.kind}s go on after a number", code="INVALID_REQUEST")
        return open_reviews(view, self.kind, after=self.after, limit=self.limit).document()

    def place_of(self, row: Any) -> object:
        """Return the id of an item; some kinds go on after a number that an item does not have."""
        return None if self.kind in BY_NUMBER else row["record_id"]


class ListReviewDecisions(Question):
    """List what people decided lately about what waited for them: what, who, and why."""

    paths: ClassVar = ("/v1/reviews/decided",)
    subject: ClassVar = "reviews"

    limit: Annotated[int, Field(ge=1, le=REVIEWS_MAX, description="At most so many rows.")] = (
        DECISIONS_MAX
    )

    def answer(self, view: ReadableView) -> DecisionsDocument:
        """Return the newest decisions."""
        return recent_decisions(view, self.limit)

    def summary(self, document: Any) -> str:
        """Return how many are shown."""
        return f"{len(document['decisions'])} decisions, the last first"


class CountReviews(Question):
    """Count what waits for a person, by its kind."""

    paths: ClassVar = ("/v1/reviews/counts",)
    subject: ClassVar = "reviews"

    def answer(self, view: ReadableView) -> ReviewCountsDocument:
        """Return how many items of each kind wait."""
        return count_open_reviews(view)

    def summary(self, document: Any) -> str:
        """Return how many wait in all."""
        return f"{sum(document.values()) - document['counted_max']} items wait for a person"


class GetReviewedBatch(Question):
    """Show a reviewed batch with the state of every item as it is now, and its retries."""

    paths: ClassVar = ("/v1/reviews/batches/{batch_review_id:path}",)
    subject: ClassVar = "reviews"

    batch_review_id: BatchId

    def answer(self, view: ReadableView) -> ReviewedBatchDocument:
        """Return the batch."""
        document = reviewed_batch(view, self.batch_review_id)
        return existing(document, "batch", self.batch_review_id, code="batch_review_unknown")

    def summary(self, document: Any) -> str:
        """Return what became of its items."""
        counts = f"{document['success_count']} of {document['total_items']} items succeeded"
        return f"{counts}, {document['failure_count']} failed"
