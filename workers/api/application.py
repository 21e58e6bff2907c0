"""Answers requests: finds the route that is meant, has it read, calls it, writes what it returns.

It is the one way to every endpoint. The routes are declared by the framework's `APIRoute`, of which
the OpenAPI document is made too; the framework's own dispatcher is not used (decision
workers/0475). It asks whether the caller may do what a route does before anything else is read
(decision workers/0580).
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from fastapi import Response
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from kernel.records.access.actions import ACTIONS
from workers.api.errors import answer_of, not_allowed, not_found, respond
from workers.api.json_answers import json_answer
from workers.api.json_routes import JsonRoute
from workers.api.middleware.answer_headers import ENDLESS
from workers.api.request_reader import Parts, RequestReader
from workers.api.services import Services
from workers.use_cases.access import ACTION, reader_of

_NAMED: Final = re.compile(r"\(\?P<\w+>")


class BoundRoute:
    """A route, and what reads the arguments of its endpoint."""

    def __init__(self, route: APIRoute) -> None:
        self.route = route
        self.action = action_of(route)
        # A session that is active answers from memory, not from what may be read of the record.
        self._reads_session = self.action.startswith("read.") and "{session_id" in route.path
        self._reader = route.reader if isinstance(route, JsonRoute) else RequestReader(route)

    async def response(
        self, scope: Scope, receive: Receive, parts: Parts, services: Services
    ) -> Response:
        """Return the response of the endpoint, or that of the error that it raises."""
        try:
            if self._reads_session and await services.hides_session(parts["session_id"]):
                details = {"session_id": parts["session_id"]}
                return respond("SESSION_NOT_FOUND", "no such session", details)
            arguments = await self._reader.arguments(scope, receive, parts, services)
            answer = await self.route.endpoint(**arguments)
        except Exception as error:
            response = answer_of(error)
            if response is None:
                raise
            return response
        if isinstance(answer, Response):
            return answer
        return await json_answer(answer, self.route.status_code)


def action_of(route: APIRoute) -> str:
    """Return the action that a route names.

    Raises:
        TypeError: it names none of the table.
    """
    action = (route.openapi_extra or {}).get(ACTION)
    if action not in ACTIONS:
        raise TypeError(f"{route.path} names no action: {action!r}")
    return str(action)


class RouteTable:
    """The routes of a method as one expression, in which they are tried in their order."""

    def __init__(self, routes: Iterable[APIRoute]) -> None:
        self._bound: dict[int, tuple[BoundRoute, tuple[str, ...]]] = {}
        patterns, group = [], 1
        for route in routes:
            names = tuple(route.param_convertors)
            self._bound[group] = (BoundRoute(route), names)
            patterns.append(f"({_NAMED.sub('(', route.path_regex.pattern)})")
            group += 1 + len(names)
        self._expression = re.compile("|".join(patterns))

    def has(self, path: str) -> bool:
        """Tell whether a path is one of theirs."""
        return self._expression.match(path) is not None

    def bound_route(self, path: str) -> tuple[BoundRoute, Parts] | None:
        """Return the route at a path, and the parts of the path that are fields."""
        match = self._expression.match(path)
        if match is None or (group := match.lastindex) is None:
            return None
        bound, names = self._bound[group]
        parts = {}
        for name in names:
            group += 1
            parts[name] = match[group]
        return bound, parts


class Application:
    """An ASGI application of routes, behind middleware."""

    def __init__(self, routes: Iterable[BaseRoute], services: Services) -> None:
        self.services = services
        self.routes = tuple(routes)
        by_method: dict[str, list[APIRoute]] = {}
        for route in self.routes:
            if not isinstance(route, APIRoute):
                raise TypeError(f"{route} is not declared as the others are")
            for method in route.methods or ():
                by_method.setdefault(method, []).append(route)
        self._tables: Mapping[str, RouteTable] = {
            method: RouteTable(routes) for method, routes in by_method.items()
        }
        self._entry: ASGIApp = self._answer

    def add_middleware(self, middleware: Callable[..., ASGIApp], **options: Any) -> None:
        """Put a middleware in front of all others."""
        self._entry = middleware(self._entry, **options)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        await self._entry(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        path: str = scope["path"]
        table = self._tables.get(scope["method"])
        named = None if table is None else table.bound_route(path)
        if named is None:
            methods = self._methods_of(path)
            response: Response = not_allowed(methods) if methods else not_found()
        else:
            bound, parts = named
            scope["route"], scope["path_params"] = bound.route, parts
            door = self.services.door
            if door is not None:
                admitted = await door.admit(scope, receive, bound.action, parts)
                if isinstance(admitted, Response):
                    await admitted(scope, receive, send)
                    return
                readable = self.services.for_reader(reader_of(scope))
                with door.holding(scope):
                    response = await bound.response(scope, admitted, parts, readable)
                    await door.call(response, scope, admitted, send)
                return
            response = await bound.response(scope, receive, parts, self.services)
        await response(scope, receive, send)

    def _methods_of(self, path: str) -> list[str]:
        methods = [method for method, table in self._tables.items() if table.has(path)]
        is_headed = "GET" in methods and path not in ENDLESS
        return sorted([*methods, "HEAD"] if is_headed else methods)
