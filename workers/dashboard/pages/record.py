"""Answers with the pages of what is on the record: operations on the log, and belief sessions."""

import json
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from kernel.audit.operations import AuditFilter
from kernel.values.canonical import digest
from kernel.values.errors import KernelError
from workers.dashboard.headers import PAGE
from workers.dashboard.pages.filters import place_of, query_of, text_of
from workers.dashboard.pages.forms import FormDecision, FormRefused, decision_of, fields_of
from workers.dashboard.pages.page import Pages, in_url, relative_root
from workers.dashboard.pages.session_parts import (
    SLIDER_STEPS_MAX,
    TRAIL_BYTES_MAX,
    entry_bytes,
    fates_of,
    fitting,
    steps_of,
)
from workers.use_cases.access import caller_of
from workers.use_cases.rollbacks import UndoEpoch, UndoTogether
from workers.views.records import OperationRecordDocument
from workers.views.undoing import AroundOperation, UndoingView

CONTENT_CHARS_MAX = 8_000
RECEIPTS_SHOWN_MAX = 50
TARGETS_SHOWN_MAX = 20
OPERATIONS_SHOWN = 20
EFFECTS_SHOWN_MAX = 200
INVALID: Final = "work_request_invalid"
DONE: Final = "Undone: the inverse is an operation of its own, among what it led to."
CRITERIA = ("entity", "session_id", "semantic_intent", "effect_kind", "actor")


async def show_record(pages: Pages, request: Request) -> Response:
    """Answer with the head of the record, its checkpoint and its newest operations."""
    page = await pages.source.operations(AuditFilter(), None)
    context = {
        "head": await pages.source.head(),
        "checkpoint": await pages.source.checkpoint(),
        "operations": page["operations"][:OPERATIONS_SHOWN],
    }
    return await pages.answer(request, "record", context)


async def list_operations(pages: Pages, request: Request) -> Response:
    """Answer with the operations that fit, newest first."""
    query = request.query_params
    criteria = AuditFilter(
        entity=text_of(query, "entity"),
        session_id=text_of(query, "session_id"),
        semantic_intent=text_of(query, "semantic_intent"),
        effect_kind=text_of(query, "effect_kind"),
        actor=text_of(query, "actor"),
    )
    before = place_of(query, "before")
    if (moment := request.scope.get("rotulus.moment")) is not None:
        before = min(before or moment.sequence + 1, moment.sequence + 1)
    filters = {name: getattr(criteria, name) for name in CRITERIA}
    page = await pages.source.operations(criteria, before)
    context = {
        "page": page,
        "filters": filters,
        "next_query": query_of({**filters, "before": page["next_after"]}),
        "is_first_page": before is None,
    }
    return await pages.answer(request, "operations", context)


async def show_operation(pages: Pages, request: Request) -> Response:
    """Answer with the page of an operation, or with the receipts of one that was refused."""
    operation_id = request.path_params["operation_id"]
    record = await pages.source.operation(operation_id)
    if record is None:
        message = f"the record has no operation {operation_id!r}"
        return await pages.refuse(request, "not_found", message)
    envelope = json.dumps(record.get("envelope"), indent=2)
    receipts, effects = record["receipts"], record.get("effects", [])
    context = {
        "operation_id": operation_id,
        "row": record.get("row"),
        "targets": (record.get("envelope") or {}).get("target_refs", [])[:TARGETS_SHOWN_MAX],
        "effects": effects[:EFFECTS_SHOWN_MAX],
        "effects_hidden": max(0, len(effects) - EFFECTS_SHOWN_MAX),
        "receipts": receipts[:RECEIPTS_SHOWN_MAX],
        "receipts_hidden": max(0, len(receipts) - RECEIPTS_SHOWN_MAX),
        "envelope": envelope[:CONTENT_CHARS_MAX],
        "is_cut": len(envelope) > CONTENT_CHARS_MAX,
        "is_erased": "row" in record and record.get("envelope") is None,
        "around": await _around(pages, record),
        "going": _going,
        "done": DONE if request.query_params.get("done") == "undo" else None,
    }
    return await pages.answer(request, "operation", context)


async def _around(pages: Pages, record: OperationRecordDocument) -> AroundOperation | None:
    """Return what stands around an operation; None of one that was refused."""
    return await pages.source.around_operation(record["operation_id"]) if "row" in record else None


