"""Defines a question: fields that are checked, and what the record answers, the same at every door.

- The fields have the types, limits and help of the query over HTTP, of a tool's arguments and of a
  command's options; the docstring describes all three, and `answer` says what they answer with.
- A field that a path names stands in it over HTTP; it, and what has no default, is an argument in
  its place at the command line.
- An answer is a snapshot's. A refusal has one code and one message, whoever asked (decision
  workers/0452).
"""

import re
from inspect import getdoc
from types import UnionType
from typing import (
    Any,
    ClassVar,
    Final,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict

from kernel.records.access.readable_view import ReadableView
from kernel.values.errors import KernelError

T = TypeVar("T")

_IN_PATH: Final = re.compile(r"\{(\w+)(?::\w+)?\}")
_WORD: Final = re.compile(r"(?<!^)(?=[A-Z])")


class Text(str):
    """An answer that is text and no document."""

    __slots__ = ()


class QuestionRefused(KernelError):
    """A question that the record cannot answer."""

    code = "not_found"


class Question(BaseModel):
    """A question to one snapshot of the record."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: ClassVar[str]
    """The tool's, and the operation's in the OpenAPI document; made of the class's name."""

    paths: ClassVar[tuple[str, ...]] = ()
    """Where HTTP answers it, as a router takes it; a path that names a field needs it."""

    subject: ClassVar[str] = "records"
    """The tag of its routes."""

    action: ClassVar[str]
    """What whoever asks has to be allowed to do; `read.` and the subject where it names none."""

    rows: ClassVar[str] = ""
    """Under which name a page has its rows, which goes on after `next_after`; else not a page."""

    place: ClassVar[str] = ""
    """The field of a row behind which a page goes on, where a row says so."""

    rows_read: ClassVar[int | None] = None
    """So many rows a person or a model gets of a page that names no limit; a program gets more."""

    is_exact: ClassVar[bool] = False
    """Whether nothing of its answer may be left out, because somebody computes with it."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Name the question and its action."""
        cls.name = _WORD.sub("_", cls.__name__).lower()
        if "action" not in cls.__dict__:
            cls.action = f"read.{cls.subject}"

    def answer(self, view: ReadableView) -> Any:
        """Return the answer; its type is that of the documents of all doors.

        Raises:
            QuestionRefused: there is none.
        """
        raise NotImplementedError

    def answer_at(self, view: ReadableView, now_us: int) -> Any:  # noqa: ARG002
        """Return the answer at a time, which is another one of few questions."""
        return self.answer(view)

    def summary(self, document: Any) -> str:
        """Return in a line what an answer says, as JSON has it."""
        return f"{len(document[self.rows])} {self.rows.replace('_', ' ')} on this page"

    def place_of(self, row: Any) -> object:
        """Return where a page goes on behind a row, None where a row does not say so."""
        return row.get(self.place)

    def join_pages(self, document: Any, following: Any) -> Any:
        """Return two pages of an answer as one, as JSON has them."""
        return {**following, self.rows: [*document[self.rows], *following[self.rows]]}

    @classmethod
    def answer_type(cls) -> Any:
        """Return the type of the answer, where it is a document."""
        return without(Text, get_type_hints(cls._answering(), include_extras=True)["return"])

    @classmethod
    def _answering(cls) -> Any:
        """Return the method that answers."""
        return cls.answer if cls.answer_at is Question.answer_at else cls.answer_at

    @classmethod
    def description(cls) -> str:
        """Return what the question is, for whoever may ask it."""
        return getdoc(cls) or ""

    @classmethod
    def fields_in_paths(cls) -> frozenset[str]:
        """Return the fields that any of the paths names."""
        return frozenset(name for path in cls.paths for name in _IN_PATH.findall(path))

    def address(self) -> tuple[str, dict[str, Any]]:
        """Return the path and the query by which HTTP answers the question."""
        stated = self.model_dump(mode="json", exclude_defaults=True)
        path = next(path for path in self.paths if stated.keys() >= {*_IN_PATH.findall(path)})
        in_path = _IN_PATH.findall(path)
        named = _IN_PATH.sub(lambda part: quote(str(stated[part[1]]), safe=":"), path)
        return named, {name: value for name, value in stated.items() if name not in in_path}

    def following(self, next_after: object, limit: int) -> Self:
        """Return the question for the next page, of so many rows."""
        changed = {"after": next_after, "limit": limit}
        return self.model_validate({**self.model_dump(exclude_defaults=True), **changed})


class GatewayQuestion(Question):
    """A question to a running gateway, about what the record does not know."""

    async def ask(self, services: Any) -> Any:
        """Return the answer, as `answer` of a question to the record."""
        raise NotImplementedError

    @classmethod
    def _answering(cls) -> Any:
        """Return the method that answers."""
        return cls.ask


def without(kind: type, answer: Any) -> Any:
    """Return what an answer may be beside a kind, None where nothing is left that says a shape."""
    is_union = get_origin(answer) in (Union, UnionType)
    kinds = get_args(answer) if is_union else (answer,)
    shapes = tuple(
        each
        for each in kinds
        if each is not Any and not (isinstance(each, type) and issubclass(each, kind))
    )
    return Union[shapes] if shapes else None  # noqa: UP007 - of a number that is known here alone


def existing(document: T | None, kind: str, name: str, *, code: str = "not_found") -> T:
    """Return what a name stands for.

    Raises:
        QuestionRefused: nothing, by this code.
    """
    if document is None:
        raise QuestionRefused(f"no {kind} is called {name!r}", code=code)
    return document
