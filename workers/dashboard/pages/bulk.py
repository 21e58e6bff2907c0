"""Answers with the pages of bulk operations: counted first, begun once, followed, stopped."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from kernel.values.canonical import sha256_hex
from kernel.values.errors import KernelError
from kernel.values.host import iso_time
from kernel.work.bulk_operations import (
    BulkOperation,
    BulkRequest,
    Verb,
    search_in,
    search_of,
)
from kernel.work.queue_kinds import QUEUE_KINDS
from kernel.work.request_search import RequestSearch
from workers.dashboard.headers import FOLLOWED, PAGE
from workers.dashboard.pages.filters import exact_search_of, place_of, query_of
from workers.dashboard.pages.forms import FormRefused, decision_of, fields_of
from workers.dashboard.pages.page import STATE_WORDS, Pages, relative_root
from workers.environment.system_host import utc_now

TYPED_ABOVE = 100
"""Whoever is about more requests than this types how many they are."""

KEY_CHARS_MAX = 64
"""Of what makes a form one asking, however often it is sent."""

UNKNOWN = "bulk_operation_unknown"

_FIELDS = ("verb", "filters", "upper", "counted", "typed", "priority", "reason", "name", "key")
_SELECTING = frozenset({"verb", "number", "choose"})
"""What a selection of rows states beside filters."""


@dataclass(frozen=True, slots=True)
class BulkVerb:
    """What a verb does to all requests that fit, in words."""

    title: str
    label: str
    consequence: str
    is_of: str
    """The requests that it is about."""

    states: tuple[str | None, ...]
    """The states that a list may be asked for from which it is begun."""


VERBS: Mapping[Verb, BulkVerb] = {
    "cancel": BulkVerb(
        "Cancel requests",
        "Cancel them",
        "Their work is not done, and who waits for them learns the reason. This cannot be taken"
        " back. Work that the record itself asks for is refused and goes on.",
        "open requests",
        (None, "open"),
    ),
    "requeue": BulkVerb(
        "Ask for dead letters anew",
        "Ask for them anew",
        "For each a new request with the same content is recorded and waits in its queue. Nothing"
        " is lost.",
        "dead letters that nobody has settled",
        (None, "dead_letter", "standing"),
    ),
    "dismiss": BulkVerb(
        "Dismiss dead letters",
        "Dismiss them",
        "They are settled without their work being done. This cannot be taken back.",
        "dead letters that nobody has settled",
        (None, "dead_letter", "standing"),
    ),
    "prioritize": BulkVerb(
        "Give requests another priority",
        "Give them another priority",
        "They wait at another priority of their queue. What is in the hands of workers goes on.",
        "open requests",
        (None, "open"),
    ),
}

DONE = {
    "begun": "Begun. It goes on by itself, whatever is closed or killed.",
    "stopped": "Stopped where it was. What it has done stays.",
}

LABELS = {
    "queue": "Queue",
    "state": "State",
    "priority": "Priority",
    "tag": "Tag",
    "error_signature": "Error signature",
    "words": "Words of an error",
    "request_id": "Id",
    "request_key": "Producer's key",
    "item_key": "Item",
    "session_id": "Session of its cause",
    "content_words": "Words of its content",
    "numbers": "Numbers",
    "from_us": "Asked for since",
    "before_us": "Asked for before",
}


@dataclass(frozen=True, slots=True)
class BulkLink:
    """A way from a list of requests to the preview of what is done to all of them."""

    verb: Verb
    label: str
    query: str


def bulk_links(filters: Mapping[str, str | None], no_times: Sequence[str]) -> list[BulkLink]:
    """Return what may be done to all that fit a list; nothing where a filter was not read."""
    return [
        BulkLink(verb, rule.label, query_of({"verb": verb, **filters}))
        for verb, rule in VERBS.items()
        if filters["state"] in rule.states
        and not no_times
        and (verb != "prioritize" or filters["queue"])
    ]


async def preview(pages: Pages, request: Request) -> Response:
    """Answer with how many requests fit now, the newest of them, and the form that begins."""
    pairs = request.query_params.multi_items()
    try:
        filters = _filters_in(pairs)
        verb, search = _parse_search(request.query_params.get("verb", ""), filters)
        counted = await pages.source.bulk_preview(verb, search)
    except (FormRefused, KernelError) as error:
        return await pages.refuse(request, error.code, str(error))
    kind = QUEUE_KINDS.get(search.queue or "")
    context = {
        "verb": verb,
        "rule": VERBS[verb],
        "counted": counted,
        "criteria": _criteria(search_of(verb, search)),
        "filters": urlencode(filters),
        "key": _form_key(verb, urlencode(filters), counted.upper_sequence),
        "must_type": counted.count > TYPED_ABOVE,
        "priorities": [] if kind is None else [each.name for each in kind.priorities],
    }
    return await pages.answer(request, "bulk_preview", context)


def _filters_in(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the filters of a query string; rows that were chosen on a list are one of them.

    Raises:
        FormRefused: `work_request_invalid` where rows were to be chosen and none was.
    """
    filters = [(name, value) for name, value in pairs if name not in _SELECTING and value]
    chosen = [value for name, value in pairs if name == "number"]
    if not chosen and any(name == "choose" for name, _ in pairs):
        raise FormRefused("work_request_invalid", "no request was chosen on the list")
    return [*filters, ("numbers", ",".join(chosen))] if chosen else filters


