"""Answers instead of a page: an error with a code, like every other door."""

from starlette.responses import JSONResponse

from actors.error_codes import status_of
from workers.dashboard.headers import LIVE


def refusal(code: str, message: str, **headers: str) -> JSONResponse:
    """Return a refusal in the form of every door."""
    body = {"error": {"code": code, "message": message}}
    return JSONResponse(body, status_of(code), headers={**LIVE, **headers})
