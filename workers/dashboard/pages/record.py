"""Answers with the pages of what is on the record: operations on the log, and belief sessions."""

import json

from starlette.requests import Request
from starlette.responses import Response

from kernel.audit.operations import AuditFilter
from workers.dashboard.pages.filters import place_of, query_of, text_of
from workers.dashboard.pages.page import Pages

CONTENT_CHARS_MAX = 8_000
RECEIPTS_SHOWN_MAX = 50
TARGETS_SHOWN_MAX = 20
EFFECTS_SHOWN_MAX = 200
CRITERIA = ("entity", "session_id", "semantic_intent", "effect_kind", "actor")


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
        return await pages.refused(request, "not_found", message)
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
    }
    return await pages.answer(request, "operation", context)


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
    """Answer with the page of a session; `before` is a number of entries of its trail."""
    session_id, before = request.path_params["session_id"], request.query_params
    picture = await pages.source.session(session_id, place_of(before, "before"))
    if picture is None:
        message = f"the record has no session {session_id!r}"
        return await pages.refused(request, "SESSION_NOT_FOUND", message)
    entries = 0 if picture.summary is None else picture.summary["n_events"]
    context = {
        "session_id": session_id,
        "picture": picture,
        "events": picture.trail["events"][::-1],
        "is_newest": picture.first + len(picture.trail["events"]) == entries,
        "operations_query": query_of({"session_id": session_id}),
    }
    return await pages.answer(request, "session", context)
