"""Declares routes whose body and answer are JSON, by the types of their endpoints.

The type that an endpoint returns is what the OpenAPI document says of its answer. Nothing checks an
answer against it: that would cost each request what only a test has to find out (decision
workers/0150).
"""

import re
from collections.abc import Awaitable, Callable
from functools import cached_property
from inspect import getdoc
from typing import Annotated, Any, ClassVar, get_type_hints

from fastapi import APIRouter, Path, Response
from fastapi.routing import APIRoute

from workers.api.openapi_errors import ERROR_RESPONSES
from workers.api.request_reader import ArgumentReader, RequestReader
from workers.questions.fields import NAME_CHARS_MAX
from workers.questions.question import without
from workers.use_cases.access import does

RecordId = Annotated[str, Path(min_length=1, max_length=NAME_CHARS_MAX)]
"""The name of something on the record, in a path."""

Endpoint = Callable[..., Awaitable[Any]]


class JsonRoute(APIRoute):
    """A route whose body is JSON, and whose answer is what its endpoint returns.

    A process that serves builds nothing of the answers' types: the document alone speaks of them.
    """

    default_action: ClassVar[str] = ""
    """Of a route that names none itself."""

    def __init__(self, path: str, endpoint: Endpoint, **options: Any) -> None:
        extra = options.get("openapi_extra") or {}
        self._options = options | {"openapi_extra": does(self.default_action) | extra}
        super().__init__(
            path, endpoint, **self._options | {"response_model": None, "responses": None}
        )

    def api_route(self) -> APIRoute:
        """Return the route with the types of its answers, for the OpenAPI document."""
        return self.api_route_of(self.endpoint)

    def api_route_of(self, endpoint: Endpoint) -> APIRoute:
        """Return the route as if it had this endpoint."""
        options, shape = dict(self._options), shape_of(endpoint)
        if shape is not None:
            options["response_model"] = shape
        options["summary"] = options.get("summary") or summary_of(endpoint)
        options["responses"] = ERROR_RESPONSES | (options.get("responses") or {})
        return APIRoute(self.path, endpoint, **options)

    @cached_property
    def reader(self) -> ArgumentReader:
        """What reads the arguments of the endpoint, whichever application serves it."""
        return RequestReader(self, refuses_repeats=True)


def json_router(action: str, **options: Any) -> APIRouter:
    """Return a router whose routes are of this module; `action` is that of those that name none."""

    class RouteOfRouter(JsonRoute):
        default_action = action

    return APIRouter(route_class=RouteOfRouter, **options)


def shape_of(endpoint: Endpoint) -> Any:
    """Return the type of the JSON that an endpoint answers with, None where it states none.

    An endpoint that makes its response itself, on refusal say, states `Shape | Response`.
    """
    return without(Response, get_type_hints(endpoint, include_extras=True)["return"])


def summary_of(endpoint: Endpoint) -> str | None:
    """Return the first sentence of what an endpoint says of itself, up to its first semicolon."""
    described = getdoc(endpoint)
    if described is None:
        return None
    sentence = " ".join(described.partition("\n\n")[0].split())
    return re.split(r"[;:.](?: |$)", sentence)[0]
