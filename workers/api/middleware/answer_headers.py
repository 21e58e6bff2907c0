"""Says with an answer who owns its session and whether the archive was read; serves HEAD as GET.

`Rotulus-Owner` has the URL that the owner of a session advertises; a gateway that owns it, or knows
no URL of who does, sends none. `GET /v1/gateways` has the table of these URLs.

`Rotulus-Storage: archive` says that the archive was read (§17.7). An answer that has begun before
anything is read, as a stream has, carries no such header.

HEAD is handed on as GET: a server sends no body after the head that it answers.
"""

from collections.abc import Callable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from workers.client.owner_hints import HEADER as OWNER
from workers.views.cold_reads import ARCHIVE, begin_answer
from workers.views.cold_reads import HEADER as STORAGE

ENDLESS = frozenset({"/events"})
"""Paths whose answer does not end, for which HEAD stays refused."""

_SESSIONS: Final = "/v1/sessions/"
_REFUSED: Final = (401, 403)
"""Statuses of answers to whom nothing is said about a session."""

_OWNER: Final = OWNER.lower().encode()
_STORAGE: Final = (STORAGE.lower().encode(), ARCHIVE.encode())


class AnswerHeadersMiddleware:
    """Adds the headers; `owner_url` returns the URL of the other gateway that owns a session."""

    def __init__(self, app: ASGIApp, owner_url: Callable[[str], str | None]) -> None:
        self._app = app
        self._owner_url = owner_url

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path: str = scope["path"]
        if scope["method"] == "HEAD" and path not in ENDLESS:
            # A copy: the server looks at its own to leave the body out.
            scope = {**scope, "method": "GET"}
        reads = begin_answer()

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message["headers"]]
                if reads.was_archive_read:
                    headers.append(_STORAGE)
                if path.startswith(_SESSIONS) and message["status"] not in _REFUSED:
                    session_id = path[len(_SESSIONS) :].partition("/")[0].lower()
                    url = self._owner_url(session_id)
                    if url is not None:
                        headers.append((_OWNER, url.encode("ascii")))
                message["headers"] = headers
            await send(message)

        await self._app(scope, receive, send_with_headers)
