"""Runs as JSON, the same at every door (seed 003): what ran, what it came to, why it went so.

The runtime's own runs are among them; their records are made when they are read (L1).

Times are ISO 8601 in UTC, durations are milliseconds (`_ms`), and data is as it was recorded: in
canonical form, in which a tag tells bytes, whole floats and large integers
(`kernel/landscape/canonical_types.py`). Every function raises `LandscapeRefused`
(`landscape_unknown`) of what is not there, and `RecordDamaged` of a record that breaks its rules.
"""

from typing import Any, Literal, cast

import orjson
from typing_extensions import TypedDict

from kernel.landscape.canonical_types import canonical_json
from kernel.landscape.lineage import Explanation, TokenLineage, explain
from kernel.landscape.lineage_text import explanation_text, graph_mermaid, lineage_mermaid
from kernel.landscape.recent_runs import activity_since, problems_now
from kernel.landscape.reports import (
    error_causes_of,
    errors_of,
    failure_of,
    graph_of,
    llm_usage_of,
    newest_runs,
    outcomes_of,
    performance_of,
    run_document,
    summary_of,
)
from kernel.landscape.runtime.views import run_view, runtime_runs
from kernel.records.access.readable_view import ReadableView
from kernel.values.host import iso_time

Document = dict[str, Any]
ErrorKind = Literal["all", "validation", "transform", "state"]


class RunDocument(TypedDict):
    """A run; its digest once the log states it."""

    run_id: str
    status: str
    started_at: str
    completed_at: str | None
    config_hash: str
    canonical_version: str
    reproducibility_grade: str | None
    run_digest: str | None
    sealed_by_sequence: str | None


class RunSummaryDocument(RunDocument):
    """What a run came to, in numbers."""

    run_duration_ms: float | None
    counts: dict[str, int]
    errors: dict[str, int]
    outcome_distribution: dict[str, int]


class ExplanationDocument(TypedDict):
    """What an id names, and the lineage of each token that it leads to."""

    kind: str
    run: dict[str, Any]
    record: dict[str, Any]
    lineages: list[dict[str, Any]]
    related: dict[str, list[dict[str, Any]]]
    is_cut: bool


class ActivityDocument(TypedDict):
    """The runs that began lately."""

    time_window_minutes: int
    since: str
    total_runs: int
    status_summary: dict[str, int]
    runs: list[dict[str, Any]]


class DiagnosisDocument(TypedDict):
    """What needs attention."""

    status: str
    problems: list[dict[str, str]]
    recent_runs: list[RunDocument]
    next_steps: list[str]


MINUTES_MAX = 60 * 24 * 366


def list_runs(
    view: ReadableView, *, limit: int = 50, status: str | None = None
) -> list[RunDocument]:
    """Return the newest runs, those of a status where one is named."""
    runs = newest_runs(view, limit=limit, status=status)
    runs += (run for run in runtime_runs(view, limit=limit) if status in (None, run["status"]))
    runs.sort(key=lambda run: (-run["started_at_us"], run["run_id"]))
    return [show_value(run_document(view, run)) for run in runs[:limit]]


def run_summary(view: ReadableView, run_id: str) -> RunSummaryDocument:
    """Return what a run came to: counts, errors, outcomes, grade, its seal."""
    return cast("RunSummaryDocument", show_value(summary_of(run_view(view, run_id), run_id)))


def explain_token(
    view: ReadableView, record_id: str, *, run_id: str | None = None, sink: str | None = None
) -> ExplanationDocument:
    """Return what an id names and the whole lineage of each token that it leads to."""
    return explanation_document(
        explain(run_view(view, run_id or record_id), record_id, run_id=run_id, sink=sink)
    )


def explain_text(
    view: ReadableView, record_id: str, *, run_id: str | None = None, sink: str | None = None
) -> str:
    """Return the same as text."""
    return explanation_text(
        explain(run_view(view, run_id or record_id), record_id, run_id=run_id, sink=sink)
    )


def explain_mermaid(
    view: ReadableView, record_id: str, *, run_id: str | None = None, sink: str | None = None
) -> str:
    """Return the same as a Mermaid graph; of a run its own graph."""
    explanation = explain(run_view(view, run_id or record_id), record_id, run_id=run_id, sink=sink)
    if explanation.kind == "runs":
        return graph_mermaid(explanation.related["nodes"], explanation.related["edges"])
    return lineage_mermaid(explanation)


