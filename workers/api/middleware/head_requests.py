"""Answers HEAD as GET is answered, whose body the server leaves out."""

from starlette.types import ASGIApp, Receive, Scope, Send

ENDLESS = frozenset({"/events"})
"""Paths whose answer does not end, for which the method stays refused."""


class HeadRequestsMiddleware:
    """ASGI middleware: hands HEAD on as GET. A server sends no body after the head it answers."""

    def __init__(self, app: ASGIApp) -> None:
        """Stand before `app`."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] == "http" and scope["method"] == "HEAD" and scope["path"] not in ENDLESS:
            # A copy: the server looks at its own to leave the body out.
            scope = {**scope, "method": "GET"}
        await self._app(scope, receive, send)
