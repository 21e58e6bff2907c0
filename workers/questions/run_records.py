"""Asks for the records of a run in pages, by the names of seed 003."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from kernel.records.access.readable_view import ReadableView
from kernel.values.canonical import MAX_SAFE_INTEGER
from workers.questions.fields import AfterName, Limit, Name
from workers.questions.question import Question
from workers.views import run_records
from workers.views.run_records import RecordsDocument

AfterNumber = Annotated[
    int | None, Field(ge=0, le=MAX_SAFE_INTEGER, description="Go on after this number.")
]
OptionalName = Annotated[Name | None, Field(description="Only what has exactly this.")]
StateStatus = Literal["open", "pending", "completed", "failed"]


class PageOfRecords(Question):
    """A page of records."""

    rows_read: ClassVar = 50

    limit: Limit = 100

    def document(self, page: RecordsDocument) -> dict[str, Any]:
        """Return a page under the name of its records."""
        return {self.rows: page["records"], "next_after": page["next_after"]}


class RecordsOfRun(PageOfRecords):
    """A page of a table of a run; what is stated beside run and place is equal in each record."""

    run_id: Name

    def answer(self, view: ReadableView) -> dict[str, Any]:
        """Return the page."""
        equal = self.model_dump()
        run_id, limit, after = (equal.pop(name) for name in ("run_id", "limit", "after"))
        begin = None if after == "" else after
        page = run_records.run_records(view, run_id, self.rows, after=begin, limit=limit, **equal)
        return self.document(page)


class ListNodes(RecordsOfRun):
    """List the nodes of a run with their configuration and schema, by their ids."""

    rows: ClassVar = "nodes"
    place: ClassVar = "node_id"

    after: AfterName = ""


class ListRows(RecordsOfRun):
    """List the rows of a run in the order of their source, each with the hash of its data."""

    rows: ClassVar = "rows"
    place: ClassVar = "row_index"

    after: AfterNumber = None


class ListTokens(RecordsOfRun):
    """List the tokens of a run, or of one row: each is a way through the graph."""

    rows: ClassVar = "tokens"
    place: ClassVar = "token_id"

    row_id: OptionalName = None
    after: AfterName = ""


class ListOperations(RecordsOfRun):
    """List what the sources and sinks of a run did: loads and writes."""

    rows: ClassVar = "operations"
    place: ClassVar = "operation_id"

    operation_type: Literal["source_load", "sink_write"] | None = None
    status: StateStatus | None = None
    after: AfterName = ""


class GetNodeStates(RecordsOfRun):
    """List what happened to tokens at nodes: status, attempt, duration, hashes, errors."""

    rows: ClassVar = "node_states"
    place: ClassVar = "state_id"

    node_id: OptionalName = None
    token_id: OptionalName = None
    status: StateStatus | None = None
    after: AfterName = ""


class Calls(PageOfRecords):
    """A page of the calls to something outside."""

    rows: ClassVar = "calls"
    place: ClassVar = "call_index"

    run_id: Annotated[Name | None, Field(description="Where the id is in several runs.")] = None
    after: AfterNumber = None

    def calls(self, view: ReadableView, parents: str, parent_id: str) -> dict[str, Any]:
        """Return the page of a parent's calls."""
        place: dict[str, Any] = {"after": self.after, "limit": self.limit}
        return self.document(
            run_records.calls_of(view, parents, parent_id, run_id=self.run_id, **place)
        )


class GetCalls(Calls):
    """List the calls to something outside that a state made: models, HTTP, SQL, files."""

    state_id: Name

    def answer(self, view: ReadableView) -> dict[str, Any]:
        """Return the page."""
        return self.calls(view, "node_states", self.state_id)


class GetOperationCalls(Calls):
    """List the calls to something outside that a load or a write of a run made."""

    operation_id: Name

    def answer(self, view: ReadableView) -> dict[str, Any]:
        """Return the page."""
        return self.calls(view, "operations", self.operation_id)


class ListContractViolations(PageOfRecords):
    """List rows that were not valid: the error, the row, which fields it lacks or has beyond."""

    rows: ClassVar = "violations"
    place: ClassVar = "error_id"

    run_id: Name
    after: AfterName = ""

    def answer(self, view: ReadableView) -> dict[str, Any]:
        """Return the page."""
        page = run_records.contract_violations(
            view, self.run_id, after=self.after or None, limit=self.limit
        )
        return self.document(page)
