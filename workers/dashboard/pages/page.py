"""Shares what the pages of single things need: their template, links and answers."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import quote

from anyio import to_thread
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from actors.error_codes import status_of
from workers.dashboard.assets import Assets
from workers.dashboard.headers import PAGE
from workers.dashboard.pages.source import PageSource
from workers.dashboard.sanitize import bounded_text
from workers.views.cold_reads import was_archive_read


@dataclass(frozen=True, slots=True)
class Pages:
    """Where pages read, and the files that they name."""

    source: PageSource
    assets: Assets

    async def answer(
        self, request: Request, template: str, context: Mapping[str, Any], status: int = 200
    ) -> Response:
        """Return a page; a thread renders it, so that it does not hold the loop."""
        base = relative_root(request)
        static = f"{base}/static/{self.assets.version}"
        common = {"base": base, "static": static, "was_archive_read": was_archive_read()}
        loaded = templates().get_template(f"pages/{template}.html")
        html = await to_thread.run_sync(lambda: loaded.render({**common, **context}))
        return HTMLResponse(html, status, headers=PAGE)

    async def refused(self, request: Request, code: str, message: str) -> Response:
        """Return a page that says what was refused, with its code."""
        context = {"code": code, "message": message}
        return await self.answer(request, "refused", context, status_of(code))


Handler = Callable[[Pages, Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class PageRoute:
    """A path of the pages and what answers it."""

    method: str
    path: str
    handler: Handler


def relative_root(request: Request) -> str:
    """Return the way from what is asked for to the root of the dashboard, without a slash behind.

    Whatever path a proxy puts before ours, a browser resolves it there (decision workers/0411).
    """
    scope = request.scope
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    mount = quote(scope.get("root_path", "")).rstrip("/").encode()
    # The browser counts slashes as it sent them: one in a name is encoded.
    depth = raw.partition(b"?")[0].removeprefix(mount).count(b"/") - 1
    return "/".join([".."] * depth) or "."


def in_url(text: str) -> str:
    """Return a text as one segment of a path."""
    return quote(text, safe="")


def moment(text: str) -> Markup:
    """Return a time of the record to the second; the whole of it stays in the element."""
    return Markup('<time datetime="{0}">{1} {2}</time>').format(text, text[:10], text[11:19])


@cache
def templates() -> Environment:
    """Return the templates of the dashboard; each escapes what it shows."""
    environment = Environment(
        loader=PackageLoader("workers.dashboard", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update(in_url=in_url, moment=moment, shown=bounded_text)
    return environment
