"""Lists the errors of tools: the table of codes, and what a model can do next."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import structlog
from pydantic import ValidationError

from actors.error_codes import ERRORS
from kernel.values.errors import LedgerUnavailable
from workers.client.errors import GatewayError
from workers.mcp.tool import Document

MESSAGE_CHARS_MAX = 1000
PROBLEMS_MAX = 10

HINTS: Mapping[str, str] = MappingProxyType(
    {
        "gateway_unreachable": "`rotulus up` starts one; tools that read the record need none",
        "ledger_unavailable": "there is no ledger where --data-dir says, or it is held",
        "query_refused": "describe_schema lists tables and columns, and what a query may call",
        "query_failed": "describe_schema lists tables and columns",
        "query_timed_out": "ask for less: a WHERE on a key, a LIMIT, no join without a condition",
        "not_found": "ids are given whole, as another tool's answer has them",
        "SESSION_NOT_FOUND": "list_sessions gives the ids of belief sessions",
        "landscape_unknown": "list_runs gives the ids of runs, list_tokens those of tokens",
        "answer_too_large": "pass a smaller limit, or part",
    }
)
"""What may help, by code."""

_log = structlog.get_logger(__name__)


def error_document(error: Exception) -> Document:
    """Return the body of an error: its code, and whether asking again may help.

    What has no code is a defect of ours: it is logged, and the caller learns no more than that.
    """
    if isinstance(error, ValidationError):
        return _body("INVALID_REQUEST", _problem(error), {"problems": _problems(error)})
    code = getattr(error, "code", None)
    if not isinstance(code, str) or code not in ERRORS:
        _log.error("tool_failed", exc_info=error)
        return _body("internal", "the server failed; its log says why", {})
    if isinstance(error, LedgerUnavailable):
        # The message may name the database.
        return _body(code, "the ledger cannot be reached", {})
    message = getattr(error, "message", None) or str(error)
    details = error.details if isinstance(error, GatewayError) else {}
    return _body(code, message, details)


def _body(code: str, message: str, details: Mapping[str, Any]) -> Document:
    error: Document = {"code": code, "message": message[:MESSAGE_CHARS_MAX]}
    error["is_retryable"] = ERRORS[code].is_retryable
    if code in HINTS:
        error["hint"] = HINTS[code]
    if details:
        error["details"] = dict(details)
    return {"error": error}


def _problem(error: ValidationError) -> str:
    first = _problems(error)[0]
    return f"{first['field'] or 'arguments'}: {first['problem']}"


def _problems(error: ValidationError) -> list[Document]:
    return [
        {
            "field": ".".join(str(part) for part in problem["loc"])[:200],
            "problem": problem["msg"][:200],
        }
        for problem in error.errors(include_url=False, include_input=False)[:PROBLEMS_MAX]
    ]
