"""Tools of the record: operations, nodes, the log, extractions."""

from typing import Annotated

from pydantic import Field

from kernel.audit.log import log_document
from kernel.ledger.ledger import LedgerView
from kernel.records.extraction import State
from kernel.work.extractions.reading import describe_run, describe_source, runs_in_state
from workers.mcp.answers import page
from workers.mcp.fields import AfterName, AfterSequence, Limit, Name
from workers.mcp.part_tool import PartTool
from workers.mcp.tool import Document, Tool, ToolContext, existing
from workers.views.records import describe_node, describe_operation


class GetOperation(PartTool):
    """Show an operation: its row of the log, envelope, effects and receipts.

    Of a refused operation there are receipts alone; they say by which check and why.
    """

    operation_id: Name

    async def whole(self, context: ToolContext) -> Document:
        """Return the operation."""
        record = await context.read(lambda view: describe_operation(view, self.operation_id))
        return {**existing(record, self.operation_id)}

    def summary(self, document: Document) -> str:
        """Return what was done, and by whom."""
        row = document.get("row")
        what = (
            f"{row['semantic_intent']} by {row['actor']}, row {row['ec_sequence_number']},"
            f" with {len(document.get('effects', []))} effects"
            if row is not None
            else "not on the log"
        )
        return f"{what}; {len(document['receipts'])} receipts"


class GetNode(PartTool):
    """Show a node of the graph as it is now: a source, a claim, an understanding, a binding, ….

    `authority_stale_since` says since when an understanding's authority waits for a recompute.
    """

    node_id: Name

    async def whole(self, context: ToolContext) -> Document:
        """Return the node."""
        node = await context.read(lambda view: describe_node(view, self.node_id))
        return {**existing(node, self.node_id)}

    def summary(self, document: Document) -> str:
        """Return what it is, and when it changed."""
        kind = f"{document['node_kind']}, {document['state']}, version {document['version']}"
        return f"{kind}, last changed at {document['updated_at']}"


class ListLog(Tool):
    """List rows of the log in sequence, or the newest ones.

    A row is what is hashed and chained; `find_operations` filters, `get_operation` shows one whole.
    """

    after: AfterSequence = 0
    limit: Limit = 10
    newest: bool = Field(default=False, description="The newest rows, newest first; no next page.")

    async def answer(self, context: ToolContext) -> Document:
        """Return a page of rows."""

        def read(view: LedgerView) -> tuple[list[Document], int]:
            rows = (
                view.log_tail(self.limit)
                if self.newest
                else view.log_rows(after=self.after, limit=self.limit)
            )
            documents: list[Document] = [{**log_document(view, row)} for row in rows]
            return documents, view.head().ec_sequence_number

        rows, head = await context.read(read)
        last = int(rows[-1]["ec_sequence_number"]) if rows else head
        return page(
            "rows",
            rows,
            lambda row: row["ec_sequence_number"],
            last if last < head and not self.newest else None,
            lambda count: f"{count} rows of the log, which has {head}",
        )


class ListExtractions(Tool):
    """List runs of extractions that are in a state now, the blocked ones with their reason."""

    state: State = "blocked"
    after: AfterName = ""
    limit: Limit = 20

    async def answer(self, context: ToolContext) -> Document:
        """Return a page of runs; it may be empty and not the last."""
        listed = await context.read(
            lambda view: runs_in_state(view, self.state, after=self.after, limit=self.limit)
        )
        return page(
            "runs",
            listed.runs,
            lambda run: f"{run['extraction_run_id']}|{run['attempt_number']}",
            listed.next_after,
            lambda count: f"{count} runs of extractions are {self.state}, on this page",
        )


class GetExtraction(PartTool):
    """Show a run of an extraction: its steps, what it read, which fields failed and why."""

    extraction_run_id: Name

    async def whole(self, context: ToolContext) -> Document:
        """Return the run."""
        run = await context.read(lambda view: describe_run(view, self.extraction_run_id))
        return {**existing(run, self.extraction_run_id)}

    def summary(self, document: Document) -> str:
        """Return its state, and how many values it read."""
        return f"{document['state']}: {len(document['values'])} values"


class GetSourceFields(PartTool):
    """Show the fields of a source as its extractions left them: current, failed or stale."""

    source_ref: Annotated[Name, Field(description="Id of the source's node.")]

    async def whole(self, context: ToolContext) -> Document:
        """Return the fields."""
        source = await context.read(lambda view: describe_source(view, self.source_ref))
        if not source["runs"] and not source["fields"]:
            existing(
                await context.read(lambda view: describe_node(view, self.source_ref)),
                self.source_ref,
            )
        return {**source}

    def summary(self, document: Document) -> str:
        """Return the state, and how many fields and runs there are."""
        counts = f"{len(document['fields'])} fields, {len(document['runs'])} runs"
        return f"{document['extraction_state'] or 'never extracted'}: {counts}"
