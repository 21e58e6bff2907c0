"""What the dashboard answers instead of a page: an error with a code, like every other door."""

from starlette.responses import JSONResponse

from workers.dashboard.headers import LIVE


def refusal(status: int, code: str, message: str, **headers: str) -> JSONResponse:
    """Return a refusal as every door has it."""
    body = {"error": {"code": code, "message": message}}
    return JSONResponse(body, status, headers={**LIVE, **headers})
