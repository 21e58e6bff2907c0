"""Asks for runs: which there are, what one came to, and reports on it, by the names of seed 003."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field
from typing_extensions import TypedDict

from kernel.records.access.readable_view import ReadableView
from workers.questions.fields import Limit, Name
from workers.questions.question import Question
from workers.views import landscape, run_records

SUBJECT: Final = "landscape"

RunStatus = Literal["running", "completed", "failed", "interrupted"]


class RecordedRunsDocument(TypedDict):
    """The newest runs."""

    runs: list[landscape.RunDocument]


class RunReportDocument(TypedDict):
    """A report on a run; what it holds depends on its name."""

    run_id: str
    report: str
    content: dict[str, Any]


class ListRuns(Question):
    """List the newest runs, those of a status where one is named; there is no next page."""

    paths: ClassVar = ("/v1/landscape/runs",)
    subject: ClassVar = SUBJECT
    rows: ClassVar = "runs"
    rows_read: ClassVar = 20

    status: Annotated[RunStatus | None, Field(description="Runs of this status.")] = None
    limit: Limit = 50

    def answer(self, view: ReadableView) -> RecordedRunsDocument:
        """Return the runs, the newest first."""
        return {"runs": landscape.list_runs(view, limit=self.limit, status=self.status)}


class GetRunSummary(Question):
    """Show what a run came to: counts, errors, outcomes, its grade, its seal on the log."""

    paths: ClassVar = ("/v1/landscape/runs/{run_id}",)
    subject: ClassVar = SUBJECT

    run_id: Name

    def answer(self, view: ReadableView) -> landscape.RunSummaryDocument:
        """Return the summary."""
        return landscape.run_summary(view, self.run_id)

    def summary(self, document: Any) -> str:
        """Return how the run stands."""
        return f"the run {document['run_id']} is {document['status']}"


class GetRun(Question):
    """Show a run as it is recorded: its configuration, its schema, when it began and ended."""

    run_id: Name

    def answer(self, view: ReadableView) -> dict[str, Any]:
        """Return the record."""
        return run_records.run_record(view, self.run_id)

    def summary(self, document: Any) -> str:
        """Return how the run stands."""
        return f"the run {document['run_id']} is {document['status']}"


class GetRunContract(Question):
    """Show what a run's source and nodes say that its data is: schemas, and renamed fields."""

    run_id: Name

    def answer(self, view: ReadableView) -> dict[str, Any]:
        """Return the contract."""
        return run_records.run_contract(view, self.run_id)

    def summary(self, document: Any) -> str:
        """Return of how many nodes it says so."""
        return f"{len(document['nodes'])} nodes of {document['run_id']} have a schema"


class ExplainField(Question):
    """Show where a field of a run comes from: its names, and which schemas declare it."""

    run_id: Name
    field_name: Annotated[Name, Field(description="Its name in the source, or after it.")]

    def answer(self, view: ReadableView) -> dict[str, Any]:
        """Return the field."""
        return run_records.explain_field(view, self.run_id, self.field_name)

    def summary(self, document: Any) -> str:
        """Return by which name it was read and what it became."""
        return f"{document['original_name']} is {document['normalized_name']}"


class Report(Question):
    """A report on a run."""

    subject: ClassVar = SUBJECT
    report: ClassVar[str]
    about: ClassVar[str]
    """What it is of the run."""

    run_id: Name

    @classmethod
    def __pydantic_init_subclass__(cls, **named: Any) -> None:
        """Name the report and its path."""
        super().__pydantic_init_subclass__(**named)
        cls.report = cls.name.removeprefix("get_")
        cls.paths = (f"/v1/landscape/runs/{{run_id}}/{cls.report}",)

    @abstractmethod
    def content(self, view: ReadableView) -> Mapping[str, Any]:
        """Return what the record says of the run."""

    def answer(self, view: ReadableView) -> RunReportDocument:
        """Return the report."""
        return {"run_id": self.run_id, "report": self.report, "content": {**self.content(view)}}

    def summary(self, document: Any) -> str:
        """Return what the report is about."""
        return f"{self.about} of {document['run_id']}"


class GetErrors(Report):
    """List errors of a run: of validation, of transforms, of states that failed, or all.

    In a run of the runtime the states that failed are requests that were given up or taken back.
    """

    about: ClassVar = "errors"

    error_type: Annotated[landscape.ErrorKind, Field(description="Which errors.")] = "all"
    limit: Limit = 100

    def content(self, view: ReadableView) -> Mapping[str, Any]:
        """Return the errors."""
        return landscape.errors(view, self.run_id, error_type=self.error_type, limit=self.limit)


class GetDagStructure(Report):
    """Show the graph of a run: its nodes and edges, also as Mermaid."""

    about: ClassVar = "the graph"

    def content(self, view: ReadableView) -> Mapping[str, Any]:
        """Return the graph."""
        return landscape.dag_structure(view, self.run_id)


class GetPerformanceReport(Report):
    """Show for how long each node of a run worked, the slowest first."""

    about: ClassVar = "performance"

    def content(self, view: ReadableView) -> Mapping[str, Any]:
        """Return the performance."""
        return landscape.performance_report(view, self.run_id)


class GetErrorAnalysis(Report):
    """Group the errors of a run by their causes, the most frequent first."""

    about: ClassVar = "causes of errors"

    def content(self, view: ReadableView) -> Mapping[str, Any]:
        """Return the causes of errors."""
        return landscape.error_analysis(view, self.run_id)


class GetLlmUsageReport(Report):
    """Show how models were called in a run: how often, how long, how many failed, by node."""

    about: ClassVar = "calls to models"

    def content(self, view: ReadableView) -> Mapping[str, Any]:
        """Return the calls to models."""
        return landscape.llm_usage_report(view, self.run_id)


class GetOutcomeAnalysis(Report):
    """Show where the tokens of a run ended: outcomes, sinks, what has not ended."""

    about: ClassVar = "outcomes"

    def content(self, view: ReadableView) -> Mapping[str, Any]:
        """Return the outcomes."""
        return landscape.outcome_analysis(view, self.run_id)


class GetFailureContext(Report):
    """Show what failed in a run, in which patterns, and what to ask next."""

    about: ClassVar = "failures"

    limit: Limit = 10

    def content(self, view: ReadableView) -> Mapping[str, Any]:
        """Return the failures."""
        return landscape.failure_context(view, self.run_id, limit=self.limit)


REPORTS: Final[tuple[type[Report], ...]] = (
    GetErrors,
    GetDagStructure,
    GetPerformanceReport,
    GetErrorAnalysis,
    GetLlmUsageReport,
    GetOutcomeAnalysis,
    GetFailureContext,
)
