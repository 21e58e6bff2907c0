"""Names what an id is and where it comes from, the same at every door (seed 003, ruling L1).

An id of the ledger (an authority, a source, an operation, a request, a survivor, whatever has a
record) is explained by its way back to the words of sources; any other by what the records of runs
say of it (`workers/views/landscape.py`). Every function raises `LandscapeRefused`
(`landscape_unknown`) of what nobody has recorded.
"""

from dataclasses import dataclass
from typing import Any

from typing_extensions import TypedDict

from kernel.audit.provenance import Named, Provenance, Step
from kernel.audit.provenance_steps import provenance_of, resolve_name
from kernel.audit.provenance_text import provenance_mermaid, provenance_text
from kernel.landscape.errors import LandscapeRefused
from kernel.records.access.readable_view import ReadableView
from workers.views import landscape
from workers.views.landscape import ExplanationDocument


@dataclass(frozen=True, slots=True)
class ProvenanceQuestion:
    """What is to be explained."""

    record_id: str
    hypothesis: str | None = None
    """One of the hypotheses of the session that `record_id` names."""

    run_id: str | None = None
    """The run that has the id; then the records of runs alone are asked."""

    sink: str | None = None
    """Of an id of a run, only the ways that ended in this sink."""


class NamedDocument(TypedDict):
    """Something on the record."""

    kind: str
    record_id: str


class WordsDocument(TypedDict):
    """A stretch of a source's text in characters; `text` is null where it is there no more."""

    source_ref: str
    offset: int
    length: int
    text: str | None


class StepDocument(NamedDocument):
    """One thing on the way: what it says, what it comes from, the words that it was drawn from."""

    says: dict[str, Any]
    because: list[NamedDocument]
    words: list[WordsDocument]


class ProvenanceDocument(TypedDict):
    """The way of something back to its sources, the thing itself first."""

    steps: list[StepDocument]
    is_cut: bool


class ExplainedDocument(TypedDict):
    """What an id names, and one of two: its provenance, or its lineage in a run."""

    kind: str
    provenance: ProvenanceDocument | None
    lineage: ExplanationDocument | None


def provenance_of_question(view: ReadableView, question: ProvenanceQuestion) -> Provenance | None:
    """Return the way of what is asked about; None where a run has to know it.

    Raises:
        LandscapeRefused: `landscape_unknown` of a hypothesis that its session does not have.
    """
    if question.run_id is not None:
        return None
    provenance = provenance_of(view, question.record_id, question.hypothesis)
    if provenance is None and question.hypothesis is not None:
        message = f"no session {question.record_id} has the hypothesis {question.hypothesis}"
        raise LandscapeRefused(message, code="landscape_unknown")
    if provenance is None and resolve_name(view, question.record_id) is not None:
        message = f"the session in {question.record_id} has no such hypothesis"
        raise LandscapeRefused(message, code="landscape_unknown")
    return provenance


def explain(view: ReadableView, question: ProvenanceQuestion) -> ExplainedDocument:
    """Return what an id names, with its provenance or its lineage."""
    provenance = provenance_of_question(view, question)
    if provenance is not None:
        kind = provenance.subject.named.kind
        return {"kind": kind, "provenance": provenance_document(provenance), "lineage": None}
    lineage = landscape.explain_token(
        view, question.record_id, run_id=question.run_id, sink=question.sink
    )
    return {"kind": lineage["kind"], "provenance": None, "lineage": lineage}


def explain_as_text(view: ReadableView, question: ProvenanceQuestion) -> str:
    """Return the same as text."""
    provenance = provenance_of_question(view, question)
    if provenance is not None:
        return provenance_text(provenance)
    return landscape.explain_text(
        view, question.record_id, run_id=question.run_id, sink=question.sink
    )


def explain_as_mermaid(view: ReadableView, question: ProvenanceQuestion) -> str:
    """Return the same as a Mermaid graph."""
    provenance = provenance_of_question(view, question)
    if provenance is not None:
        return provenance_mermaid(provenance)
    return landscape.explain_mermaid(
        view, question.record_id, run_id=question.run_id, sink=question.sink
    )


def provenance_document(provenance: Provenance) -> ProvenanceDocument:
    """Return the way of something as JSON has it."""
    return {
        "steps": [_step(step) for step in provenance.steps.values()],
        "is_cut": provenance.is_cut,
    }


def _step(step: Step) -> StepDocument:
    return {
        **_named_document(step.named),
        "says": step.says,
        "because": [_named_document(each) for each in step.because],
        "words": [
            {
                "source_ref": words.source_ref,
                "offset": words.offset,
                "length": words.length,
                "text": words.text,
            }
            for words in step.words
        ],
    }


def _named_document(named: Named) -> NamedDocument:
    return {"kind": named.kind, "record_id": named.record_id}
