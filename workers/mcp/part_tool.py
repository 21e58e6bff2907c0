"""Defines a tool that shows a single document: whole, or a part of it by its path."""

from abc import abstractmethod
from typing import Annotated

from pydantic import Field

from workers.mcp.answers import part_of
from workers.mcp.tool import Document, Tool, ToolContext
from workers.questions.fields import NAME_CHARS_MAX


class PartTool(Tool):
    """A tool whose answer is one document, of which a part can be asked for."""

    part: Annotated[
        str,
        Field(
            max_length=NAME_CHARS_MAX,
            description="Show one part whole, by its path, such as `envelope.primitive_effects.0`.",
        ),
    ] = ""
    offset: Annotated[
        int, Field(ge=0, le=1 << 40, description="Begin a long `part` here: `next.offset`.")
    ] = 0

    @abstractmethod
    async def whole(self, context: ToolContext) -> Document:
        """Return the document."""

    @abstractmethod
    def summary(self, document: Document) -> str:
        """Return in a line what the document says."""

    async def result(self, context: ToolContext) -> Document:
        """Return the document with its summary first, or the part that is asked for."""
        document = await self.whole(context)
        if self.part:
            return part_of(document, self.part, self.offset)
        return {"summary": self.summary(document), **document}
