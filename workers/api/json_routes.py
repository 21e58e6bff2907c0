"""Routes whose body and answer are JSON: read here, written here, declared by the endpoint's types.

The type that an endpoint returns is what the OpenAPI document says of its answer. The framework
neither checks an answer nor writes it: that would cost each request what only a test has to find
out (decision workers/0150).
"""

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from inspect import getdoc
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.datastructures import QueryParams
from starlette.routing import Match
from starlette.types import Scope

from workers.api.body_limits import limits_of
from workers.api.json_answers import json_answer
from workers.api.json_bodies import read_json
from workers.api.openapi_errors import ERROR_RESPONSES

_JSON_TYPES = re.compile(r"\s*application/(?:[\w.+-]+\+)?json\s*(?:;|$)", re.IGNORECASE)

Endpoint = Callable[..., Awaitable[Any]]
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class JsonRoute(APIRoute):
    """A route whose body is read by `read_json`, and whose answer is written by `json_answer`."""

    def __init__(self, path: str, endpoint: Endpoint, **options: Any) -> None:
        shape = shape_of(endpoint)
        if shape is not None:
            options["response_model"] = shape
        options["summary"] = options.get("summary") or summary_of(endpoint)
        options["responses"] = ERROR_RESPONSES | (options.get("responses") or {})
        self._before_fields = path.partition("{")[0]
        super().__init__(path, _answering(endpoint, options.get("status_code")), **options)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return whether a request is this route's; of another subject a look at its path says."""
        if not scope["path"].startswith(self._before_fields) and not scope.get("root_path"):
            return Match.NONE, {}
        return super().matches(scope)

    def get_route_handler(self) -> Handler:
        """Return a handler that reads the query and the body, if any, and calls the route."""
        handler = super().get_route_handler()
        takes_body = self.body_field is not None

        async def read_first(request: Request) -> Response:
            if b"&" in request.scope["query_string"]:
                refuse_repeats(request.query_params)
            if not takes_body:
                return await handler(request)
            content = await request.body()
            if content and _JSON_TYPES.match(request.headers.get("content-type", "")):
                # Where the framework looks for what was read before.
                request._json = await read_json(  # noqa: SLF001
                    content, limits_of(request.scope["path"])
                )
            return await handler(request)

        return read_first


def json_router(**options: Any) -> APIRouter:
    """Return a router whose routes are of this module."""
    return APIRouter(route_class=JsonRoute, **options)


def refuse_repeats(parameters: QueryParams) -> None:
    """Refuse a query that gives one parameter twice, of which a reader would take either.

    Raises:
        RequestValidationError: it does.
    """
    counts = Counter(name for name, _ in parameters.multi_items())
    repeated = [name for name, count in counts.items() if count > 1]
    if repeated:
        raise RequestValidationError(
            [{"loc": ("query", name), "msg": "the parameter is given twice"} for name in repeated]
        )


def shape_of(endpoint: Endpoint) -> Any:
    """Return the type of the JSON that an endpoint answers with, None where it states none.

    An endpoint that makes its response itself, on refusal say, states `Shape | Response`.
    """
    returned = get_type_hints(endpoint, include_extras=True)["return"]
    is_union = get_origin(returned) in (Union, UnionType)
    kinds = get_args(returned) if is_union else (returned,)
    shapes = tuple(
        kind
        for kind in kinds
        if kind is not Any and not (isinstance(kind, type) and issubclass(kind, Response))
    )
    return Union[shapes] if shapes else None  # noqa: UP007 - of a number that is known here alone


def summary_of(endpoint: Endpoint) -> str | None:
    """Return the first sentence of what an endpoint says of itself, up to its first semicolon."""
    described = getdoc(endpoint)
    if described is None:
        return None
    sentence = " ".join(described.partition("\n\n")[0].split())
    return re.split(r"[;:.](?: |$)", sentence)[0]


def _answering(endpoint: Endpoint, status_code: int | None) -> Endpoint:
    @wraps(endpoint)
    async def answering(*arguments: Any, **named: Any) -> Response:
        answer = await endpoint(*arguments, **named)
        return answer if isinstance(answer, Response) else await json_answer(answer, status_code)

    return answering
