"""States the error body in the OpenAPI document: one for every route, stated once.

See decision workers/0011. A door takes exactly what the document says: a name in a path has 512
characters at most, and a time is written as one (`2026-01-31T12:00:00Z`), not as seconds since an
epoch. The two bodies of `/v1/rollbacks` are told apart by a number, which a discriminator of
OpenAPI cannot say, so the document has a plain `oneOf`.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from actors.error_codes import ERRORS
from workers.api.body_limits import ENVELOPE, MAX_BODY_BYTES
from workers.api.middleware.request_guard import BODY_S_MAX


def documented_codes() -> dict[str, Any]:
    """Return what each code says that a door answers with."""
    return {
        code: {
            "status": meaning.status,
            "retryable": meaning.is_retryable,
            "fault": meaning.fault,
            "may_be_taken": meaning.may_be_taken,
        }
        for code, meaning in ERRORS.items()
        if meaning.status is not None
    }


class Error(BaseModel):
    """What went wrong."""

    model_config = ConfigDict(extra="forbid")

    code: str = Field(min_length=1, json_schema_extra={"x-codes": documented_codes()})
    """Stable; what a program decides by."""

    message: str = Field(min_length=1)
    details: dict[str, Any] = Field(default_factory=dict)


class ErrorBody(BaseModel):
    """The body of every error."""

    model_config = ConfigDict(extra="forbid")

    error: Error


REFUSED = (
    f"Refused; `code` says why. A body has at most {MAX_BODY_BYTES} bytes, one with an envelope"
    f" {ENVELOPE.body_bytes}, and {BODY_S_MAX:g} s to be there (408); 429 says with `Retry-After`"
    " when the same may be sent again."
)
FAILED = (
    "Not done for a reason of ours; 503 says with `Retry-After` when to ask again, and"
    " `gateway_full` that nothing was read."
)

ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorBody, "description": REFUSED},
    "5XX": {"model": ErrorBody, "description": FAILED},
}
"""For `FastAPI(responses=...)`; it stands in for the framework's own 422."""
