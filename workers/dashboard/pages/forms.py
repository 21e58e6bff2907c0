"""Forms of the pages: read within limits, checked against their page's origin, turned into actions.

The gateway's request guard refuses other origins before a form is read. A form is refused here as
well unless its `Origin` is there and names the host: a browser sends it with each form.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from starlette.requests import Request

from kernel.work.outcomes import REASON_CHARS_MAX
from workers.use_cases.queue_operations import OperatorAction, asked_by

FORM_BYTES_MAX = 16_384
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
    "dismiss": Verb("Dismissed. It is settled and counted as dead no more.", True, True),
}


async def action_of(request: Request, queue: str, verb: str) -> OperatorAction:
    """Return what a posted form asks for.

    Raises:
        FormRefused: `origin_refused`, `request_too_large` or `work_request_invalid`.
    """
    _check_origin(request)
    fields = _fields(await _body(request))
    rule = VERBS.get(verb)
    if rule is None:
        raise FormRefused("not_found", "no such action")
    reason, name = fields.get("reason", "").strip(), fields.get("name", "").strip()
    request_id = fields.get("request_id", "")
    if rule.needs_reason and not reason:
        raise FormRefused("work_request_invalid", "reason: say why, because something is lost")
    if len(reason) > WRITTEN_REASON_CHARS_MAX or len(name) > NAME_CHARS_MAX:
        limits = f"{WRITTEN_REASON_CHARS_MAX} and {NAME_CHARS_MAX}"
        raise FormRefused(
            "work_request_invalid", f"reason and name have at most {limits} characters"
        )
    if rule.of_request and not 0 < len(request_id) <= REQUEST_ID_CHARS_MAX:
        raise FormRefused("work_request_invalid", "request_id: name the request")
    decided_by = asked_by(name, request.client.host if request.client else None)
    priority = fields.get("priority") or None
    return OperatorAction(verb, queue, decided_by[:REASON_CHARS_MAX], reason, priority, request_id)


def _check_origin(request: Request) -> None:
    origin = request.headers.get("origin", "")
    site = request.headers.get("sec-fetch-site", "same-origin")
    if origin.partition("://")[2] != request.headers.get("host") or site != "same-origin":
        raise FormRefused("origin_refused", "a form is sent from a page of this dashboard")


async def _body(request: Request) -> bytes:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/x-www-form-urlencoded":
        raise FormRefused(
            "work_request_invalid", "a form is sent as application/x-www-form-urlencoded"
        )
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > FORM_BYTES_MAX:
            raise FormRefused("request_too_large", f"a form has at most {FORM_BYTES_MAX} bytes")
    return bytes(body)


def _fields(body: bytes) -> Mapping[str, str]:
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, max_num_fields=8, errors="strict"
        )
    except ValueError as error:
        raise FormRefused("work_request_invalid", "the form cannot be read") from error
    fields = dict(pairs)
    if len(fields) != len(pairs) or not fields.keys() <= set(_FIELDS):
        raise FormRefused("work_request_invalid", f"a form has {', '.join(_FIELDS)}, each once")
    return fields
