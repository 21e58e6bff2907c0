"""Reads forms within limits, checks whose page they are of, makes actions of them.

The gateway's request guard refuses other origins before a form is read. A form is refused here as
well unless its `Origin` is there and names the host: a browser sends it with each form. Where a
cookie says who asks, the form holds a token of that session too, which pages of ours alone show.
"""

import hmac
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request

from kernel.work.outcomes import REASON_CHARS_MAX
from workers.use_cases.access import COOKIE, caller_of
from workers.use_cases.queue_operations import OperatorAction, requester_name

FORM_BYTES_MAX = 16_384
FIELDS_MAX = 11
TOKEN_FIELD: Final = "form_token"  # noqa: S105 - the name of a field
_LABEL: Final = b"rotulus form 1"
SELECTION_BYTES_MAX = 131_072
SELECTION_FIELDS_MAX = 65
"""Of a form that names the things that it is about, each in two fields."""

NAME_CHARS_MAX = 40
REQUEST_ID_CHARS_MAX = 512
WRITTEN_REASON_CHARS_MAX = 100
"""A reason leaves room on the record for who asked."""

_FIELDS = ("name", "reason", "priority", "request_id")


class FormRefused(Exception):
    """A form that changes nothing, with the code of why."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class FormDecision:
    """Why something is done, and who says so."""

    reason: str
    decided_by: str


@dataclass(frozen=True, slots=True)
class Verb:
    """What a verb needs, and what its page says when it is done."""

    done: str
    of_request: bool = False
    needs_reason: bool = False


VERBS = {
    "pause": Verb("Paused. Workers begin with nothing more of it; what is in hand is finished."),
    "resume": Verb("Resumed. Workers begin with it again."),
    "requeue": Verb("Asked for anew. The new request is on the list of its queue.", True),
    "cancel": Verb("Cancelled, unless it had its outcome before.", True, True),
    "prioritize": Verb("Given the other priority, unless it has its outcome.", True),
    "dismiss": Verb("Dismissed. It is settled and counted as dead no more.", True, True),
}


def done_message(query: Mapping[str, str]) -> str | None:
    """Return what a page says after a form: a sentence of the table, never of the URL."""
    verb = VERBS.get(query.get("done", ""))
    return None if verb is None else verb.done


async def action_of(request: Request, queue: str, verb: str) -> OperatorAction:
    """Return what a posted form asks for.

    Raises:
        FormRefused: `origin_refused`, `request_too_large` or `work_request_invalid`.
    """
    fields = await fields_of(request, _FIELDS)
    rule = VERBS.get(verb)
    if rule is None:
        raise FormRefused("not_found", "no such action")
    decision = decision_of(request, fields, needs_reason=rule.needs_reason)
    request_id = fields.get("request_id", "")
    if rule.of_request and not 0 < len(request_id) <= REQUEST_ID_CHARS_MAX:
        raise FormRefused("work_request_invalid", "request_id: name the request")
    priority = fields.get("priority") or None
    return OperatorAction(verb, queue, decision.decided_by, decision.reason, priority, request_id)


async def fields_of(request: Request, names: Collection[str]) -> Mapping[str, str]:
    """Return what a form of this dashboard's own pages says, in fields of these names.

    Raises:
        FormRefused: `origin_refused`, `request_too_large` or `work_request_invalid`.
    """
    _check_origin(request)
    return _once(_of_session(request, _pairs(await _body(request))), names)


async def selection_of(
    request: Request, names: Collection[str], repeated: Collection[str]
) -> tuple[Mapping[str, str], Mapping[str, list[str]]]:
    """Return what a form says, and the values of the fields of it that are there many times.

    Raises:
        FormRefused: see `fields_of`.
    """
    _check_origin(request)
    stated = _pairs(await _body(request, SELECTION_BYTES_MAX), SELECTION_FIELDS_MAX)
    pairs = _of_session(request, stated)
    lists = {name: [value for each, value in pairs if each == name] for name in repeated}
    return _once([pair for pair in pairs if pair[0] not in lists], names), lists


def decision_of(request: Request, fields: Mapping[str, str], *, needs_reason: bool) -> FormDecision:
    """Return the reason that a form gives, and who sent it.

    Raises:
        FormRefused: `work_request_invalid`.
    """
    reason, name = fields.get("reason", "").strip(), fields.get("name", "").strip()
    if needs_reason and not reason:
        raise FormRefused("work_request_invalid", "reason: say why, because something is lost")
    if len(reason) > WRITTEN_REASON_CHARS_MAX or len(name) > NAME_CHARS_MAX:
        limits = f"{WRITTEN_REASON_CHARS_MAX} and {NAME_CHARS_MAX}"
        raise FormRefused(
            "work_request_invalid", f"reason and name have at most {limits} characters"
        )
    caller = caller_of(request.scope)
    if caller is not None:
        if name and name != caller.principal:
            raise FormRefused("principal_differs", f"you are logged in as {caller.principal}")
        name = caller.principal
    decided_by = requester_name(name, request.client.host if request.client else None)
    return FormDecision(reason, decided_by[:REASON_CHARS_MAX])


def form_token(request: Request) -> str:
    """Return what the forms of a page hold where a cookie says who asks, else nothing."""
    session = request.cookies.get(COOKIE)
    if session is None or caller_of(request.scope) is None or "authorization" in request.headers:
        return ""
    return hmac.new(session.encode(), _LABEL, "sha256").hexdigest()


def _of_session(request: Request, pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return what a form says beside its token, which has to be that of the session."""
    expected = form_token(request)
    stated = "".join(value for name, value in pairs if name == TOKEN_FIELD)
    if expected and not hmac.compare_digest(stated.encode(), expected.encode()):
        raise FormRefused("origin_refused", "the form is of another login; load its page again")
    return [(name, value) for name, value in pairs if name != TOKEN_FIELD]


def _check_origin(request: Request) -> None:
    origin = request.headers.get("origin", "")
    site = request.headers.get("sec-fetch-site", "same-origin")
    if origin.partition("://")[2] != request.headers.get("host") or site != "same-origin":
        raise FormRefused("origin_refused", "a form is sent from a page of this dashboard")


async def _body(request: Request, bytes_max: int = FORM_BYTES_MAX) -> bytes:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/x-www-form-urlencoded":
        raise FormRefused(
            "work_request_invalid", "a form is sent as application/x-www-form-urlencoded"
        )
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > bytes_max:
            raise FormRefused("request_too_large", f"a form has at most {bytes_max} bytes")
    return bytes(body)


def _pairs(body: bytes, fields_max: int = FIELDS_MAX) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            max_num_fields=fields_max,
            errors="strict",
        )
    except ValueError as error:
        raise FormRefused("work_request_invalid", "the form cannot be read") from error


def _once(pairs: Sequence[tuple[str, str]], names: Collection[str]) -> Mapping[str, str]:
    fields = dict(pairs)
    if len(fields) != len(pairs) or not fields.keys() <= set(names):
        raise FormRefused("work_request_invalid", f"a form has {', '.join(names)}, each once")
    return fields