def _form_key(verb: Verb, filters: str, upper: int) -> str:
    """Return what tells this form from others; the same form is the same asking."""
    return sha256_hex(f"{utc_now().isoformat()} {verb} {filters} {upper}".encode())[:32]


async def begin(pages: Pages, request: Request) -> Response:
    """Begin what a preview showed; a reload of the page that follows does not begin it again."""
    try:
        decided, upper_sequence = await _parse_begin(request)
        operation = await pages.source.begin_bulk(decided, upper_sequence)
    except (FormRefused, KernelError) as error:
        return await pages.refuse(request, error.code, str(error))
    return _to(request, operation.bulk_number, "begun", follow="yes")


async def list_all(pages: Pages, request: Request) -> Response:
    """Answer with the bulk operations, newest first."""
    after = place_of(request.query_params, "after")
    page = await pages.source.bulk_operations(after)
    context = {
        "operations": [_progress_of(operation) for operation in page.bulk_operations],
        "next_query": query_of({"after": page.next_after}),
        "is_first_page": after is None,
    }
    return await pages.answer(request, "bulk_operations", context)


async def show(pages: Pages, request: Request) -> Response:
    """Answer with a bulk operation, and how far it has come."""
    number = place_of(request.path_params, "bulk_number")
    operation = await pages.source.bulk_operation(number) if number else None
    if operation is None:
        return await pages.refuse(request, UNKNOWN, "no bulk operation has this number")
    is_running = operation.state == "running"
    follows = is_running and request.query_params.get("follow") == "yes"
    context = {
        "is_running": is_running,
        "follows": follows,
        "done": DONE.get(request.query_params.get("done", "")),
        **_progress_of(operation),
    }
    return await pages.answer(
        request, "bulk_operation", context, headers=FOLLOWED if follows else PAGE
    )


async def stop(pages: Pages, request: Request) -> Response:
    """End a bulk operation where it is."""
    try:
        decision = decision_of(request, await fields_of(request, ("name",)), needs_reason=False)
        number = place_of(request.path_params, "bulk_number") or 0
        await pages.source.stop_bulk(number, decision.decided_by)
    except (FormRefused, KernelError) as error:
        return await pages.refuse(request, error.code, str(error))
    return _to(request, number, "stopped")


async def _parse_begin(request: Request) -> tuple[BulkRequest, int]:
    """Return what a form begins, and the newest request that it may be about.

    Raises:
        FormRefused: `origin_refused`, `request_too_large`, `not_found`, `work_request_invalid`.
    """
    fields = await fields_of(request, _FIELDS)
    verb, search = _parse_search(fields.get("verb", ""), _pairs(fields.get("filters", "")))
    upper, counted = place_of(fields, "upper"), place_of(fields, "counted")
    if upper is None or counted is None:
        raise FormRefused("work_request_invalid", "a form is sent from a preview")
    if counted > TYPED_ABOVE and place_of(fields, "typed") != counted:
        raise FormRefused("work_request_invalid", f"type how many they are: {counted}")
    decision = decision_of(request, fields, needs_reason=True)
    priority = (fields.get("priority") or None) if verb == "prioritize" else None
    key = fields.get("key", "")
    if len(key) > KEY_CHARS_MAX:
        raise FormRefused("work_request_invalid", "a form is sent from a preview")
    said = (decision.reason, decision.decided_by)
    return BulkRequest(verb, search, *said, priority, idempotency_key=key), upper


def _pairs(query: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query, max_num_fields=len(LABELS), errors="strict")
    except ValueError as error:
        raise FormRefused("work_request_invalid", "the filters cannot be read") from error


def _parse_search(verb: str, filters: Sequence[tuple[str, str]]) -> tuple[Verb, RequestSearch]:
    """Return what is to be done, and to which requests.

    Raises:
        FormRefused: `not_found`, `work_request_invalid`.
    """
    known = next((each for each in VERBS if each == verb), None)
    if known is None:
        raise FormRefused("not_found", "no such action")
    try:
        search = exact_search_of(filters)
    except ValueError as error:
        raise FormRefused("work_request_invalid", str(error)) from error
    if search.state not in VERBS[known].states:
        message = f"state: this is about {VERBS[known].is_of}"
        raise FormRefused("work_request_invalid", message)
    return known, search


def _to(request: Request, bulk_number: int, done: str, **options: str) -> Response:
    place = f"{relative_root(request)}/bulk-operations/{bulk_number}"
    return RedirectResponse(f"{place}?{urlencode({'done': done, **options})}", 303, headers=PAGE)


def _progress_of(operation: BulkOperation) -> dict[str, Any]:
    """Return a bulk operation with what it is about in words."""
    through = operation.done + operation.refused
    return {
        "operation": operation,
        "title": VERBS[operation.verb].title,
        "criteria": _criteria(search_in(operation)),
        "through": through,
        "most": max(operation.counted, through, 1),
    }


def _criteria(search: RequestSearch) -> list[tuple[str, str]]:
    """Return what a search asks for, in the order of the filters of a list, each with its name."""
    criteria = []
    for name, label in LABELS.items():
        value = getattr(search, name)
        if value is not None:
            said = STATE_WORDS.get(value, value) if name == "state" else str(value)
            criteria.append((label, iso_time(value) if name.endswith("_us") else said))
    return criteria