def errors(
    view: ReadableView, run_id: str, *, error_type: ErrorKind = "all", limit: int = 100
) -> Document:
    """Return errors of a run."""
    return show_object(errors_of(run_view(view, run_id), run_id, kind=error_type, limit=limit))


def dag_structure(view: ReadableView, run_id: str) -> Document:
    """Return the graph of a run, also as Mermaid."""
    return graph_of(run_view(view, run_id), run_id)


def performance_report(view: ReadableView, run_id: str) -> Document:
    """Return for how long each node worked, the slowest first; linear in the run's states."""
    return show_object(performance_of(run_view(view, run_id), run_id))


def error_analysis(view: ReadableView, run_id: str) -> Document:
    """Return the errors of a run by their causes, the most frequent first."""
    return show_object(error_causes_of(run_view(view, run_id), run_id))


def llm_usage_report(view: ReadableView, run_id: str) -> Document:
    """Return how models were called in a run, by node; linear in its calls."""
    return show_object(llm_usage_of(run_view(view, run_id), run_id))


def outcome_analysis(view: ReadableView, run_id: str) -> Document:
    """Return where the tokens of a run ended; linear in its outcomes."""
    return outcomes_of(run_view(view, run_id), run_id)


def recent_activity(view: ReadableView, now_us: int, *, minutes: int = 60) -> ActivityDocument:
    """Return the runs that began in the last minutes, the newest first.

    A run of the runtime belongs to them where it went on then.
    """
    document = activity_since(view, max(0, now_us - minutes * 60_000_000))
    return cast("ActivityDocument", {"time_window_minutes": minutes, **show_value(document)})


def failure_context(view: ReadableView, run_id: str, *, limit: int = 10) -> Document:
    """Return what failed in a run, with what to ask next."""
    return show_object(failure_of(run_view(view, run_id), run_id, limit=limit))


def diagnose(view: ReadableView, now_us: int) -> DiagnosisDocument:
    """Return what needs attention among the newest runs: failed, stuck, unsealed, many errors.

    Of the runtime's own runs: requests that were given up.
    """
    return cast("DiagnosisDocument", show_value(problems_now(view, now_us)))


def explanation_document(explanation: Explanation) -> ExplanationDocument:
    """Return an explanation."""
    return {
        "kind": explanation.kind,
        "run": show_value(explanation.run),
        "record": show_value(explanation.record),
        "lineages": [lineage_document(lineage) for lineage in explanation.lineages],
        "related": {name: show_value(rows) for name, rows in explanation.related.items()},
        "is_cut": explanation.is_cut,
    }


def lineage_document(lineage: TokenLineage) -> Document:
    """Return the lineage of a token."""
    data = orjson.loads(canonical_json(lineage.source_data))
    return {
        "token": show_value(lineage.token),
        "source_row": {
            **show_object(lineage.source_row),
            "source_data_state": lineage.source_data_state,
            "source_data": data,
        },
        "outcome": show_value(lineage.outcome),
        "node_states": show_value(lineage.states),
        "routing_events": show_value(lineage.routing_events),
        "edges": show_value(lineage.edges),
        "operations": show_value(lineage.operations),
        "calls": show_value(lineage.calls),
        "parents": show_value(lineage.parents),
        "children": show_value(lineage.children),
        "batches": show_value(lineage.batches),
        "artifacts": show_value(lineage.artifacts),
        "validation_errors": show_value(lineage.validation_errors),
        "transform_errors": show_value(lineage.transform_errors),
        "outcomes": show_value(lineage.outcomes),
        "payloads": orjson.loads(canonical_json(lineage.payloads)),
    }


def show_object(value: Document) -> Document:
    """Return a document as it is shown."""
    document: Document = show_value(value)
    return document


def show_value(value: Any) -> Any:
    """Return a document with times as texts, durations in milliseconds and JSON as it is meant."""
    if isinstance(value, list):
        return [show_value(each) for each in value]
    if not isinstance(value, dict):
        return value
    document: Document = {}
    for key, each in value.items():
        # A column's name is a text of the schema's own class, which is no key in JSON.
        name = str(key)
        if name.endswith("_at_us") or name == "since_us":
            document[name.removesuffix("_us")] = None if each is None else iso_time(each)
        elif name.endswith("_us"):
            document[f"{name.removesuffix('_us')}_ms"] = None if each is None else each / 1000
        elif name.endswith("_json"):
            loaded = None if each is None else orjson.loads(each)
            document[name.removesuffix("_json")] = loaded
        else:
            document[name] = show_value(each)
    return document