def _going(undoing: UndoingView) -> str:
    """Return a name of the operations that an undoing takes, which is another one for others."""
    return digest([each.operation_id for each in undoing.operations])


async def undo(pages: Pages, request: Request) -> Response:
    """Undo what a form names, with what has to go before it, unless that changed meanwhile."""
    operation_id = request.path_params["operation_id"]
    try:
        fields = await fields_of(request, ("reason", "name", "typed", "going"))
        undoing = (await pages.source.around_operation(operation_id)).undoing
        if undoing.why_not is not None:
            return await pages.refuse(request, undoing.code or INVALID, undoing.why_not)
        _check_shown(undoing, fields, operation_id)
        said = decision_of(request, fields, needs_reason=True)
        await pages.source.undo(_undoing_of(undoing, said), caller_of(request.scope))
    except (FormRefused, KernelError) as error:
        return await pages.refuse(request, error.code, str(error))
    place = f"{relative_root(request)}/operations/{in_url(operation_id)}?done=undo"
    return RedirectResponse(place, 303, headers=PAGE)


def _check_shown(undoing: UndoingView, fields: Mapping[str, str], operation_id: str) -> None:
    """Refuse to undo anything else than the form showed.

    Raises:
        FormRefused: `work_request_invalid`.
    """
    if fields.get("going") != _going(undoing):
        raise FormRefused(INVALID, "what has to go with it changed meanwhile: look again")
    if len(undoing.operations) > 1 and fields.get("typed", "").strip() != operation_id:
        raise FormRefused(INVALID, "type the operation's id, because others go with it")


def _undoing_of(undoing: UndoingView, said: FormDecision) -> UndoTogether | UndoEpoch:
    names = tuple(each.operation_id for each in undoing.operations)
    if undoing.tier == 1:
        return UndoTogether(operation_ids=names, decided_by=said.decided_by, reason=said.reason)
    return UndoEpoch(tier=2, epoch_id=names[-1], decided_by=said.decided_by, reason=said.reason)


async def list_sessions(pages: Pages, request: Request) -> Response:
    """Answer with the belief sessions that fit, the last changed first."""
    words, after = text_of(request.query_params, "words"), text_of(request.query_params, "after")
    page = await pages.source.sessions(words, after)
    context = {
        "page": page,
        "words": words,
        "next_query": query_of({"words": words, "after": page["next_after"]}),
        "is_first_page": after is None,
    }
    return await pages.answer(request, "sessions", context)


async def show_session(pages: Pages, request: Request) -> Response:
    """Answer with the page of a session; `before` is a number of entries of its trail.

    Its hypotheses are shown after the step that `step` states, else as they stand. The number of
    one in `hypothesis` leads to what it is explained by, so that no long name stands in a link.
    """
    session_id, query = request.path_params["session_id"], request.query_params
    before, step = place_of(query, "before"), place_of(query, "step")
    hypothesis = place_of(query, "hypothesis")
    picture = await pages.source.session(session_id, before, step)
    if picture is None:
        message = f"the record has no session {session_id!r}"
        return await pages.refuse(request, "SESSION_NOT_FOUND", message)
    names = [] if picture.course is None else [*picture.course.fell_at]
    if hypothesis is not None and hypothesis < len(names):
        named = urlencode({"id": session_id, "hypothesis": names[hypothesis]})
        return RedirectResponse(f"{relative_root(request)}/explain?{named}", 303, headers=PAGE)
    events = fitting(picture.trail["events"][::-1], TRAIL_BYTES_MAX, entry_bytes)
    first_name = min(place_of(query, "from") or 0, max(0, len(names) - 1))
    entries = 0 if picture.summary is None else picture.summary["n_events"]
    context = {
        "session_id": session_id,
        "picture": picture,
        "events": events,
        "first": picture.first + len(picture.trail["events"]) - len(events),
        "slides": picture.course is not None and picture.course.last <= SLIDER_STEPS_MAX,
        "fates": fates_of(names, first_name),
        "numbers": {name: number for number, name in enumerate(names)},
        "steps": [] if picture.course is None else steps_of(picture.course),
        "is_newest": picture.first + len(picture.trail["events"]) == entries,
        "operations_query": query_of({"session_id": session_id}),
    }
    return await pages.answer(request, "session", context)
