"""Answers a browser that opens a page with a page where the gateway refuses in JSON.

Who shows no key is led to the login; what was typed into a form then, the browser has kept
(`static/shell.js`). Who asks for JSON, or for anything but a page, gets the answer
as it is; so does whoever asks an address of the interface (`/v1/`), with whatever program.
"""

from collections.abc import Mapping
from typing import Any

import orjson
from anyio import to_thread
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Message, Receive, Scope, Send

from workers.dashboard.assets import load_assets
from workers.dashboard.headers import LIVE, PAGE
from workers.dashboard.pages.page import frame_context, login_way, templates
from workers.dashboard.pages.refusals import refusal_context

_INTERFACE = "/v1/"
_REPLACED = frozenset({"content-type", "content-length", *map(str.lower, PAGE)})


class ErrorPages:
    """Puts the frame of every page around what a reader is refused."""

    def __init__(self) -> None:
        self._assets = load_assets()
        self._template = templates().get_template("pages/refused.html")

    def reader_send(self, scope: Scope, receive: Receive, send: Send) -> Send:
        """Return what an answer is sent by to a client that accepts pages."""
        if scope["method"] not in ("GET", "POST") or scope["path"].startswith(_INTERFACE):
            return send
        start: Message | None = None
        body = b""

        async def send_page(message: Message) -> None:
            nonlocal start, body
            if message["type"] == "http.response.start" and _is_refusal(message):
                start = message
                return
            if start is None:
                await send(message)
                return
            body += message.get("body", b"")
            if not message.get("more_body", False):
                request, error = Request(scope), orjson.loads(body).get("error")
                if error is None:
                    # What is not ready says so in a form of its own.
                    await send(start)
                    await send({"type": "http.response.body", "body": body})
                    return
                if error["code"] == "unauthenticated":
                    page: Response = RedirectResponse(login_way(request), 303, LIVE)
                else:
                    page = await self._page(request, start, error)
                await page(scope, receive, send)

        return send_page

    async def _page(
        self, request: Request, start: Message, error: Mapping[str, Any]
    ) -> HTMLResponse:
        kept = {
            name: value
            for name, value in Headers(raw=start["headers"]).items()
            if name not in _REPLACED
        }
        status = start["status"]
        refused = refusal_context(error["code"], error["message"], status)
        context = frame_context(request, self._assets, None, {}) | refused
        context["asked_as"] = kept.get("x-request-id")
        html = await to_thread.run_sync(self._template.render, context)
        return HTMLResponse(html, status, headers={**kept, **PAGE})


def _is_refusal(start: Message) -> bool:
    media_type = Headers(raw=start["headers"]).get("content-type", "")
    return bool(start["status"] >= 400 and media_type.startswith("application/json"))
