"""Shares what every page needs: its frame, its template, links and answers."""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final, Literal
from urllib.parse import quote

from anyio import to_thread
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from actors.error_codes import status_of
from kernel.values.misleading import LAST_CONTROL, MISLEADING, visible
from kernel.work.request_search import StateAsked
from workers import dashboard
from workers.dashboard.assets import Assets
from workers.dashboard.formatting import ago, number
from workers.dashboard.headers import PAGE
from workers.dashboard.page_model import Row
from workers.dashboard.pages.fixed_links import fixed_at
from workers.dashboard.pages.forms import form_token
from workers.dashboard.pages.refusals import refusal_context
from workers.dashboard.pages.source import PageSource
from workers.dashboard.sanitize import (
    LINES_CHARS_MAX,
    TEXT_CHARS_MAX,
    bound_lines,
    bound_text,
    breakable_pieces,
)
from workers.environment.output import command_line
from workers.environment.system_host import utc_now
from workers.use_cases.access import IS_CLOSED, caller_of, reader_of
from workers.views.cold_reads import was_archive_read

STATE_WORDS: Final[Mapping[StateAsked, str]] = {
    "open": "open",
    "completed": "completed",
    "dead_letter": "given up",
    "cancelled": "cancelled",
    "standing": "given up, not settled",
}
"""The states of requests in words."""

Place = Literal[
    "Overview",
    "Queues",
    "Requests",
    "Workers",
    "Sessions",
    "Reviews",
    "Runs",
    "Record",
    "Fleet",
]
PLACES: Final[Mapping[Place, str]] = {
    "Overview": "",
    "Queues": "queues",
    "Requests": "requests",
    "Workers": "workers",
    "Sessions": "sessions",
    "Reviews": "reviews",
    "Runs": "runs",
    "Record": "record",
    "Fleet": "fleet",
}
"""The navigation of every page: the places in order, each with its path."""

PLACE_ACTIONS: Final[Mapping[Place, str]] = {
    "Overview": "read.fleet",
    "Queues": "read.fleet",
    "Requests": "read.requests",
    "Workers": "read.fleet",
    "Sessions": "read.records",
    "Reviews": "read.reviews",
    "Runs": "read.landscape",
    "Record": "read.records",
    "Fleet": "read.fleet",
}
"""What whoever opens a place has to be allowed to do; the others do not see it."""


COPIED_CHARS_MAX: Final = 2_000
"""Characters of an id that can be copied."""


@dataclass(frozen=True, slots=True)
class Pages:
    """Where pages read, and the files that they name."""

    source: PageSource
    assets: Assets
    picture: Callable[[Request], Awaitable[Row]]
    """The newest picture of the overview, of which each page shows what needs somebody."""

    def for_request(self, request: Request) -> "Pages":
        """Return the pages as whoever asks may read them."""
        source = self.source.for_reader(reader_of(request.scope))
        return self if source is self.source else replace(self, source=source)

    async def answer(
        self,
        request: Request,
        template: str,
        context: Mapping[str, Any],
        status: int = 200,
        headers: Mapping[str, str] = PAGE,
    ) -> Response:
        """Return a page; a thread renders it, so that it does not hold the loop."""
        common = frame_context(
            request, self.assets, request.scope.get("rotulus.place"), await self.picture(request)
        )
        loaded = templates().get_template(f"pages/{template}.html")
        html = await to_thread.run_sync(lambda: loaded.render({**common, **context}))
        if common["moment"] is not None:
            html = fixed_at(html, common["moment"].sequence)
        return HTMLResponse(html, status, headers=headers)

    async def refuse(self, request: Request, code: str, message: str) -> Response:
        """Return a page that says what was refused, with its code."""
        status = status_of(code)
        return await self.answer(request, "refused", refusal_context(code, message, status), status)


