"""Asks where something on the record comes from: its way to its sources, or its lineage."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AliasChoices, Field

from kernel.records.access.readable_view import ReadableView
from workers.questions.fields import Name
from workers.questions.question import Question, Text
from workers.views import landscape
from workers.views.provenance import (
    ExplainedDocument,
    ProvenanceQuestion,
    explain,
    explain_as_mermaid,
    explain_as_text,
)

Record = Annotated[
    Name,
    Field(
        description="Any id on the record.",
        validation_alias=AliasChoices("record_id", "token_id"),
    ),
]
"""Seed 003 calls it `token_id`."""

Run = Annotated[Name | None, Field(description="Where the id is in several runs.")]
Sink = Annotated[Name | None, Field(description="Only what ended in this sink.")]


class ExplainToken(Question):
    """Explain a token, or anything that has an id: how it came to be.

    Of an id of a run (token, row, node, state, call, batch) the whole lineage: the source's data,
    each state with its attempts, routing, calls, parents, children and errors, the outcome.
    Of anything else (an understanding's authority, an observation, an operation, a request, a
    session, `session/hypothesis`) the steps back to the words of sources.
    """

    paths: ClassVar = ("/v1/explain",)

    record_id: Record
    hypothesis: Annotated[Name | None, Field(description="A hypothesis of the session.")] = None
    run_id: Run = None
    sink: Sink = None
    format: Literal["json", "text", "mermaid"] = "json"

    def answer(self, view: ReadableView) -> ExplainedDocument | Text:
        """Return what the id names, with its provenance or its lineage."""
        subject = ProvenanceQuestion(self.record_id, self.hypothesis, self.run_id, self.sink)
        if self.format == "json":
            return explain(view, subject)
        shown = explain_as_mermaid if self.format == "mermaid" else explain_as_text
        return Text(shown(view, subject))

    def summary(self, document: Any) -> str:
        """Return what the id names, and how much there is to its way."""
        if (provenance := document["provenance"]) is not None:
            return f"{document['kind']}: {len(provenance['steps'])} steps back to its sources"
        return f"{document['kind']}: the lineage of {len(document['lineage']['lineages'])} tokens"


class ExplainLineage(Question):
    """Show what an id of a run names, and the lineage of every token that it leads to."""

    paths: ClassVar = ("/v1/landscape/explain",)
    subject: ClassVar = "landscape"

    record_id: Record
    run_id: Run = None
    sink: Sink = None

    def answer(self, view: ReadableView) -> landscape.ExplanationDocument:
        """Return the lineages."""
        return landscape.explain_token(view, self.record_id, run_id=self.run_id, sink=self.sink)
