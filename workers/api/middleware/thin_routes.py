"""Calls the routes that are asked most without the framework, which costs as much as they do.

The framework declares every route; the hot ones are taken from its declarations, so each has one
endpoint, one place in the OpenAPI document and one set of types. A request for one of them that is
as nearly all are, a short JSON body in which everything is valid, is read, validated and answered
here. Any other is handed on with its body, so what is refused is refused by the framework's own
routes, in their words (decision workers/0090).
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import orjson
from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from workers.api.body_limits import BodyLimits, limits_of
from workers.api.errors import answer_of
from workers.api.json_bodies import READ_AT_ONCE_BYTES, read_whole
from workers.api.services import Services

_JSON = b"application/json"

Endpoint = Callable[..., Awaitable[Any]]


class _Argument(NamedTuple):
    name: str
    adapter: TypeAdapter[Any]


class ThinRoute:
    """A route that takes JSON, with its place in the path, its types and its endpoint."""

    def __init__(self, route: APIRoute, services: Services) -> None:
        """Take over what a route declares.

        Raises:
            TypeError: it declares something that is not called here.
        """
        self.route = route
        self.prefix, self._path_argument, self.suffix = _places(route.path)
        self.limits: BodyLimits = limits_of(route.path)
        self._endpoint: Endpoint = inspect.unwrap(route.endpoint)
        self._fixed: dict[str, Any] = {}
        self._wants_request: str | None = None
        self._wants_response: str | None = None
        self._in_path: _Argument | None = None
        hints = get_type_hints(route.endpoint, include_extras=True)
        bodies = []
        for name in inspect.signature(route.endpoint).parameters:
            kind = hints[name]
            if kind is Request:
                self._wants_request = name
            elif kind is Response:
                self._wants_response = name
            elif get_origin(kind) is Annotated and get_args(kind)[0] is Services:
                self._fixed[name] = services
            elif name == self._path_argument:
                self._in_path = _Argument(name, TypeAdapter(kind))
            else:
                bodies.append(_Argument(name, TypeAdapter(kind)))
        if len(bodies) != 1 or route.status_code is not None:
            raise TypeError(f"{route.path} is not called without the framework")
        [self._body] = bodies

    def arguments(self, path: str, content: bytes) -> dict[str, Any] | None:
        """Return the arguments that are in a request, None where something is wrong with it."""
        arguments = dict(self._fixed)
        try:
            document = read_whole(content, self.limits)
            if self._in_path is not None:
                stated = path[len(self.prefix) : len(path) - len(self.suffix)]
                arguments[self._in_path.name] = self._in_path.adapter.validate_python(stated)
            body = self._body.adapter.validate_python(document, from_attributes=True)
        except ValidationError:
            return None
        except Exception as error:
            if answer_of(error) is None:
                raise
            return None
        arguments[self._body.name] = body
        return arguments

    async def response(
        self, arguments: dict[str, Any], scope: Scope, receive: Receive, content: bytes
    ) -> Response:
        """Call the endpoint and return its response, or that of the error which it raises."""
        if self._wants_request is not None:
            request = Request(scope, receive)
            # Where the framework looks for what was read before.
            request._body = content  # noqa: SLF001
            arguments[self._wants_request] = request
        if self._wants_response is not None:
            arguments[self._wants_response] = Response()
        try:
            answer = await self._endpoint(**arguments)
        except Exception as error:
            response = answer_of(error)
            if response is None:
                raise
            return response
        if isinstance(answer, Response):
            return answer
        return Response(orjson.dumps(answer), media_type="application/json")


class ThinRoutesMiddleware:
    """ASGI middleware: answers the hot routes, and hands on every other request."""

    def __init__(self, app: ASGIApp, *, routes: Iterable[APIRoute], services: Services) -> None:
        self._app = app
        made = [ThinRoute(route, services) for route in routes]
        self._by_last_part: Mapping[str, ThinRoute] = {
            thin.route.path.rpartition("/")[2]: thin for thin in made
        }
        if len(self._by_last_part) != len(made):
            raise TypeError("two hot routes end alike")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        thin = self._route_of(scope) if scope["type"] == "http" else None
        if thin is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = thin.route
        messages: list[Message] = []
        try:
            content = await _content(receive, messages)
        except Exception as error:
            response = answer_of(error)
            if response is None:
                raise
            await response(scope, receive, send)
            return
        arguments = None if content is None else thin.arguments(scope["path"], content)
        if content is None or arguments is None:
            await self._app(scope, _replaying_receive(messages, receive), send)
        else:
            answer = await thin.response(arguments, scope, receive, content)
            await answer(scope, receive, send)

    def _route_of(self, scope: Scope) -> ThinRoute | None:
        path: str = scope["path"]
        thin = self._by_last_part.get(path.rpartition("/")[2])
        if thin is None or scope["method"] != "POST" or not path.startswith(thin.prefix):
            return None
        # A parameter is one part of a path, and is there if the path has one.
        stated = path[len(thin.prefix) : len(path) - len(thin.suffix)]
        is_path = "/" not in stated and bool(stated) == bool(thin.suffix)
        return thin if is_path and _is_short_json(scope["headers"]) else None


def _places(path: str) -> tuple[str, str | None, str]:
    """Return what stands before the one parameter of a path, its name, and what stands behind."""
    prefix, brace, rest = path.partition("{")
    if not brace:
        return path, None, ""
    name, _, suffix = rest.partition("}")
    if "{" in suffix or ":" in name:
        raise TypeError(f"{path} is not called without the framework")
    return prefix, name, suffix


def _is_short_json(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    kind, length = b"", b""
    for name, value in headers:
        if name == b"content-type":
            # Whichever of two the framework would take, it takes.
            kind = value if not kind else b"two"
        elif name == b"content-length":
            length = value
    is_short = length.isdigit() and len(length) <= 5 and 0 < int(length) <= READ_AT_ONCE_BYTES
    return kind == _JSON and is_short


async def _content(receive: Receive, messages: list[Message]) -> bytes | None:
    """Return a body, None where its sender went; what was received is added to `messages`."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        messages.append(message)
        if message["type"] != "http.request":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def _replaying_receive(messages: list[Message], receive: Receive) -> Receive:
    """Return what receives the messages again, and then whatever comes."""
    remaining = iter(messages)

    async def replayed() -> Message:
        message = next(remaining, None)
        return await receive() if message is None else message

    return replayed
