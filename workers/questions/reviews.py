"""Asks for what waits for a person: conflicts, migrations, evidence, outcomes, batches."""

from typing import Annotated, Any, ClassVar

from pydantic import Field

from kernel.audit.adjudications import AdjudicationState, adjudications
from kernel.audit.batch_reviews import ReviewedBatchDocument, reviewed_batch
from kernel.audit.open_reviews import (
    REVIEWS_MAX,
    ReviewKind,
    ReviewPageDocument,
    is_place,
    open_reviews,
)
from kernel.ledger.ledger import LedgerView
from kernel.model.receipt import MIGRATION_KIND
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

    def answer(self, view: LedgerView) -> AdjudicationPageDocument:
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

    def answer(self, view: LedgerView) -> AdjudicationPageDocument:
        """Return a page of operations."""
        page = adjudications(
            view, self.state, kind=MIGRATION_KIND, after=self.after, limit=self.limit
        )
        return adjudications_document(page)


class ListReviews(PageByName):
    """List evidence that a person has to confirm or reject, and outcomes to look at, and why."""

    paths: ClassVar = ("/v1/reviews/open",)
    subject: ClassVar = "reviews"
    rows: ClassVar = "items"

    kind: Annotated[ReviewKind, Field(description="What waits.")]
    limit: Annotated[int, Field(ge=1, le=REVIEWS_MAX, description="At most so many rows.")] = (
        REVIEWS_MAX
    )

    def answer(self, view: LedgerView) -> ReviewPageDocument:
        """Return a page of what waits."""
        if not is_place(self.kind, self.after):
            raise QuestionRefused("outcomes go on after a number", code="INVALID_REQUEST")
        return open_reviews(view, self.kind, after=self.after, limit=self.limit).document()

    def place_of(self, row: Any) -> object:
        """Return the id of evidence; outcomes go on after a number that they do not have."""
        return None if self.kind == "outcome" else row["record_id"]


class GetReviewedBatch(Question):
    """Show a reviewed batch with the state of every item as it is now, and its retries."""

    paths: ClassVar = ("/v1/reviews/batches/{batch_review_id:path}",)
    subject: ClassVar = "reviews"

    batch_review_id: BatchId

    def answer(self, view: LedgerView) -> ReviewedBatchDocument:
        """Return the batch."""
        document = reviewed_batch(view, self.batch_review_id)
        return existing(document, "batch", self.batch_review_id, code="batch_review_unknown")

    def summary(self, document: Any) -> str:
        """Return what became of its items."""
        counts = f"{document['success_count']} of {document['total_items']} items succeeded"
        return f"{counts}, {document['failure_count']} failed"
