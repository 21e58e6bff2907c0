"""Whether an answer is one that this project gives: a documented status, and an error with a code.

Every function is pure and says what is wrong, or nothing.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from actors.error_codes import ERRORS
from tests.fuzz.shot import Shot
from workers.api.errors import HTTP_ERRORS, RETRYABLE_STATUS
from workers.gateway.http_limits import REFUSALS

DONE: Final = frozenset({200, 201, 202})

OF_THE_DOOR: Final = frozenset(
    {
        *((refusal.code, refusal.status) for refusal in REFUSALS),
        *((code, status) for status, (code, _) in HTTP_ERRORS.items()),
        ("INVALID_REQUEST", 400),
        ("host_invalid", 400),
        ("host_unknown", 421),
        ("origin_refused", 403),
        ("content_encoding_unsupported", 415),
        ("charset_unsupported", 415),
    }
)
"""Codes that are said before a route, and their statuses, beside those of the table."""

NEVER: Final = frozenset(
    {"internal", "actor_failed", "commit_failed", "session_corrupt", "replay_differs"}
)
"""Codes with which nothing that a stranger sends may be answered, at any time."""

WHEN_DISTURBED: Final = frozenset(
    {
        "queue_unavailable",
        "queue_refused",
        "ledger_unavailable",
        "shard_unowned",
        "stale_epoch",
        "reply_lost",
    }
)
"""Codes that say that something beside the gateway is wrong, and may be while it is."""

_SAID_ON_A_PAGE: Final = re.compile(
    rb'<p class="error"[^>]*>(?:<strong>Not known\.</strong> )?(?:<strong>)?([A-Za-z_]+)'
)
_REFUSAL: Final = frozenset({422, 429})


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_page(self) -> bool:
        """Whether it is a page, which carries the headers that guard one."""
        media_type = self.headers.get("content-type", "")
        return media_type.startswith("text/html") and "content-security-policy" in self.headers

    @property
    def code(self) -> str:
        """The code of an error, as JSON or as a page says it; nothing where there is none."""
        if self.is_page:
            said = _SAID_ON_A_PAGE.search(self.body)
            return "" if said is None else said[1].decode()
        try:
            return str(json.loads(self.body)["error"]["code"])
        except (ValueError, KeyError, TypeError):
            return ""


def wrong_with(shot: Shot, answer: Answer, *, disturbed: bool) -> str | None:
    """Return what is wrong with an answer, None where nothing is.

    `disturbed` says that something beside the gateway is being attacked at the moment.
    """
    if answer.status in DONE:
        wrong = _wrong_result(answer, disturbed=disturbed)
    elif shot.head_only:
        wrong = None if answer.status < 500 else f"status {answer.status}"
    else:
        wrong = _wrong_refusal(shot, answer, disturbed=disturbed)
    if wrong is None and shot.legal and answer.status not in shot.legal | RETRYABLE_STATUS:
        return f"legal, and refused: {answer.status} {answer.code}"
    if wrong is None and shot.legal and b'"validation_result":"rejected"' in answer.body:
        return "legal, and refused inside of its answer"
    return wrong


def _wrong_result(answer: Answer, *, disturbed: bool) -> str | None:
    """An answer that was given may hold the failure of a part."""
    for code in NEVER if disturbed else NEVER | WHEN_DISTURBED:
        for name in ("reason_code", "code"):
            if f'"{name}":"{code}"'.encode() in answer.body:
                return f"a part of the answer failed: {code}"
    return None


def _wrong_refusal(shot: Shot, answer: Answer, *, disturbed: bool) -> str | None:
    if shot.route == "/readyz" and _is_readiness(answer):
        return None
    code = answer.code
    if not _typed(answer):
        return f"untyped: {answer.status} {answer.headers.get('content-type', '')}"
    if answer.status in RETRYABLE_STATUS and "retry-after" not in answer.headers:
        return f"{answer.status} {code} without Retry-After"
    if code in NEVER or (code in WHEN_DISTURBED and not disturbed):
        return f"failed: {answer.status} {code}"
    known = (
        (code in ERRORS and ERRORS[code].status == answer.status)
        or (code, answer.status) in OF_THE_DOOR
        or (answer.status in _REFUSAL and code in codes_of_refusals())
    )
    return None if known else f"not in the table: {answer.status} {code}"


def _typed(answer: Answer) -> bool:
    """An error is JSON with a code and a message, perhaps with details, and nothing else.

    One that a person gets on a page is a page that says the code.
    """
    if answer.is_page:
        return bool(answer.code)
    if answer.headers.get("content-type", "") != "application/json" or not answer.code:
        return False
    document = json.loads(answer.body)
    error = document["error"]
    texts = (error["code"], error.get("message"))
    return (
        all(isinstance(text, str) and text for text in texts)
        and set(document) == {"error"}
        and set(error) <= {"code", "message", "details"}
    )


def _is_readiness(answer: Answer) -> bool:
    """A gateway that lacks something says so in a form of its own."""
    try:
        document = json.loads(answer.body)
    except ValueError:
        return False
    return (
        answer.status == 503
        and isinstance(document, dict)
        and document.get("status") == "not ready"
    )


@cache
def codes_of_refusals() -> frozenset[str]:
    """Return what the sources write like a code: a refused operation is answered with one."""
    root = Path(__file__).parents[2]
    folders = ("kernel", "actors", "queues")
    texts = (path.read_text() for name in folders for path in (root / name).rglob("*.py"))
    return frozenset(
        word for text in texts for word in re.findall(r'"([a-zA-Z][a-z_0-9A-Z]+)"', text)
    )
