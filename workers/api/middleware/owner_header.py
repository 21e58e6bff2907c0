"""Names the owner of a session in the answers of a gateway that is not, so that it is asked next.

The header `Rotulus-Owner` has the URL that the owner advertises; a gateway that owns the session,
or knows no URL of who does, sends none. `GET /v1/gateways` has the table of these URLs.
"""

from collections.abc import Callable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from workers.client.owner_hints import HEADER

_PREFIX: Final = "/v1/sessions/"
_NAME: Final = HEADER.lower().encode()


class OwnerHeaderMiddleware:
    """Adds the header; `owner_url` returns the URL of the other gateway that owns a session."""

    def __init__(self, app: ASGIApp, owner_url: Callable[[str], str | None]) -> None:
        self._app = app
        self._owner_url = owner_url

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a connection."""
        path = scope.get("path", "")
        if scope["type"] != "http" or not path.startswith(_PREFIX):
            await self._app(scope, receive, send)
            return
        session_id = path[len(_PREFIX) :].partition("/")[0].lower()

        async def hinted(message: Message) -> None:
            if message["type"] == "http.response.start":
                url = self._owner_url(session_id)
                if url is not None:
                    message["headers"] = [*message["headers"], (_NAME, url.encode("ascii"))]
            await send(message)

        await self._app(scope, receive, hinted)
