"""Logs browsers in and out: a key is shown once, and a session's own key is kept in a cookie."""

from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from workers.dashboard.headers import PAGE
from workers.dashboard.pages.forms import FormRefused, fields_of
from workers.dashboard.pages.page import Pages, relative_root
from workers.use_cases.access import COOKIE, LOGIN_S, caller_of

NEXT_CHARS_MAX = 2_000
_PROBLEM = "This is no key that stands: it may have been revoked or have expired."
_KEPT = "Path=/; Secure; HttpOnly; SameSite=Strict"


async def show(pages: Pages, request: Request) -> Response:
    """Show the form."""
    return await _form(pages, request, request.query_params.get("next", ""))


async def log_in(pages: Pages, request: Request) -> Response:
    """Check a key, open a session and go on to the page that was asked for."""
    try:
        fields = await fields_of(request, ("key", "next"))
    except FormRefused as refused:
        return await pages.refuse(request, refused.code, str(refused))
    way = fields.get("next", "")[:NEXT_CHARS_MAX]
    session = await pages.source.log_in(fields.get("key", "").strip())
    if session is None:
        return await _form(pages, request, way, _PROBLEM)
    # Below this gateway, whatever is written there.
    response = RedirectResponse(f"./{quote(way.lstrip('/'), safe='/?=&%:,+@')}", 303, PAGE)
    response.headers["Set-Cookie"] = f"{COOKIE}={session}; Max-Age={LOGIN_S}; {_KEPT}"
    return response


async def log_out(pages: Pages, request: Request) -> Response:
    """End the session of a browser, and what its cookie is good for."""
    try:
        await fields_of(request, ())
    except FormRefused as refused:
        return await pages.refuse(request, refused.code, str(refused))
    caller = caller_of(request.scope)
    if caller is not None:
        await pages.source.log_out(caller)
    response = RedirectResponse(f"{relative_root(request)}/login", 303, PAGE)
    response.headers["Set-Cookie"] = f"{COOKIE}=; Max-Age=0; {_KEPT}"
    return response


async def _form(pages: Pages, request: Request, way: str, problem: str = "") -> Response:
    context = {"next": way[:NEXT_CHARS_MAX], "problem": problem}
    return await pages.answer(request, "login", context, 401 if problem else 200)
