"""Reads of a request what its route declares: parts of the path, query, headers and body.

A reader is made of the fields of which the OpenAPI document is made, so a limit has one place. All
that is wrong with the fields of a request is refused together.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from workers.api.body_limits import limits_of
from workers.api.json_bodies import read_json
from workers.api.services import Services, services_placeholder

Problems = list[dict[str, Any]]
Parts = Mapping[str, str]

_JSON_TYPES: Final = re.compile(rb"\s*application/(?:[\w.+-]+\+)?json\s*(?:;|$)", re.IGNORECASE)
_KIND: Final = b"content-type"
_ABSENT: Final = object()


class _Field(NamedTuple):
    name: str
    key: str
    """Its name in the request."""

    location: tuple[str, ...]
    default: Any
    """What it is where a request does not have it; `_ABSENT` where a request must."""

    validate: Callable[..., tuple[Any, Problems]]


class _Fields:
    """The fields of an endpoint, or of an argument that is made of fields of its own."""

    def __init__(self, dependant: Dependant) -> None:
        self._path = [*_fields_in("path", dependant.path_params)]
        self._query = [*_fields_in("query", dependant.query_params)]
        self._headers = [*_fields_in("header", dependant.header_params)]
        self._made: list[tuple[str, Callable[..., Any], _Fields]] = [
            (str(made.name), made.call, _Fields(made))
            for made in dependant.dependencies
            if made.call is not None and not _is_services(made)
        ]

    @property
    def has_headers(self) -> bool:
        """Whether any of them is a header."""
        return bool(self._headers) or any(fields.has_headers for _, _, fields in self._made)

    def arguments(
        self, path: Parts, query: Parts, headers: Parts, problems: Problems
    ) -> dict[str, Any]:
        """Return the arguments that a request has, and add what is wrong with the others."""
        arguments: dict[str, Any] = {}
        for name, make, own in self._made:
            known = len(problems)
            parts = own.arguments(path, query, headers, problems)
            if len(problems) == known:
                arguments[name] = make(**parts)
        for field in self._path:
            _read(field, path.get(field.key, _ABSENT), arguments, problems)
        for field in self._query:
            _read(field, query.get(field.key, _ABSENT), arguments, problems)
        for field in self._headers:
            _read(field, headers.get(field.key, _ABSENT), arguments, problems)
        return arguments


class ArgumentReader(Protocol):
    """Reads the arguments of an endpoint."""

    async def arguments(
        self, scope: Scope, receive: Receive, path: Parts, services: Services
    ) -> dict[str, Any]:
        """Return the arguments, or raise an error that is the answer."""


class RequestReader:
    """Reads the arguments of a route's endpoint."""

    def __init__(self, route: APIRoute, *, refuses_repeats: bool = False) -> None:
        """Take over what a route declares.

        Raises:
            TypeError: it declares something that nobody reads.
        """
        declared = route.dependant
        if unread := [*_unread(declared)]:
            raise TypeError(f"{route.path} declares {unread}, which nobody reads")
        self._refuses_repeats = refuses_repeats
        self._fields = _Fields(declared)
        self._reads_headers = self._fields.has_headers
        self._body = next(_fields_in("body", declared.body_params), None)
        self._limits = limits_of(route.path)
        self._request = declared.request_param_name
        self._services = [str(made.name) for made in declared.dependencies if _is_services(made)]

    async def arguments(
        self, scope: Scope, receive: Receive, path: Parts, services: Services
    ) -> dict[str, Any]:
        """Return the arguments of the endpoint.

        Raises:
            RequestValidationError: the request is not what the fields are.
            ApiError, HTTPException: as `read_json`.
            ClientDisconnect: its sender went.
        """
        query: Parts = {}
        if scope["query_string"]:
            query = stated = QueryParams(scope["query_string"])
            if self._refuses_repeats:
                refuse_repeats(stated)
        content = b""
        document: Any = _ABSENT
        if self._body is not None:
            content = await _content(receive)
            if content:
                stated_headers = scope["headers"]
                kind = next((value for name, value in stated_headers if name == _KIND), b"")
                is_json = _JSON_TYPES.match(kind)
                document = await read_json(content, self._limits) if is_json else content
        problems: Problems = []
        headers = _headers(scope) if self._reads_headers else {}
        arguments = self._fields.arguments(path, query, headers, problems)
        if self._body is not None:
            _read(self._body, document, arguments, problems)
        if problems:
            raise RequestValidationError(problems)
        for name in self._services:
            arguments[name] = services
        if self._request is not None:
            arguments[self._request] = request = Request(scope, receive)
            if self._body is not None:
                # Where the framework looks for what was read before.
                request._body = content  # noqa: SLF001
        return arguments


def refuse_repeats(parameters: QueryParams) -> None:
    """Refuse a query that gives one parameter twice, of which a reader would take either.

    Raises:
        RequestValidationError: it does.
    """
    stated = parameters.multi_items()
    if len(stated) == len(parameters):
        return
    counts = Counter(name for name, _ in stated)
    repeated = [name for name, count in counts.items() if count > 1]
    raise RequestValidationError(
        [{"loc": ("query", name), "msg": "the parameter is given twice"} for name in repeated]
    )


def _read(field: _Field, stated: Any, arguments: dict[str, Any], problems: Problems) -> None:
    if stated is not _ABSENT:
        arguments[field.name], wrong = field.validate(stated, loc=field.location)
        problems += wrong
    elif field.default is _ABSENT:
        problems.append({"type": "missing", "loc": field.location, "msg": "Field required"})
    else:
        arguments[field.name] = field.default


def _fields_in(place: str, declared: list[Any]) -> Iterator[_Field]:
    for field in declared:
        location = (place,) if place == "body" else (place, field.alias)
        default = _ABSENT if field.field_info.is_required() else field.get_default()
        yield _Field(field.name, field.alias, location, default, field.validate)


def _is_services(declared: Dependant) -> bool:
    return declared.call is services_placeholder


def _unread(declared: Dependant) -> Iterator[str]:
    """Yield what an endpoint asks for that no reader gives it."""
    yield from (field.name for field in declared.cookie_params)
    yield from (field.name for field in declared.body_params[1:])
    for name in (
        declared.response_param_name,
        declared.background_tasks_param_name,
        declared.http_connection_param_name,
        declared.websocket_param_name,
    ):
        if name is not None:
            yield name
    for made in declared.dependencies:
        yield from (field.name for field in made.body_params)
        yield from _unread(made)
        if made.request_param_name is not None or made.dependencies:
            yield str(made.name)


def _headers(scope: Scope) -> Parts:
    """Return the headers, of those that stand twice the first."""
    return {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in reversed(scope["headers"])
    }


async def _content(receive: Receive) -> bytes:
    """Return a body.

    Raises:
        ClientDisconnect: its sender went.
    """
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)
