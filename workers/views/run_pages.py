"""Runs as the dashboard shows them: a list, one run with its graph, the way of one token.

Shown as in `workers.views.landscape`. Functions of one run raise `LandscapeRefused`
(`landscape_unknown`) of what is not there, and all raise `RecordDamaged`.
"""

from dataclasses import dataclass
from typing import Any

from kernel.landscape import overview
from kernel.landscape.lineage import lineage_of
from kernel.landscape.reports import run_of_id
from kernel.landscape.runtime.views import counts_of, run_view, runtime_runs
from kernel.records.access.readable_view import ReadableView
from workers.views import landscape
from workers.views.landscape import Document

RUNS_SHOWN = 20
RUNTIME_SHOWN = 3
TOKENS_SHOWN = 50
ERRORS_SHOWN = 10


@dataclass(frozen=True, slots=True)
class RunsPicture:
    """A page of runs, each with its counts."""

    runs: list[Document]
    next_before_us: int | None


@dataclass(frozen=True, slots=True)
class RunPicture:
    """A run: what it came to, its nodes, its newest errors, and a page of its tokens."""

    summary: landscape.RunSummaryDocument
    nodes: list[Document]
    errors: Document
    tokens: list[Document]
    next_after: str | None


@dataclass(frozen=True, slots=True)
class TokenPicture:
    """The way of a token, as `explain_token` has it."""

    run: Document
    lineage: Document


def runs_picture(view: ReadableView, status: str | None, before_us: int | None) -> RunsPicture:
    """Return a page of runs, the newest first."""
    page = overview.runs_page(view, status=status, before_us=before_us, limit=RUNS_SHOWN)
    runs = [
        landscape.show_object(run) | overview.record_counts(view, run["run_id"])
        for run in page.runs
    ]
    if before_us is None:
        runs = [*_runtime(view, status), *runs]
    return RunsPicture(runs, page.next_before_us)


def _runtime(view: ReadableView, status: str | None) -> list[Document]:
    """Return the newest runs of the runtime itself, which stand on the first page."""
    runs = runtime_runs(view, limit=RUNTIME_SHOWN)
    return [
        landscape.show_object(run) | counts_of(view, run["run_id"], overview.COUNTED)
        for run in runs
        if not status or run["status"] == status
    ]


def run_picture(view: ReadableView, run_id: str, after: str | None) -> RunPicture:
    """Return a run, with the tokens behind an id."""
    view = run_view(view, run_id)
    tokens = overview.tokens_page(view, run_id, after=after, limit=TOKENS_SHOWN)
    return RunPicture(
        landscape.run_summary(view, run_id),
        [
            landscape.show_object(counts.node) | {"states": counts.states}
            for counts in overview.node_counts(view, run_id)
        ],
        landscape.errors(view, run_id, limit=ERRORS_SHOWN),
        [
            landscape.show_object(token) | {"outcome": landscape.show_value(outcome)}
            for token, outcome in tokens.tokens
        ],
        tokens.next_after,
    )


def token_picture(view: ReadableView, run_id: str, token_id: str) -> TokenPicture:
    """Return the way of a token."""
    view = run_view(view, run_id)
    run: dict[str, Any] = landscape.show_value(run_of_id(view, run_id))
    return TokenPicture(run, landscape.lineage_document(lineage_of(view, run_id, token_id)))
