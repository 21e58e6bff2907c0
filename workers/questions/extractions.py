"""Asks for runs of extractions by their state, for one of them, and for the fields of a source."""

from typing import Annotated, Any, ClassVar

from pydantic import Field
from typing_extensions import TypedDict

from kernel.records.access.readable_view import ReadableView
from kernel.records.extraction import State
from kernel.work.extractions.reading import (
    ExtractionRunDocument,
    ExtractionSummary,
    SourceExtractionDocument,
    describe_run,
    describe_source,
    runs_in_state,
)
from workers.questions.fields import Name, PageByName
from workers.questions.question import Question, existing


class RunsDocument(TypedDict):
    """A page of runs; it may be empty and not the last."""

    runs: list[ExtractionSummary]
    next_after: str | None


class ListExtractions(PageByName):
    """List runs of extractions that are in a state now, the blocked ones with their reason."""

    paths: ClassVar = ("/v1/extractions",)
    subject: ClassVar = "extractions"
    rows: ClassVar = "runs"

    state: Annotated[State, Field(description="Runs that are in this state now.")] = "blocked"

    def answer(self, view: ReadableView) -> RunsDocument:
        """Return a page of runs."""
        page = runs_in_state(view, self.state, after=self.after, limit=self.limit)
        return {"runs": list(page.runs), "next_after": page.next_after}

    def place_of(self, row: Any) -> object:
        """Return the run and its attempt."""
        return f"{row['extraction_run_id']}|{row['attempt_number']}"


class GetExtraction(Question):
    """Show a run of an extraction: its steps, what it read, which fields failed and why."""

    paths: ClassVar = ("/v1/extractions/{extraction_run_id:path}",)
    subject: ClassVar = "extractions"

    extraction_run_id: Name

    def answer(self, view: ReadableView) -> ExtractionRunDocument:
        """Return the run."""
        run_id = self.extraction_run_id
        return existing(describe_run(view, run_id), "run", run_id, code="extraction_run_not_known")

    def summary(self, document: Any) -> str:
        """Return its state, and how many values it read."""
        return f"{document['state']}: {len(document['values'])} values"


class GetSourceFields(Question):
    """Show the fields of a source as its extractions left them: current, failed or stale."""

    paths: ClassVar = ("/v1/sources/{source_ref:path}/extraction",)
    subject: ClassVar = "extractions"

    source_ref: Annotated[Name, Field(description="Id of the source's node.")]

    def answer(self, view: ReadableView) -> SourceExtractionDocument:
        """Return the fields."""
        source = describe_source(view, self.source_ref)
        is_known = source["runs"] or source["fields"] or view.node(self.source_ref) is not None
        return existing(source if is_known else None, "source", self.source_ref)

    def summary(self, document: Any) -> str:
        """Return the state, and how many fields and runs there are."""
        counts = f"{len(document['fields'])} fields, {len(document['runs'])} runs"
        return f"{document['extraction_state'] or 'never extracted'}: {counts}"
