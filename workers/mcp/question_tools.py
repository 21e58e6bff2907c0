"""Makes tools of questions: a page that fits, or one document, whole or a part of it."""

from typing import Any, cast

import orjson
from pydantic import create_model

from workers.environment.system_host import system_host
from workers.mcp.answers import dump_answer, page, shorten, whole_page
from workers.mcp.part_tool import PartTool
from workers.mcp.tool import Document, Tool, ToolContext
from workers.questions.fields import NAME_CHARS_MAX
from workers.questions.question import Question, Text

NAMES_SHOWN_MAX = 20


class _Page(Tool, Question):
    """A page: as many of its rows as fit, and what else the answer says."""

    async def result(self, context: ToolContext) -> Document:
        """Return the page."""
        document = await _document(self, context)
        rows, following = document.pop(self.rows), document.pop("next_after", None)

        def summary(count: int) -> str:
            return self.summary({**document, self.rows: rows[:count]})

        if rows and self.place_of(rows[0]) is not None:
            shown = page(self.rows, rows, self.place_of, following, summary)
        else:
            shown = whole_page(self.rows, {self.rows: rows, "next_after": following}, summary)
        return {**shown, **shorten(document, NAME_CHARS_MAX, NAMES_SHOWN_MAX)}


class _Part(Question, PartTool):
    """One document, of which a part can be asked for."""

    async def whole(self, context: ToolContext) -> Document:
        """Return the document."""
        return await _document(self, context)


class _Exact(Tool, Question):
    """One document, of which nothing is left out."""

    async def result(self, context: ToolContext) -> Document:
        """Return the document with its summary first."""
        document = await _document(self, context)
        return {"summary": self.summary(document), **document}


async def _document(question: Question, context: ToolContext) -> Document:
    now_us = system_host().now_us()
    answer = await context.read(lambda view: question.answer_at(view, now_us))
    document: Document = (
        {"text": answer} if isinstance(answer, Text) else orjson.loads(dump_answer(answer))
    )
    return document


def tool_of(question: type[Question]) -> type[Tool]:
    """Return the tool that asks a question; of a page that is read a few rows are enough."""
    kind = _Page if question.rows else _Exact if question.is_exact else _Part
    fewer: dict[str, Any] = {}
    if question.rows_read is not None:
        fewer["limit"] = (question.model_fields["limit"].rebuild_annotation(), question.rows_read)
    bases: tuple[Any, ...] = (kind, question)
    tool = cast(
        "type[Tool]",
        create_model(
            question.__name__,
            __base__=bases,
            __doc__=question.description(),
            __module__=question.__module__,
            **fewer,
        ),
    )
    tool.action = question.action
    return tool
