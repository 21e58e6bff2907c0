"""Shows extractions as documents: a run, runs by their state, the fields of a source.

A field of a source is `current` where the newest ended run over its present text has it, `failed`
where that run says so, and `stale` where only a run over an earlier text has values for it: those
are shown under their framing and never as current (INV-EXT-7). Nothing is shown as whole that is
not: the completeness of a run stands beside its values (INV-EXT-3).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, NotRequired, cast

from typing_extensions import TypedDict

from kernel.ledger.ledger import Document, LedgerView
from kernel.model.extraction_result import ExtractionRefused
from kernel.records.extraction import attempts_of, last_attempt, runs_of_source, steps_into
from kernel.values.untrusted import text_of
from kernel.work.extraction_sources import read_source

STEPS_MAX = 200
RUNS_MAX = 200
SCANNED_MAX = 2000
"""Steps that are looked at for one page of runs."""

STALE_FRAMING: Final = "previous extraction; current data unavailable"


class ExtractionValue(TypedDict):
    """A value that a run read of a source, with the words that say it and their place."""

    field: str
    value: str
    role: str | None
    words: str
    span: Document | None
    claim_ref: str


class ExtractionSummary(TypedDict):
    """A run as its last step left it; what the step does not state is null."""

    state: str
    extraction_run_id: str
    source_ref: str | None
    corpus_id: str | None
    extractor: str | None
    attempt_number: int
    state_change_reason: str
    block_reason: str | None
    cancellation_reason: str | None
    updated_at: str


class ExtractionStep(TypedDict):
    """One step of a run; what it does not state is null."""

    attempt_number: int
    prior_state: str
    current_state: str
    state_change_reason: str
    block_reason: str | None
    operation_id: str
    parent_operation_id: str | None
    updated_at: str


class ExtractionRunDocument(ExtractionSummary):
    """A run: its steps, its state, and what it has read."""

    replaces_extraction_run_id: str | None
    extraction_completeness: Document | None
    """As the run stated it; null while it has no result."""

    values: list[ExtractionValue]
    steps: list[ExtractionStep]


class SourceField(TypedDict):
    """A field of a source, and whether it is what the present text says."""

    status: Literal["current", "failed", "stale"]
    values: list[ExtractionValue]
    failure_reason: NotRequired[str]
    framing: NotRequired[str]
    extraction_run_id: NotRequired[str]


class SourceExtractionDocument(TypedDict):
    """The fields of a source as its extractions left them."""

    source_ref: str
    extraction_state: str | None
    extraction_completeness: Document | None
    fields: dict[str, SourceField]
    runs: list[ExtractionSummary]


@dataclass(frozen=True, slots=True)
class RunsPage:
    """Runs that are in a state now."""

    runs: tuple[ExtractionSummary, ...]
    next_after: str | None
    """Where the next page begins; None after the last. A page may be empty and not the last."""


def describe_run(view: LedgerView, run_id: str) -> ExtractionRunDocument | None:
    """Return a run: its steps, its state, and what it has read; None where it has no step."""
    steps = attempts_of(view, run_id, limit=STEPS_MAX)
    if not steps:
        return None
    last = last_attempt(view, run_id) or steps[-1]
    ended = _newest_result(steps)
    return {
        **_summary(last),
        "replaces_extraction_run_id": steps[0].get("replaces_extraction_run_id"),
        "extraction_completeness": None if ended is None else _completeness(ended),
        "values": [] if ended is None else _all_values(view, ended),
        "steps": [_step(step) for step in steps],
    }


def runs_in_state(view: LedgerView, state: str, *, after: str, limit: int) -> RunsPage:
    """Return runs whose last step led to a state, in the order of their names."""
    page: list[ExtractionSummary] = []
    steps = steps_into(view, state, after=after, limit=SCANNED_MAX)
    for place, step in enumerate(steps):
        run_id = step["extraction_run_id"]
        last = last_attempt(view, run_id)
        if last is not None and last["attempt_number"] == step["attempt_number"]:
            page.append(_summary(last))
        if len(page) == limit and place + 1 < len(steps):
            return RunsPage(tuple(page), f"{run_id}|{step['attempt_number']}")
    if len(steps) < SCANNED_MAX:
        return RunsPage(tuple(page), None)
    return RunsPage(tuple(page), f"{steps[-1]['extraction_run_id']}|{steps[-1]['attempt_number']}")


def describe_source(view: LedgerView, source_ref: str) -> SourceExtractionDocument:
    """Return the fields of a source as its extractions left them (INV-EXT-7)."""
    try:
        text_now = read_source(view, source_ref).sha256
    except ExtractionRefused:
        text_now = None
    runs = [
        steps
        for run_id in runs_of_source(view, source_ref, limit=RUNS_MAX)
        if (steps := attempts_of(view, run_id, limit=STEPS_MAX))
    ]
    runs.sort(key=lambda steps: str(steps[-1]["updated_at"]), reverse=True)
    ended = [step for steps in runs if (step := _newest_result(steps)) is not None]
    current = next((step for step in ended if step["source_text_sha256"] == text_now), None)
    earlier = [step for step in ended if step["source_text_sha256"] != text_now]
    return {
        "source_ref": source_ref,
        "extraction_state": runs[0][-1]["current_state"] if runs else None,
        "extraction_completeness": None if current is None else _completeness(current),
        "fields": _fields(view, current, earlier),
        "runs": [_summary(steps[-1]) for steps in runs],
    }


def _fields(
    view: LedgerView, current: Document | None, earlier: Iterable[Document]
) -> dict[str, SourceField]:
    fields: dict[str, Document] = {}
    if current is not None:
        for name, values in _values(view, current).items():
            fields[name] = {"status": "current", "values": values}
        for failed in _completeness(current).get("failed_fields", ()):
            known = fields.setdefault(failed["field"], {"status": "failed", "values": []})
            known["failure_reason"] = failed["reason"]
    for step in earlier:
        for name, values in _values(view, step).items():
            # What a result over the present text neither has nor failed at, the text does not say.
            known = fields.get(name, {"status": "failed"} if current is None else {})
            if known.get("status") == "failed":
                fields[name] = known | {
                    "status": "stale",
                    "framing": STALE_FRAMING,
                    "values": values,
                    "extraction_run_id": step["extraction_run_id"],
                }
    return cast("dict[str, SourceField]", fields)


def _newest_result(steps: list[Document]) -> Document | None:
    """Return the newest step of a run that left a result."""
    return next((step for step in reversed(steps) if _has_result(step)), None)


def _has_result(step: Document) -> bool:
    """Tell whether a step has a result of the runtime's; producers may state any other field."""
    refs = step.get("claim_refs")
    is_list = isinstance(refs, list) and all(isinstance(ref, str) for ref in refs)
    return is_list and isinstance(step.get("source_text_sha256"), str)


