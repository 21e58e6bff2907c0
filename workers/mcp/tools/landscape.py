"""Tools of runs, by the names of seed 003: what ran, what it came to, why a row went as it did."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from kernel.ledger.ledger import LedgerView
from workers.mcp.answers import whole_page
from workers.mcp.fields import Limit, Name
from workers.mcp.part_tool import PartTool
from workers.mcp.tool import Document, Tool, ToolContext
from workers.views import landscape, run_records
from workers.views.provenance import Question, explained

RunStatus = Literal["running", "completed", "failed", "interrupted"]


class ListRuns(Tool):
    """List the newest runs, those of a status where one is named."""

    status: RunStatus | None = None
    limit: Limit = 20

    async def answer(self, context: ToolContext) -> Document:
        """Return the runs, the newest first; there is no next page."""
        runs = await context.read(
            lambda view: landscape.list_runs(view, limit=self.limit, status=self.status)
        )
        return whole_page(
            "runs", {"runs": runs, "next_after": None}, lambda count: f"the {count} newest runs"
        )


class ExplainToken(PartTool):
    """Explain a token, or whatever else has an id: by which way it came to be.

    Of an id of a run (token, row, node, state, call, batch) the whole lineage: the source with its
    data, every state with its attempts, routing, calls, parents, children, errors and the outcome.
    Of anything else on the record (an understanding's authority, an observation, an operation, a
    request, a session, `session/hypothesis`) the steps back to the words of sources.
    """

    token_id: Annotated[Name, Field(description="A token, or any other id on the record.")]
    run_id: Annotated[Name | None, Field(description="Where the id is in several runs.")] = None
    sink: Annotated[Name | None, Field(description="Only what ended in this sink.")] = None

    async def whole(self, context: ToolContext) -> Document:
        """Return the lineage of an id of a run, or the way of anything else to its sources."""
        question = Question(self.token_id, run_id=self.run_id, sink=self.sink)
        answer = await context.read(lambda view: explained(view, question))
        explanation: Mapping[str, Any] = answer["provenance"] or answer["lineage"] or {}
        return {"kind": answer["kind"], **explanation}

    def summary(self, document: Document) -> str:
        """Return what the id names, and how much there is to its way."""
        if "steps" in document:
            return f"{document['kind']}: {len(document['steps'])} steps back to its sources"
        return f"{document['kind']}: the lineage of {len(document['lineages'])} tokens"


class _Report(PartTool):
    """A report on a run; `about` is what it is of the run."""

    about: ClassVar[str]
    under = "report"

    run_id: Name

    @abstractmethod
    def reported(self, view: LedgerView) -> Mapping[str, Any]:
        """Return what the view says of the run."""

    async def whole(self, context: ToolContext) -> Document:
        """Return the report."""
        return {**await context.read(self.reported)}

    def summary(self, document: Document) -> str:
        """Return what the report is about."""
        return f"{self.about} of {document['run_id']}"


class GetRun(_Report):
    """Show a run as it is recorded: its configuration, its schema, when it began and ended."""

    about = "the record"

    def reported(self, view: LedgerView) -> Mapping[str, Any]:
        """Return the record."""
        return run_records.run_record(view, self.run_id)


class GetRunSummary(_Report):
    """Show what a run came to: counts, errors, outcomes, its grade, its seal on the log."""

    about = "the summary"

    def reported(self, view: LedgerView) -> Mapping[str, Any]:
        """Return the summary."""
        return landscape.run_summary(view, self.run_id)


class GetErrors(_Report):
    """List errors of a run: of validation, of transforms, of states that failed, or all.

    In a run of the runtime the states that failed are requests that were given up or taken back;
    `get_request` says why.
    """

    about = "errors"

    error_type: landscape.ErrorKind = "all"
    limit: Limit = 20

    def reported(self, view: LedgerView) -> Mapping[str, Any]:
        """Return the errors."""
        return landscape.errors(view, self.run_id, error_type=self.error_type, limit=self.limit)


class GetDagStructure(_Report):
    """Show the graph of a run: its nodes and edges, also as Mermaid."""

    about = "the graph"

    def reported(self, view: LedgerView) -> Mapping[str, Any]:
        """Return the graph."""
        return landscape.dag_structure(view, self.run_id)


class GetPerformanceReport(_Report):
    """Show for how long each node of a run worked, the slowest first."""

    about = "performance"

    def reported(self, view: LedgerView) -> Mapping[str, Any]:
        """Return the performance."""
        return landscape.performance_report(view, self.run_id)


class GetErrorAnalysis(_Report):
    """Group the errors of a run by their causes, the most frequent first."""

    about = "causes of errors"

    def reported(self, view: LedgerView) -> Mapping[str, Any]:
        """Return the causes of errors."""
        return landscape.error_analysis(view, self.run_id)


class GetLlmUsageReport(_Report):
    """Show how models were called in a run: how often, how long, how many failed, by node."""

    about = "calls to models"

    def reported(self, view: LedgerView) -> Mapping[str, Any]:
        """Return the calls to models."""
        return landscape.llm_usage_report(view, self.run_id)


class GetOutcomeAnalysis(_Report):
    """Show where the tokens of a run ended: outcomes, sinks, what has not ended."""

    about = "outcomes"

    def reported(self, view: LedgerView) -> Mapping[str, Any]:
        """Return the outcomes."""
        return landscape.outcome_analysis(view, self.run_id)


class GetFailureContext(_Report):
    """Show what failed in a run, in which patterns, and what to ask next."""

    about = "failures"

    limit: Limit = 10

    def reported(self, view: LedgerView) -> Mapping[str, Any]:
        """Return the failures."""
        return landscape.failure_context(view, self.run_id, limit=self.limit)


class GetRunContract(_Report):
    """Show what a run's source and nodes say that its data is: schemas, and renamed fields."""

    about = "the contract"

    def reported(self, view: LedgerView) -> Mapping[str, Any]:
        """Return the contract."""
        return run_records.run_contract(view, self.run_id)


class ExplainField(_Report):
    """Show where a field of a run comes from: its names, and which schemas declare it."""

    about = "a field"

    field_name: Annotated[Name, Field(description="Its name in the source, or after it.")]

    def reported(self, view: LedgerView) -> Mapping[str, Any]:
        """Return a field."""
        return run_records.explain_field(view, self.run_id, self.field_name)
