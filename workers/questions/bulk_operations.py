"""Asks for bulk operations: which there were, and how far one has come."""

from typing import Annotated, Any, ClassVar

from pydantic import Field

from kernel.model.numbers import SEQUENCE_MAX
from kernel.records.access.readable_view import ReadableView
from kernel.work.bulk_operations import (
    BulkOperation,
    BulkOperationsPage,
    bulk_operation,
    list_bulk_operations,
)
from workers.questions.fields import ROWS_READ, Limit
from workers.questions.question import Question, existing
from workers.questions.requests import After


class ListBulkOperations(Question):
    """List bulk operations, newest first."""

    paths: ClassVar = ("/v1/bulk-operations",)
    subject: ClassVar = "operators"
    rows: ClassVar = "bulk_operations"
    rows_read: ClassVar = ROWS_READ
    place: ClassVar = "bulk_number"

    after: After = None
    limit: Limit = 100

    def answer(self, view: ReadableView) -> BulkOperationsPage:
        """Return a page of bulk operations."""
        return list_bulk_operations(view, after=self.after, limit=self.limit)


class GetBulkOperation(Question):
    """Show a bulk operation, and how far it has come."""

    paths: ClassVar = ("/v1/bulk-operations/{bulk_number}",)
    subject: ClassVar = "operators"

    bulk_number: Annotated[int, Field(ge=1, le=SEQUENCE_MAX)]

    def answer(self, view: ReadableView) -> BulkOperation:
        """Return the operation."""
        operation = bulk_operation(view, self.bulk_number)
        return existing(
            operation, "bulk operation", str(self.bulk_number), code="bulk_operation_unknown"
        )

    def summary(self, document: Any) -> str:
        """Return how many of its requests are done."""
        return f"{document['done']} of {document['counted']} requests are done"
