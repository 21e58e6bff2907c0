"""The tool that explains an id: of a run its lineage, of anything else its way to its sources."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from workers.mcp.part_tool import PartTool
from workers.mcp.tool import Document, ToolContext
from workers.questions.fields import Name
from workers.views.provenance import ProvenanceQuestion, explained


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
        question = ProvenanceQuestion(self.token_id, run_id=self.run_id, sink=self.sink)
        answer = await context.read(lambda view: explained(view, question))
        explanation: Mapping[str, Any] = answer["provenance"] or answer["lineage"] or {}
        return {"kind": answer["kind"], **explanation}

    def summary(self, document: Document) -> str:
        """Return what the id names, and how much there is to its way."""
        if "steps" in document:
            return f"{document['kind']}: {len(document['steps'])} steps back to its sources"
        return f"{document['kind']}: the lineage of {len(document['lineages'])} tokens"
