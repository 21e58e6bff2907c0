"""Tools of runs, by the names of seed 003: what ran, what it came to, why a row went as it did."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from kernel.ledger.ledger import LedgerView
from workers.mcp.answers import part_of, whole_page
from workers.mcp.fields import Limit, Name, Offset, Part
from workers.mcp.tool import Document, Tool, ToolContext
from workers.views import landscape
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


class ExplainToken(Tool):
    """Explain a token, or whatever else has an id: by which way it came to be.

    Of an id of a run (token, row, node, state, call, batch) the whole lineage: the source with its
    data, every state with its attempts, routing, calls, parents, children, errors and the outcome.
    Of anything else on the record (an understanding's authority, an observation, an operation, a
    request, a session, `session/hypothesis`) the steps back to the words of sources.
    """

    token_id: Annotated[Name, Field(description="A token, or any other id on the record.")]
    run_id: Annotated[Name | None, Field(description="Where the id is in several runs.")] = None
    sink: Annotated[Name | None, Field(description="Only what ended in this sink.")] = None
    part: Part = ""
    offset: Offset = 0

    async def answer(self, context: ToolContext) -> Document:
        """Return the lineage, or a part of it."""
        question = Question(self.token_id, run_id=self.run_id, sink=self.sink)
        answer = await context.read(lambda view: explained(view, question))
        provenance, lineage = answer["provenance"], answer["lineage"]
        document: Mapping[str, Any] = provenance or lineage or {}
        if self.part:
            return part_of(document, self.part, self.offset)
        summary = f"{answer['kind']}: "
        if provenance is not None:
            summary += f"{len(provenance['steps'])} steps back to its sources"
        if lineage is not None:
            summary += f"the lineage of {len(lineage['lineages'])} tokens"
        return {"summary": summary, **document}


class _Report(Tool):
    run_id: Name
    part: Part = ""
    offset: Offset = 0

    async def reported(
        self, context: ToolContext, summary: str, read: Callable[[LedgerView], Mapping[str, Any]]
    ) -> Document:
        """Return a report on the run, or a part of it."""
        document = dict(await context.read(read))
        if self.part:
            return part_of(document, self.part, self.offset)
        return {"summary": f"{summary} of {self.run_id}", "report": document}


class GetRunSummary(_Report):
    """Show what a run came to: counts, errors, outcomes, its grade, its seal on the log."""

    async def answer(self, context: ToolContext) -> Document:
        """Return the summary."""
        return await self.reported(
            context, "the summary", lambda view: landscape.run_summary(view, self.run_id)
        )


class GetErrors(_Report):
    """List errors of a run: of validation, of transforms, or all."""

    error_type: landscape.ErrorKind = "all"
    limit: Limit = 20

    async def answer(self, context: ToolContext) -> Document:
        """Return the errors."""
        return await self.reported(
            context,
            "errors",
            lambda view: landscape.errors(
                view, self.run_id, error_type=self.error_type, limit=self.limit
            ),
        )


class GetDagStructure(_Report):
    """Show the graph of a run: its nodes and edges, also as Mermaid."""

    async def answer(self, context: ToolContext) -> Document:
        """Return the graph."""
        return await self.reported(
            context, "the graph", lambda view: landscape.dag_structure(view, self.run_id)
        )


class GetPerformanceReport(_Report):
    """Show for how long each node of a run worked, the slowest first."""

    async def answer(self, context: ToolContext) -> Document:
        """Return the report."""
        return await self.reported(
            context, "performance", lambda view: landscape.performance_report(view, self.run_id)
        )


class GetErrorAnalysis(_Report):
    """Group the errors of a run by their causes, the most frequent first."""

    async def answer(self, context: ToolContext) -> Document:
        """Return the groups."""
        return await self.reported(
            context, "causes of errors", lambda view: landscape.error_analysis(view, self.run_id)
        )


class GetLlmUsageReport(_Report):
    """Show how models were called in a run: how often, how long, how many failed, by node."""

    async def answer(self, context: ToolContext) -> Document:
        """Return the report."""
        return await self.reported(
            context, "calls to models", lambda view: landscape.llm_usage_report(view, self.run_id)
        )


class GetOutcomeAnalysis(_Report):
    """Show where the tokens of a run ended: outcomes, sinks, what has not ended."""

    async def answer(self, context: ToolContext) -> Document:
        """Return the distribution."""
        return await self.reported(
            context, "outcomes", lambda view: landscape.outcome_analysis(view, self.run_id)
        )


class GetFailureContext(_Report):
    """Show what failed in a run, in which patterns, and what to ask next."""

    limit: Limit = 10

    async def answer(self, context: ToolContext) -> Document:
        """Return the failures."""
        return await self.reported(
            context,
            "failures",
            lambda view: landscape.failure_context(view, self.run_id, limit=self.limit),
        )