def _all_values(view: LedgerView, step: Document) -> list[ExtractionValue]:
    return [value for values in _values(view, step).values() for value in values]


def _completeness(step: Document) -> Document:
    stated: Any = step.get("extraction_completeness")
    return stated if isinstance(stated, dict) else {}


def _values(view: LedgerView, step: Document) -> dict[str, list[ExtractionValue]]:
    """Return the claims of a result by their fields; a claim that was taken back is left out."""
    refs = step["claim_refs"]
    nodes = view.nodes(refs)
    by_field: dict[str, list[ExtractionValue]] = {}
    for ref in refs:
        node = nodes.get(ref)
        payload = {} if node is None or node["state"] != "active" else node["payload"]
        extracted = payload.get("extracted")
        if not isinstance(extracted, dict) or not {"field", "value"} <= extracted.keys():
            continue
        if not isinstance(payload.get("text"), str):
            continue
        value: ExtractionValue = {
            "field": str(extracted["field"]),
            "value": text_of(str(extracted["value"])),
            "role": text_of(str(extracted["role"])) if "role" in extracted else None,
            "words": text_of(payload["text"]),
            "span": payload.get("span"),
            "claim_ref": ref,
        }
        by_field.setdefault(value["field"], []).append(value)
    return by_field


_SUMMARY = (
    "extraction_run_id",
    "source_ref",
    "corpus_id",
    "extractor",
    "attempt_number",
    "state_change_reason",
    "block_reason",
    "cancellation_reason",
    "updated_at",
)
_STEP = (
    "attempt_number",
    "prior_state",
    "current_state",
    "state_change_reason",
    "block_reason",
    "operation_id",
    "parent_operation_id",
    "updated_at",
)


def _summary(step: Document) -> ExtractionSummary:
    stated = {name: step.get(name) for name in _SUMMARY}
    return cast("ExtractionSummary", {"state": step["current_state"]} | stated)


def _step(step: Document) -> ExtractionStep:
    return cast("ExtractionStep", {name: step.get(name) for name in _STEP})
