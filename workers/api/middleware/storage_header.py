"""Says of an answer that the archive was read for it: `Rotulus-Storage: archive` (§17.7).

An answer that has begun before anything is read, as a stream has, carries no such header.
"""

from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from workers.views.cold_reads import ARCHIVE, HEADER, begin_answer

_HEADER: Final = (HEADER.lower().encode(), ARCHIVE.encode())


class StorageHeaderMiddleware:
    """Adds the header."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        reads = begin_answer()

        async def stated(message: Message) -> None:
            if message["type"] == "http.response.start" and reads.was_archive_read:
                message["headers"] = [*message["headers"], _HEADER]
            await send(message)

        await self._app(scope, receive, stated)
