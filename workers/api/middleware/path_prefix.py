"""Takes off the path under which a proxy serves a gateway, where the proxy leaves it on.

Addresses in pages are relative, so nothing else has to know of it (decision workers/0411).
"""

from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

_TO_FOLDER: Final = 308


class PathPrefixMiddleware:
    """ASGI middleware: a request below `prefix` is served as if it had not been there."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app = app
        self._prefix = prefix
        self._raw = prefix.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a connection."""
        path: str = scope.get("path", "")
        if scope["type"] == "http" and path == self._prefix:
            # Without a slash behind, a browser would resolve what is relative one level too high.
            place = f"{self._prefix.rpartition('/')[2]}/".encode()
            headers = [(b"location", place), (b"content-length", b"0")]
            start = {"type": "http.response.start", "status": _TO_FOLDER, "headers": headers}
            await send(start)
            await send({"type": "http.response.body", "body": b""})
            return
        if path.startswith(f"{self._prefix}/"):
            raw: bytes = scope.get("raw_path") or b""
            scope = {
                **scope,
                "path": path.removeprefix(self._prefix),
                "raw_path": raw.removeprefix(self._raw),
            }
        await self._app(scope, receive, send)