Handler = Callable[[Pages, Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class PageRoute:
    """A path of the pages and what answers it."""

    method: str
    path: str
    action: str
    """What whoever asks has to be allowed to do (`kernel/records/access/actions.py`)."""

    handler: Handler
    place: Place | None = None
    """Where it stands in the navigation; None for what belongs to no place."""


def frame_context(
    request: Request, assets: Assets, place: Place | None, picture: Row
) -> dict[str, Any]:
    """Return what the frame of every page shows."""
    base = relative_root(request)
    static = f"{base}/static/{assets.version}"
    caller, is_open = caller_of(request.scope), IS_CLOSED not in request.scope
    if not is_open and (caller is None or not caller.may("read.fleet")):
        picture = {}
    may = {
        name: is_open or (caller is not None and caller.may(action))
        for name, action in PLACE_ACTIONS.items()
    }
    return {
        "principal": None if caller is None else caller.principal,
        "roles": () if caller is None else caller.roles,
        "form_token": form_token(request),
        "is_open": is_open,
        "may_search": is_open or (caller is not None and caller.may("read.records")),
        "places": {name: path for name, path in PLACES.items() if may[name]},
        "base": base,
        "static": static,
        "place": place,
        "moment": request.scope.get("rotulus.moment"),
        "was_archive_read": was_archive_read(),
        "needs": {
            "urgent": picture.get("a_urgent", "0"),
            "words": picture.get("a_words", ""),
            "away": [*_away(picture)],
        },
    }


def _away(picture: Row) -> Iterator[Row]:
    """Yield what needs somebody because something that the gateway stands on is away."""
    for row in picture["attention"].rows.values() if "attention" in picture else ():
        if row["a_kind"] == "dependency_away":
            yield row


def relative_root(request: Request) -> str:
    """Return the way from what is asked for to the root of the dashboard, without a slash behind.

    Whatever path a proxy puts before ours, a browser resolves it there (decision workers/0411).
    """
    # The browser counts slashes as it sent them: one in a name is encoded.
    return "/".join([".."] * (_path_below_root(request).count("/") - 1)) or "."


def login_way(request: Request) -> str:
    """Return the way from the page that was asked for to the login, and back to it.

    A form is sent to no page that could be shown, so from there nothing leads back.
    """
    if request.method != "GET":
        return f"{relative_root(request)}/login"
    query = request.scope["query_string"].decode("ascii", "replace")
    back = _path_below_root(request).lstrip("/") + (f"?{query}" if query else "")
    way = f"{relative_root(request)}/login?next={quote(back, safe='')}"
    return way.removeprefix("./")


def _path_below_root(request: Request) -> str:
    """Return the path below the mount, as it was sent."""
    scope = request.scope
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    mount = quote(scope.get("root_path", "")).rstrip("/").encode()
    return raw.partition(b"?")[0].removeprefix(mount).decode("ascii", "replace")


def in_url(text: str) -> str:
    """Return a text as one segment of a path."""
    return quote(text, safe="")


def moment(text: str) -> Markup:
    """Return a time of the record as an element: how long ago it was, with the exact time."""
    exact = f"{text[:10]} {text[11:19]} UTC"
    try:
        age = ago(datetime.fromisoformat(text), utc_now())
    except ValueError:
        age = exact
    element = Markup('<time datetime="{0}" data-exact="{1}">{2}</time>')
    return element.format(text, exact, age)


def since_epoch(seconds: int) -> Markup:
    """Return a time in seconds since 1970 as an element, like `moment`."""
    return moment(datetime.fromtimestamp(seconds, UTC).isoformat())


def exactly(text: str) -> Markup:
    """Return a text as a form sends it back; what misleads a reader stands there by its number.

    A control character has no number in HTML, and stays.
    """
    number = Markup("&#{0};").format
    is_numbered = [MISLEADING.match(each) and each > LAST_CONTROL for each in text]
    pairs = zip(text, is_numbered, strict=True)
    return Markup("").join(number(ord(each)) if numbered else each for each, numbered in pairs)


_AT_TIMES: Final = re.compile(
    r"(?:at )?(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?(?:Z|[+-]\d{2}:\d{2}))"
)


def timed_text(text: str, chars_max: int = TEXT_CHARS_MAX) -> Markup:
    """Return a sentence likewise, with each time in it as `moment` has it."""
    # The words and the times take turns.
    pieces = enumerate(_AT_TIMES.split(bound_text(text, chars_max)))
    return Markup("").join(
        moment(piece) if place % 2 else breakable_text(piece, chars_max) for place, piece in pieces
    )


def commands_text(text: str) -> Markup:
    """Return a text of ours whose commands stand between backquotes, with each as an element."""
    pieces = enumerate(text.split("`"))
    return Markup("").join(
        Markup("<code>{0}</code>").format(piece) if place % 2 else piece for place, piece in pieces
    )


def breakable_text(text: str, chars_max: int = TEXT_CHARS_MAX) -> Markup:
    """Return a text as an element shows it: bounded, and with the places where a line may end."""
    return Markup("<wbr>").join(breakable_pieces(bound_text(str(text), chars_max)))


def copyable(text: str) -> Markup:
    """Return an id that can be copied whole, also where it is shown cut."""
    cut, whole = bound_text(text), bound_text(text, COPIED_CHARS_MAX)
    attribute = Markup(' data-whole="{0}"').format(whole) if whole != cut else ""
    return Markup('<span class="id"{0}><code>{1}</code></span>').format(attribute, cut)


def _visible(value: object) -> object:
    """Return what an expression of a template shows, without characters that mislead."""
    return visible(value) if type(value) is str else value


@cache
def templates() -> Environment:
    """Return the templates of the dashboard; each escapes what it shows."""
    environment = Environment(
        loader=PackageLoader(dashboard.__name__, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=_visible,
    )
    environment.filters.update(in_url=in_url, moment=moment, copyable=copyable, number=number)
    environment.filters["exactly"] = exactly
    environment.filters.update(shown=breakable_text, bounded=bound_text, lines=bound_lines)
    environment.filters.update(timed=timed_text, commands=commands_text)
    environment.filters["since_epoch"] = since_epoch
    environment.filters["breakable"] = lambda text: breakable_text(text, LINES_CHARS_MAX)
    environment.globals.update(state_words=STATE_WORDS, command_line=command_line)
    return environment
