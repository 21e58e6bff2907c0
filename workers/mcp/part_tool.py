"""A tool that shows a single document: whole, or a part of it by its path."""

from abc import abstractmethod
from typing import ClassVar

from workers.mcp.answers import part_of
from workers.mcp.fields import Offset, Part
from workers.mcp.tool import Document, Tool, ToolContext


class PartTool(Tool):
    """A tool whose answer is one document, of which a part can be asked for."""

    under: ClassVar[str] = ""
    """Where the document stands in the answer, if its names could be those of an answer."""

    part: Part = ""
    offset: Offset = 0

    @abstractmethod
    async def whole(self, context: ToolContext) -> Document:
        """Return the document."""

    @abstractmethod
    def summary(self, document: Document) -> str:
        """Return in a line what the document says."""

    async def answer(self, context: ToolContext) -> Document:
        """Return the document with its summary first, or the part that is asked for."""
        document = await self.whole(context)
        if self.part:
            return part_of(document, self.part, self.offset)
        shown = {self.under: document} if self.under else document
        return {"summary": self.summary(document), **shown}
