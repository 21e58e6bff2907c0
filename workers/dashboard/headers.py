"""Lists the headers that every answer of the dashboard carries."""

from starlette.responses import JSONResponse

from actors.error_codes import status_of

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)

SECURITY = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}

LIVE = {**SECURITY, "Cache-Control": "no-store"}
"""Headers of an answer that is true only now."""

FOREVER = {**SECURITY, "Cache-Control": "public, max-age=31536000, immutable"}
"""Headers of a file under its own version."""

RECHECK = {**SECURITY, "Cache-Control": "no-cache"}
"""Headers of a file that was requested under another version."""

PAGE = {
    **LIVE,
    "Content-Security-Policy": CONTENT_SECURITY_POLICY.replace(
        "form-action 'none'", "form-action 'self'"
    ),
    "Referrer-Policy": "same-origin",
}
"""Headers of a page with forms: they go to this origin alone.

Under `no-referrer` a browser sends `Origin: null` with a form, which is refused.
"""


FOLLOWED = {**PAGE, "Refresh": "2; url=?follow=yes"}
"""Headers of a page that its reader asked to see again and again, with a script or without."""


def refusal(code: str, message: str, **headers: str) -> JSONResponse:
    """Return a refusal in the form of every door."""
    body = {"error": {"code": code, "message": message}}
    return JSONResponse(body, status_of(code), headers={**LIVE, **headers})
