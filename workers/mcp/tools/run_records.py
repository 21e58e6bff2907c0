"""Tools that list the records of a run in pages, by the names of seed 003."""

from abc import abstractmethod
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from kernel.ledger.ledger import LedgerView
from kernel.values.canonical import MAX_SAFE_INTEGER
from workers.mcp.answers import page
from workers.mcp.fields import AfterName, Limit, Name, OptionalName
from workers.mcp.tool import Document, Tool, ToolContext
from workers.views import run_records
from workers.views.run_records import RecordsDocument

NUMBER_MAX = MAX_SAFE_INTEGER

AfterNumber = Annotated[
    int | None, Field(ge=0, le=NUMBER_MAX, description="`next.after` of the page before.")
]
StateStatus = Literal["open", "pending", "completed", "failed"]


class _Listing(Tool):
    """A page of records; `rows` is what they are called, `place` where the next page goes on."""

    rows: ClassVar[str]
    place: ClassVar[str]

    limit: Limit = 50

    @abstractmethod
    def listed(self, view: LedgerView) -> RecordsDocument:
        """Return the page that the view gives."""

    async def answer(self, context: ToolContext) -> Document:
        """Return a page of records, as many as fit."""
        document = await context.read(self.listed)
        called = self.rows.replace("_", " ")
        return page(
            self.rows,
            document["records"],
            lambda record: record[self.place],
            document["next_after"],
            lambda count: f"{count} {called} on this page",
        )


class _RunListing(_Listing):
    """A page of a table of a run; what is stated beside run and place is equal in each record."""

    run_id: Name

    def listed(self, view: LedgerView) -> RecordsDocument:
        """Return the page."""
        equal = self.model_dump()
        run_id, limit, after = (equal.pop(name) for name in ("run_id", "limit", "after"))
        begin = None if after == "" else after
        return run_records.run_records(view, run_id, self.rows, after=begin, limit=limit, **equal)


class ListNodes(_RunListing):
    """List the nodes of a run with their configuration and schema, by their ids."""

    rows, place = "nodes", "node_id"

    after: AfterName = ""


class ListRows(_RunListing):
    """List the rows of a run in the order of their source, each with the hash of its data."""

    rows, place = "rows", "row_index"

    after: AfterNumber = None


class ListTokens(_RunListing):
    """List the tokens of a run, or of one row: each is a way through the graph."""

    rows, place = "tokens", "token_id"

    row_id: OptionalName = None
    after: AfterName = ""


class ListOperations(_RunListing):
    """List what the sources and sinks of a run did: loads and writes."""

    rows, place = "operations", "operation_id"

    operation_type: Literal["source_load", "sink_write"] | None = None
    status: StateStatus | None = None
    after: AfterName = ""


class GetNodeStates(_RunListing):
    """List what happened to tokens at nodes: status, attempt, duration, hashes, errors."""

    rows, place = "node_states", "state_id"

    node_id: OptionalName = None
    token_id: OptionalName = None
    status: StateStatus | None = None
    after: AfterName = ""


class _Calls(_Listing):
    rows, place = "calls", "call_index"

    run_id: Annotated[Name | None, Field(description="Where the id is in several runs.")] = None
    after: AfterNumber = None

    def calls(self, view: LedgerView, parents: str, parent_id: str) -> RecordsDocument:
        """Return the page of a parent's calls."""
        return run_records.calls_of(
            view, parents, parent_id, run_id=self.run_id, after=self.after, limit=self.limit
        )


class GetCalls(_Calls):
    """List the calls to something outside that a state made: models, HTTP, SQL, files."""

    state_id: Name

    def listed(self, view: LedgerView) -> RecordsDocument:
        """Return the page."""
        return self.calls(view, "node_states", self.state_id)


class GetOperationCalls(_Calls):
    """List the calls to something outside that a load or a write of a run made."""

    operation_id: Name

    def listed(self, view: LedgerView) -> RecordsDocument:
        """Return the page."""
        return self.calls(view, "operations", self.operation_id)


class ListContractViolations(_Listing):
    """List rows that were not valid: the error, the row, which fields it lacks or has beyond."""

    rows, place = "violations", "error_id"

    run_id: Name
    after: AfterName = ""

    def listed(self, view: LedgerView) -> RecordsDocument:
        """Return the page."""
        return run_records.contract_violations(
            view, self.run_id, after=self.after or None, limit=self.limit
        )
