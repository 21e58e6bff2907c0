"""Routes of the questions: each answers with what a snapshot of the ledger says.

The question's model reads the path and the query. The framework declares these routes, writes them
into the OpenAPI document and finds the one that is meant.
"""

from collections.abc import Mapping
from inspect import Parameter, Signature
from types import NoneType
from typing import Annotated, Any, get_args

from fastapi import APIRouter, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from workers.api.json_routes import Endpoint, Handler, JsonRoute, refuse_repeats
from workers.api.services import Services
from workers.questions.catalogue import QUESTIONS
from workers.questions.fields import NO_NUL
from workers.questions.question import Question


class QuestionRoute(JsonRoute):
    """A route whose path and query are a question."""

    def __init__(self, path: str, question: type[Question]) -> None:
        endpoint = _endpoint(path, question)
        super().__init__(path, endpoint, name=question.name, tags=[question.subject])

    def get_route_handler(self) -> Handler:
        """Return the endpoint, which reads its question itself."""
        handler: Handler = self.endpoint
        return handler


def question_in(request: Request, question: type[Question]) -> Question:
    """Return the question that a request asks.

    Raises:
        RequestValidationError: it is not what the question's fields are.
    """
    query, path = request.query_params, request.path_params
    if b"&" in request.scope["query_string"]:
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


def _endpoint(path: str, question: type[Question]) -> Endpoint:
    """Return the endpoint of a question; its signature declares the fields."""

    async def answer(request: Request) -> Any:
        services: Services = request.app.state.services
        return await services.read(question_in(request, question).answer)

    shape = question.answer_type()
    answer.__doc__ = question.description()
    answer.__annotations__ = {"return": shape}
    answer.__signature__ = Signature(  # type: ignore[attr-defined]
        [_parameter(path, name, field) for name, field in question.model_fields.items()],
        return_annotation=shape,
    )
    return answer


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
