"""From errors to HTTP: one table, one body (seed 001 §3.2), nothing about our insides."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from actors.errors import ActorError
from kernel.belief.errors import BeliefError
from kernel.errors import LedgerUnavailable
from kernel.rollback.errors import RollbackRefused
from kernel.work.errors import WorkRefused
from queues.errors import QueueError
from workers.use_cases.authority_sweeps import SweepRefused

RETRY_AFTER_S = 1
PROBLEMS_MAX = 20
FIELD_CHARS_MAX = 500
MESSAGE_CHARS_MAX = 1000
"""What a refusal repeats of what was sent is cut off here."""

STATUS_BY_CODE: Mapping[str, int] = MappingProxyType(
    {
        "SESSION_NOT_FOUND": 404,
        "SESSION_EXISTS": 409,
        "SESSION_TERMINATED": 409,
        "INVALID_HYPOTHESIS_ID": 422,
        "OBLIGATION_NOT_FOUND": 404,
        "EVENT_NOT_FOUND": 404,
        "CONFLICT": 409,
        "INVALID_REQUEST": 422,
        "gateway_full": 503,
        "refusals_too_many": 429,
        "mailbox_full": 429,
        "runtime_full": 503,
        "actor_failed": 503,
        "commit_failed": 503,
        "stale_epoch": 503,
        "shard_unowned": 503,
        "reply_lost": 503,
        "clocks_differ": 503,
        "request_unprocessable": 422,
        "request_set_aside": 422,
        "request_too_large": 413,
        "body_too_slow": 408,
        "body_not_utf8": 422,
        "json_key_repeated": 422,
        "envelope_too_large": 422,
        "session_corrupt": 500,
        "elimination_store_unavailable": 503,
        "elimination_store_conflict": 502,
        "intent_invalid": 422,
        "model_unavailable": 503,
        "model_timeout": 503,
        "model_busy": 503,
        "model_refused": 502,
        "model_answer_too_large": 502,
        "model_answer_invalid": 502,
        "model_found_nothing": 422,
        "model_prompt_too_large": 422,
        "sealed_outbound_unauthorized": 403,
        "sealed_tier_2_cache_violation": 502,
        "queue_unavailable": 503,
        "ledger_unavailable": 503,
        "work_queue_unknown": 404,
        "work_request_invalid": 422,
        "work_request_conflict": 409,
        "work_request_unknown": 404,
        "work_request_not_dead": 409,
        "waits_full": 503,
        "too_many_listeners": 503,
        "queue_unknown_priority": 422,
        "queue_argument_invalid": 422,
        "work_item_full": 409,
        "work_requests_too_many": 429,
        "unauthorized": 401,
        "not_found": 404,
        "envelope_erased": 410,
        "operation_not_found": 404,
        "epoch_not_found": 404,
        **dict.fromkeys(
            (
                "confirmation_required",
                "tier_3_requires_architect",
                "confirmation_invalid",
                "confirmation_expired",
                "confirmation_of_something_else",
                "confirmation_used",
                "confirmation_not_configured",
            ),
            403,
        ),
        **dict.fromkeys(
            (
                "rollback_already_applied",
                "rollback_superseded_by_later_write",
                "rollback_still_referenced",
                "rollback_of_belief_session",
                "rollback_nothing_to_undo",
                "rollback_epoch_open",
                "rollback_epoch_too_large",
                "rollback_compensation_unknown",
                "rollback_refused",
                "operation_not_migrated",
                "tier_1_requires_all_fully_reversible",
                "tier_1_scope_too_wide",
            ),
            409,
        ),
        "replay_differs": 500,
        "envelope_capacity_unavailable": 503,
        "authority_sweep_running": 409,
    }
)
"""A code without a status here is a defect of ours: 500."""

RETRYABLE_STATUS = frozenset({429, 503})

HTTP_ERRORS: Mapping[int, tuple[str, str]] = MappingProxyType(
    {
        404: ("not_found", "no such thing"),
        405: ("method_not_allowed", "the method is not one of this path's"),
        408: ("body_too_slow", "the body was not there in time"),
        413: ("request_too_large", "the body is larger than this gateway takes"),
    }
)
"""What the framework refuses by itself."""


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
    status = STATUS_BY_CODE.get(code, 500)
    headers = {"Retry-After": str(RETRY_AFTER_S)} if status in RETRYABLE_STATUS else None
    return JSONResponse(error_body(code, message, details), status, headers)


_CODED = (
    BeliefError,
    ActorError,
    QueueError,
    RollbackRefused,
    WorkRefused,
    SweepRefused,
    ApiError,
)


def install(app: FastAPI) -> None:
    """Translate every error that a route can mean; any other is the guard's to answer."""

    async def coded(_: Request, error: Exception) -> JSONResponse:
        details = getattr(error, "details", None)
        message = getattr(error, "message", None) or str(error)
        return respond(getattr(error, "code", "internal"), message, details)

    async def away(_: Request, _error: Exception) -> JSONResponse:
        # The message names the database, which is no caller's business.
        return respond("ledger_unavailable", "the ledger cannot be reached")

    async def invalid(_: Request, error: Exception) -> JSONResponse:
        found = error.errors() if isinstance(error, RequestValidationError) else []
        problems = [
            {
                "field": ".".join(str(part) for part in one["loc"])[:FIELD_CHARS_MAX],
                "problem": one["msg"][:MESSAGE_CHARS_MAX],
            }
            for one in found[:PROBLEMS_MAX]
        ]
        message = problems[0]["problem"] if problems else "the request is not valid"
        return respond("INVALID_REQUEST", message, {"problems": problems})

    async def http(_: Request, error: Exception) -> JSONResponse:
        known = error if isinstance(error, HTTPException) else HTTPException(500)
        if known.status_code == 400:
            return respond("INVALID_REQUEST", "the body cannot be read")
        code, message = HTTP_ERRORS.get(known.status_code, ("http_error", "refused"))
        return JSONResponse(error_body(code, message), known.status_code, known.headers)

    for kind in _CODED:
        app.add_exception_handler(kind, coded)
    app.add_exception_handler(LedgerUnavailable, away)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
