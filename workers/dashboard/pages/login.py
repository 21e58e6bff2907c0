"""Logs browsers in and out, by a key or a provider; a session's own key is kept in a cookie.

A login by a provider is begun with a second cookie, so that its answer counts in this browser
alone. That is sent along from the provider's page (`SameSite=Lax`), and the session's is not
(`Strict`): so whoever comes back sees a page of ours, which leads on.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final
from urllib.parse import quote

import orjson
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from actors.error_codes import status_of
from workers.dashboard.headers import PAGE
from workers.dashboard.pages.forms import FormRefused, fields_of
from workers.dashboard.pages.page import Pages, relative_root
from workers.use_cases.access import COOKIE, LOGIN_S, caller_of
from workers.use_cases.provider_login import NOT_BEGUN, LoginBegun, LoginFailed

NEXT_CHARS_MAX = 2_000
_PROBLEM = "This is no key that stands: it may have been revoked or have expired."
BEGUN_COOKIE: Final = "__Host-rotulus-login"
BEGUN_S: Final = 600
"""How long somebody may take at the provider's."""

WAY_BYTES_MAX: Final = 2_000
ANSWER_FIELDS: Final = ("state", "code", "iss", "error")
_BEGUN_CHARS_MAX: Final = 4_000
_BEGUN: Final = "Path=/; Secure; HttpOnly; SameSite=Lax"
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
    response = RedirectResponse(f"./{_below(way)}", 303, PAGE)
    response.headers["Set-Cookie"] = f"{COOKIE}={session}; Max-Age={LOGIN_S}; {_KEPT}"
    return response


async def begin_at_provider(pages: Pages, request: Request) -> Response:
    """Send a browser to the provider, with what only it can come back with."""
    way = request.query_params.get("next", "")[:NEXT_CHARS_MAX]
    try:
        begun, address = await pages.source.begin_login()
    except LoginFailed as failed:
        return await _form(pages, request, way, str(failed), failed.code)
    # A browser keeps no cookie that is longer than 4 KiB, and with it no login.
    way = way if len(way.encode()) <= WAY_BYTES_MAX else ""
    kept = orjson.dumps([begun.state, begun.nonce, begun.verifier, way])
    value = urlsafe_b64encode(kept).decode()
    response = RedirectResponse(address, 303, {**PAGE, "Referrer-Policy": "no-referrer"})
    response.headers["Set-Cookie"] = f"{BEGUN_COOKIE}={value}; Max-Age={BEGUN_S}; {_BEGUN}"
    return response


async def end_at_provider(pages: Pages, request: Request) -> Response:
    """Log in whoever the provider sends back to the browser that began, and lead on."""
    begun, way = _kept_login(request)
    query = request.query_params
    answer = {name: query[name] for name in ANSWER_FIELDS if name in query}
    try:
        session = await pages.source.log_in_by_provider(begun, answer)
    except LoginFailed as failed:
        response = await _form(pages, request, way, str(failed), failed.code)
    else:
        place = f"{relative_root(request)}/{_below(way)}"
        response = await pages.answer(request, "logged_in", {"next": way, "place": place})
        response.headers["Refresh"] = f"0; url={place}"
        cookie = f"{COOKIE}={session}; Max-Age={LOGIN_S}; {_KEPT}"
        response.headers.append("Set-Cookie", cookie)
    response.headers.append("Set-Cookie", f"{BEGUN_COOKIE}=; Max-Age=0; {_BEGUN}")
    return response


def _kept_login(request: Request) -> tuple[LoginBegun, str]:
    """Return the login that this browser began, and the page that was asked for."""
    text = request.cookies.get(BEGUN_COOKIE, "")
    if not 0 < len(text) <= _BEGUN_CHARS_MAX:
        return NOT_BEGUN, ""
    try:
        state, nonce, verifier, way = map(str, orjson.loads(urlsafe_b64decode(text)))
    except (ValueError, TypeError):
        return NOT_BEGUN, ""
    return LoginBegun(state, nonce, verifier), way[:NEXT_CHARS_MAX]


def _below(way: str) -> str:
    """Return a way that leads nowhere but below this gateway, whatever is written there."""
    return quote(way.lstrip("/"), safe="/?=&%:,+@")


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


async def _form(
    pages: Pages, request: Request, way: str, problem: str = "", code: str = "unauthenticated"
) -> Response:
    context = {
        "next": way[:NEXT_CHARS_MAX],
        "problem": problem,
        "has_provider": pages.source.has_provider,
    }
    return await pages.answer(request, "login", context, status_of(code) if problem else 200)
