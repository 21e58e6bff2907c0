"""Asks for operations: which there are, one of them, what caused it, what undoing it takes."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field
from typing_extensions import TypedDict

from kernel.audit.lineage import causal_ancestors
from kernel.audit.log import LogRowDocument, log_document
from kernel.audit.newest_operations import newest_operations
from kernel.audit.operations import AuditFilter, find_operations
from kernel.audit.preview import preview_rollback
from kernel.ledger.store.tables import Row
from kernel.records.access.readable_view import ReadableView
from workers.questions.fields import Name, PageByNumber, Sequence, Since, Until
from workers.questions.question import Question, existing
from workers.views.audit import (
    AncestryDocument,
    OperationPageDocument,
    RollbackPreviewDocument,
    ancestry_document,
    inverse_refused_by,
    page_document,
    preview_document,
)
from workers.views.moments import us_of
from workers.views.records import OperationRecordDocument, describe_operation

Order = Annotated[
    Literal["oldest", "newest"],
    Field(description="Which come first; of the newest, `after` is where to go on before."),
]


class LogPage(TypedDict):
    """Rows of the log."""

    rows: list[LogRowDocument]
    next_after: str | None


class FindOperations(PageByNumber):
    """Find operations by what they wrote, meant or may undo, in sequence; conditions add up.

    With `order` as newest the newest come first, and `after` is the sequence before which to go on.
    Go on while `next_after` is given: a page may be empty and not the last (audit queries Q1 to
    Q3).
    """

    paths: ClassVar = ("/v1/audit/operations",)
    subject: ClassVar = "audit"
    rows: ClassVar = "operations"
    place: ClassVar = "ec_sequence_number"

    entity: Annotated[
        Name | None,
        Field(description="Operations that wrote this record: a node, an edge, any key."),
    ] = None
    declared: Annotated[
        bool, Field(description="Also those whose scope names `entity`; slow, reads envelopes.")
    ] = False
    semantic_intent: Annotated[Name | None, Field(description="Verb, such as create.")] = None
    effect_kind: Annotated[
        Name | None, Field(description="Effect kind, as given or canonical.")
    ] = None
    reversibility: Annotated[
        Name | None, Field(description="Of one effect, such as irreversible_external_effect.")
    ] = None
    actor: Annotated[Name | None, Field(description="user, system, agent or migration.")] = None
    session_id: Annotated[Name | None, Field(description="Operations of this session.")] = None
    since: Since = None
    until: Until = None
    from_sequence: Annotated[Sequence | None, Field(description="First sequence.")] = None
    to_sequence: Annotated[Sequence | None, Field(description="Last sequence.")] = None
    order: Order = "oldest"

    def answer(self, view: ReadableView) -> OperationPageDocument:
        """Return a page of operations."""
        conditions = self.model_dump(exclude={"since", "until", "order", "after", "limit"})
        criteria = AuditFilter(**conditions, from_us=us_of(self.since), before_us=us_of(self.until))
        if self.order == "newest":
            page = newest_operations(view, criteria, before=self.after or None, limit=self.limit)
        else:
            page = find_operations(view, criteria, after=self.after, limit=self.limit)
        return page_document(page)


class GetAncestors(PageByNumber):
    """Trace what caused an operation, back to where the chain begins; itself last (Q4)."""

    paths: ClassVar = ("/v1/audit/ancestors/{operation_id:path}",)
    subject: ClassVar = "audit"
    rows: ClassVar = "operations"
    place: ClassVar = "ec_sequence_number"

    operation_id: Name

    def answer(self, view: ReadableView) -> AncestryDocument:
        """Return a page of ancestors, with the roots of all."""
        ancestry = causal_ancestors(view, self.operation_id, after=self.after, limit=self.limit)
        return ancestry_document(existing(ancestry, "operation", self.operation_id))

    def summary(self, document: Any) -> str:
        """Return how many of the ancestors are shown."""
        count = len(document["operations"])
        return f"{count} of its ancestors; {len(document['roots'])} roots"


class PreviewRollback(Question):
    """Show what undoing an operation would take, and why it would be refused now (Q5).

    Nothing is undone.
    """

    paths: ClassVar = ("/v1/audit/rollback-preview/{operation_id:path}",)
    subject: ClassVar = "audit"

    operation_id: Name

    def answer(self, view: ReadableView) -> RollbackPreviewDocument:
        """Return the preview."""
        preview = preview_rollback(view, self.operation_id)
        refused_by = inverse_refused_by(view, self.operation_id)
        return preview_document(existing(preview, "operation", self.operation_id), refused_by)

    def summary(self, document: Any) -> str:
        """Return whether it would be refused, and what it would take."""
        refused_by = document["refused_by"]
        verdict = f"refused now: {refused_by}" if refused_by else "admitted now"
        tier = f"tier {document['lowest_tier']}, {len(document['effects'])} effects"
        return f"its inverse is {verdict}; {tier}"


class GetOperation(Question):
    """Show an operation: its row of the log, envelope, effects and receipts.

    Of a refused operation there are receipts alone; they say by which check and why.
    """

    paths: ClassVar = ("/v1/operations/{operation_id}",)

    operation_id: Name

    def answer(self, view: ReadableView) -> OperationRecordDocument:
        """Return the operation."""
        document = describe_operation(view, self.operation_id)
        return existing(document, "operation", self.operation_id)

    def summary(self, document: Any) -> str:
        """Return what was done, and by whom."""
        row = document.get("row")
        what = (
            f"{row['semantic_intent']} by {row['actor']}, row {row['ec_sequence_number']},"
            f" with {len(document.get('effects', []))} effects"
            if row is not None
            else "not on the log"
        )
        return f"{what}; {len(document['receipts'])} receipts"


class ListLog(PageByNumber):
    """List rows of the log in sequence, or the newest first.

    A row is what is hashed and chained. With `order` as newest `after` is the sequence before which
    to go on.
    """

    paths: ClassVar = ("/v1/log",)
    rows: ClassVar = "rows"
    place: ClassVar = "ec_sequence_number"

    order: Order = "oldest"

    def answer(self, view: ReadableView) -> LogPage:
        """Return a page of rows."""
        if self.order == "oldest":
            rows, end = view.log_rows(after=self.after, limit=self.limit), view.head()
            is_end = not rows or rows[-1]["ec_sequence_number"] == end.ec_sequence_number
        else:
            rows = self._newest(view)
            is_end = not rows or rows[-1]["ec_sequence_number"] == 1
        documents = [log_document(view, row) for row in rows]
        return {
            "rows": documents,
            "next_after": None if is_end else str(rows[-1]["ec_sequence_number"]),
        }

    def _newest(self, view: ReadableView) -> list[Row]:
        """Return the rows before a sequence, or the last of all; the sequences have no gaps."""
        if not self.after:
            return view.log_tail(self.limit)
        first = max(1, self.after - self.limit)
        return view.log_rows(after=first - 1, limit=self.after - first)[::-1]
