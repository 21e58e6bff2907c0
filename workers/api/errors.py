"""Turns errors into HTTP: one body (seed 001 §3.2), nothing about our insides."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from actors.error_codes import status_of
from actors.errors import ActorError
from kernel.audit.manifests import ManifestUnknown
from kernel.audit.operations import AuditError
from kernel.audit.proofs import ProofSubjectUnknown
from kernel.belief.errors import BeliefError, CorruptBeliefEvent
from kernel.landscape.errors import LandscapeRefused
from kernel.ledger.archive import ArchiveUnavailable
from kernel.ledger.head_watch import LedgerWentBack
from kernel.ledger.past_rows import StateAsOfUnknown
from kernel.ledger.quarantine import RangeQuarantined
from kernel.records.access.errors import AccessRefused
from kernel.records.access.readable_view import NotCleared
from kernel.records.head_acceptance import HeadNotAccepted
from kernel.records.legal_holds import ErasureRefused
from kernel.records.quarantine_lifts import QuarantineRefused
from kernel.records.reviews.errors import ReviewRefused
from kernel.rollback.errors import RollbackRefused
from kernel.values.errors import LedgerCorrupt, LedgerUnavailable
from kernel.work.errors import WorkRefused
from queues.errors import QueueError
from workers.questions.question import QuestionRefused
from workers.use_cases.authority_sweeps import SweepRefused
from workers.use_cases.principal_use import PrincipalLimited

RETRY_AFTER_S = 1
PROBLEMS_MAX = 20
FIELD_CHARS_MAX = 500
MESSAGE_CHARS_MAX = 1000
"""Characters of a request that a refusal repeats at most."""

RETRYABLE_STATUS = frozenset({429, 503})
"""Statuses of answers that name a time after which the same may be sent again."""

HTTP_ERRORS: Mapping[int, tuple[str, str]] = MappingProxyType(
    {
        404: ("not_found", "no such thing"),
        405: ("method_not_allowed", "the method is not one of this path's"),
        408: ("body_too_slow", "the body was not there in time"),
        413: ("request_too_large", "the body is larger than this gateway takes"),
    }
)
"""Codes of refusals that are told by their status."""


class ApiError(Exception):
    """An error of the door itself."""

    def __init__(self, code: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.details = details


def error_body(code: str, message: str, details: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the body that every error has."""
    error: dict[str, Any] = {"code": code, "message": message[:MESSAGE_CHARS_MAX]}
    if details:
        error["details"] = dict(details)
    return {"error": error}


def respond(code: str, message: str, details: Mapping[str, Any] | None = None) -> JSONResponse:
    """Return the response of a coded error; one that may pass says when to ask again."""
    status = status_of(code)
    retry_after_s = (details or {}).get("retry_after_s", RETRY_AFTER_S)
    headers = {"Retry-After": str(retry_after_s)} if status in RETRYABLE_STATUS else None
    return JSONResponse(error_body(code, message, details), status, headers)


_CODED = (
    AccessRefused,
    BeliefError,
    ActorError,
    QueueError,
    ReviewRefused,
    RollbackRefused,
    WorkRefused,
    ErasureRefused,
    QuarantineRefused,
    HeadNotAccepted,
    LedgerWentBack,
    RangeQuarantined,
    SweepRefused,
    PrincipalLimited,
    ArchiveUnavailable,
    ApiError,
    LandscapeRefused,
    ProofSubjectUnknown,
    CorruptBeliefEvent,
    AuditError,
    ManifestUnknown,
    QuestionRefused,
    StateAsOfUnknown,
    NotCleared,
)


def _coded_response(error: Exception) -> JSONResponse:
    details = getattr(error, "details", None)
    message = getattr(error, "message", None) or str(error)
    return respond(getattr(error, "code", "internal"), message, details)


def _away(_: Exception) -> JSONResponse:
    # The message names the database, which is no caller's business.
    return respond("ledger_unavailable", "the ledger cannot be reached")


def _corrupt(error: Exception) -> JSONResponse:
    if getattr(error, "code", "") != "ledger_file_damaged":
        return _coded_response(error)
    # The message names the file, which is no caller's business.
    return respond("ledger_file_damaged", "the file of the ledger is damaged")


def _invalid(error: Exception) -> JSONResponse:
    listed = error.errors() if isinstance(error, RequestValidationError) else []
    problems = [
        {
            "field": ".".join(str(part) for part in problem["loc"])[:FIELD_CHARS_MAX],
            "problem": problem["msg"][:MESSAGE_CHARS_MAX],
        }
        for problem in listed[:PROBLEMS_MAX]
    ]
    message = problems[0]["problem"] if problems else "the request is not valid"
    return respond("INVALID_REQUEST", message, {"problems": problems})


def _http(error: Exception) -> JSONResponse:
    known = error if isinstance(error, HTTPException) else HTTPException(500)
    if known.status_code == 400:
        return respond("INVALID_REQUEST", "the body cannot be read")
    code, message = HTTP_ERRORS.get(known.status_code, ("http_error", "refused"))
    return JSONResponse(error_body(code, message), known.status_code, known.headers)


_ANSWERS: Mapping[type[Exception], Callable[[Exception], JSONResponse]] = MappingProxyType(
    {
        **dict.fromkeys(_CODED, _coded_response),
        LedgerCorrupt: _corrupt,
        LedgerUnavailable: _away,
        RequestValidationError: _invalid,
        HTTPException: _http,
    }
)
"""How each kind of error that a route can mean is answered; any other is the guard's to answer."""


def answer_of(error: Exception) -> JSONResponse | None:
    """Return the response of an error; None where no route means it."""
    for kind in type(error).__mro__:
        if kind in _ANSWERS:
            return _ANSWERS[kind](error)
    return None


def not_found() -> JSONResponse:
    """Return the response of a path that is none."""
    return _http(HTTPException(404))


def not_allowed(methods: Iterable[str]) -> JSONResponse:
    """Return the response of a method that is none of its path's, with those that are."""
    return _http(HTTPException(405, headers={"Allow": ", ".join(methods)}))
