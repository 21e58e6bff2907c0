"""Declares the routes of the questions: each answers with what a snapshot of the ledger says.

The question's model reads the path and the query.
"""

from collections.abc import Mapping
from functools import cached_property
from inspect import Parameter, Signature
from types import NoneType
from typing import Annotated, Any, get_args

from fastapi import APIRouter, Path, Query
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.datastructures import QueryParams
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope

from workers.api.json_routes import JsonRoute
from workers.api.request_reader import ArgumentReader, Parts, refuse_repeats
from workers.api.services import Services
from workers.questions.catalogue import QUESTIONS
from workers.questions.fields import NO_NUL
from workers.questions.question import GatewayQuestion, Question, Text
from workers.use_cases.access import does


class _RequestIdConvertor(PathConvertor):
    """An id with any slashes in it, but for those of paths that do something to a request."""

    regex = ".*(?<!/cancel)(?<!/prioritize)"


register_url_convertor("work_request", _RequestIdConvertor())


class QuestionRoute(JsonRoute):
    """A route whose path and query are a question."""

    def __init__(self, path: str, question: type[Question]) -> None:
        self._question = question
        super().__init__(
            path,
            _answer,
            name=question.name,
            tags=[question.subject],
            openapi_extra=does(question.action),
        )

    def api_route(self) -> APIRoute:
        """Return the route as it is for the OpenAPI document, with the fields of the question."""

        async def endpoint() -> None:
            """Have the signature that the framework writes down."""

        shape = self._question.answer_type()
        fields = self._question.model_fields
        endpoint.__doc__ = self._question.description()
        endpoint.__annotations__ = {"return": shape}
        endpoint.__signature__ = Signature(  # type: ignore[attr-defined]
            [_parameter(self.path, name, field) for name, field in fields.items()],
            return_annotation=shape,
        )
        return self.api_route_of(endpoint)

    @cached_property
    def reader(self) -> ArgumentReader:
        """What reads the question."""
        return _QuestionReader(self._question)


class _QuestionReader:
    def __init__(self, question: type[Question]) -> None:
        self._question = question

    async def arguments(
        self, scope: Scope, _: Receive, path: Parts, services: Services
    ) -> dict[str, Any]:
        """Return the question that a request asks, and the services that answer it."""
        query = QueryParams(scope["query_string"])
        return {"question": question_in(query, path, self._question), "services": services}


def question_in(query: QueryParams, path: Parts, question: type[Question]) -> Question:
    """Return the question that a request asks.

    Raises:
        RequestValidationError: it is not what the question's fields are.
    """
    refuse_repeats(query)
    if not path.keys().isdisjoint(query):
        twice = [name for name in query if name in path]
        raise RequestValidationError(
            [{"loc": ("query", name), "msg": "the path has it"} for name in twice]
        )
    try:
        return question.model_validate({**query, **path})
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        raise RequestValidationError(
            [{**problem, "loc": _place(path, problem["loc"])} for problem in problems]
        ) from None


def _place(path: Mapping[str, Any], location: tuple[int | str, ...]) -> tuple[int | str, ...]:
    return ("path" if location[:1] and location[0] in path else "query", *location)


async def _answer(question: Question, services: Services) -> Any:
    """Answer a question."""
    if isinstance(question, GatewayQuestion):
        return await question.ask(services)
    now_us = services.ledger.host.now_us()
    answer = await services.read(lambda view: question.answer_at(view, now_us))
    return PlainTextResponse(answer) if isinstance(answer, Text) else answer


# Its arguments are read by `_QuestionReader`, and the framework is to look for none.
_answer.__signature__ = Signature()  # type: ignore[attr-defined]


def _parameter(path: str, name: str, field: Any) -> Parameter:
    is_in_path = f"{{{name}}}" in path or f"{{{name}:" in path
    place: Any = Path if is_in_path else Query
    metadata, annotation = field.metadata, field.annotation
    if is_in_path:
        # Where the path names it, it is stated.
        if NoneType in (either := get_args(annotation)):
            [annotation] = [each for each in either if each is not NoneType]
        # Of a path nobody has to be told that it holds no U+0000.
        metadata = [each for each in metadata if getattr(each, "pattern", None) != NO_NUL]
    return Parameter(
        name,
        Parameter.KEYWORD_ONLY,
        default=Parameter.empty if is_in_path or field.is_required() else field.default,
        annotation=Annotated[(annotation, *metadata, place(description=field.description))],
    )


router = APIRouter()
router.routes.extend(
    QuestionRoute(path, question) for question in QUESTIONS.values() for path in question.paths
)
