"""Tools of source bindings, their manifests, and detectors of implications."""

from typing import Annotated

from pydantic import Field

from kernel.audit.manifests import manifests_of
from kernel.model.numbers import SEQUENCE_MAX
from kernel.records.bindings import GENERATION_ID
from workers.mcp.answers import page, part_of
from workers.mcp.fields import AfterName, AfterSequence, Limit, Name, Offset, Part
from workers.mcp.part_tool import PartTool
from workers.mcp.tool import Document, Tool, ToolContext, existing
from workers.views.audit import manifests_document
from workers.views.bindings import describe_binding, list_bindings
from workers.views.implications import implications_document


class ListBindings(Tool):
    """List source bindings: what each means, its state, and how many pairs are in which state."""

    after: AfterName = ""
    limit: Limit = 20

    async def answer(self, context: ToolContext) -> Document:
        """Return a page of bindings."""
        document = await context.read(
            lambda view: list_bindings(view, self.after or None, self.limit)
        )
        return page(
            "bindings",
            document["bindings"],
            lambda binding: binding["binding_id"],
            document["next_after"],
            lambda count: f"{count} bindings on this page",
        )


class GetBinding(PartTool):
    """Show a source binding with the generation in force, or an earlier one and its successor."""

    binding_id: Name
    generation: Annotated[
        str | None,
        Field(pattern=GENERATION_ID, description="An earlier generation, as 1."),
    ] = None

    async def whole(self, context: ToolContext) -> Document:
        """Return the binding."""
        binding = await context.read(
            lambda view: describe_binding(view, self.binding_id, self.generation)
        )
        return {**existing(binding, self.binding_id)}

    def summary(self, document: Document) -> str:
        """Return its state and title."""
        return f"{document['state']}: {document['title'] or 'no title'}"


class ListManifests(Tool):
    """Show what bindings made of a source event, a manifest for each cycle of evaluation."""

    source_event_id: Name
    cycle: Annotated[
        int | None,
        Field(ge=1, le=SEQUENCE_MAX, description="Show one cycle, or with `part` a part of it."),
    ] = None
    part: Part = ""
    offset: Offset = 0
    after: AfterSequence = 0
    limit: Limit = 5

    async def answer(self, context: ToolContext) -> Document:
        """Return a page of manifests, or a part of one."""
        after, limit = (self.after, self.limit) if self.cycle is None else (self.cycle - 1, 1)
        document = manifests_document(
            await context.read(
                lambda view: manifests_of(view, self.source_event_id, after=after, limit=limit)
            )
        )
        if self.part:
            return part_of(document["manifests"][0], self.part, self.offset)
        return page(
            "manifests",
            document["manifests"],
            lambda manifest: manifest["cycle"],
            document["next_after"],
            lambda count: f"{count} cycles of evaluation on this page",
        )


class GetImplications(Tool):
    """Show how far each detector of implications has read, and what is halted and why."""

    after: AfterName = ""
    limit: Limit = 20

    async def answer(self, context: ToolContext) -> Document:
        """Return the detectors, and a page of the halts that stand."""
        document = await context.read(
            lambda view: implications_document(view, after=self.after, limit=self.limit)
        )
        shown = page(
            "halts",
            document["halts"],
            lambda halt: halt["halt_id"],
            document["next_after"],
            lambda count: f"{len(document['detectors'])} detectors, {count} halts on this page",
        )
        return shown | {"detectors": document["detectors"]}
