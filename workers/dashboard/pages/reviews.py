"""Shows what waits for a person with its words, and takes what reviewers decide about it.

One form holds the items of a page: what is decided is decided about one of them, by the item's own
button, or about those that are selected. Each item is named together with the operation that wrote
what its reviewer has seen.
"""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import orjson
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from actors.error_codes import status_of
from kernel.audit.open_reviews import (
    BY_NUMBER,
    REVIEW_KINDS,
    OpenReviewDocument,
    ReviewKind,
    is_place,
)
from kernel.values.errors import KernelError
from kernel.values.json_text import check_unique_keys
from workers.dashboard.headers import PAGE
from workers.dashboard.pages.filters import query_of, text_of
from workers.dashboard.pages.forms import (
    NAME_CHARS_MAX,
    FormRefused,
    decision_of,
    selection_of,
)
from workers.dashboard.pages.page import Pages, relative_root
from workers.use_cases.reviews import DECISIONS, Decision, ItemResult, ReviewDecision, SeenItem
from workers.views.reviews import (
    TITLES,
    caption_of,
    facts_of,
    headline_of,
    pieces_of,
    reader_text,
    reason_of,
)

INVALID: Final = "work_request_invalid"
ITEM_CHARS_MAX: Final = 1024
PASSAGES_SHOWN_MAX: Final = 3
AGAINST_SHOWN_MAX: Final = 3

_FIELDS: Final = ("kind", "after", "decide", "reason", "name")
_LISTS: Final = ("item", "selected", "supplied")


class Deciding(NamedTuple):
    """What a decision about a kind is called, and what it brings about."""

    label: str
    of_selected: str
    consequence: str


_EVIDENCE: Final[Mapping[Decision, Deciding]] = {
    "confirm": Deciding(
        "Confirm", "Confirm the selected", "What is confirmed counts, and names you and the reason."
    ),
    "reject": Deciding(
        "Reject", "Reject the selected", "What is rejected stays on the record and counts no more."
    ),
}
_HELD: Final[Mapping[Decision, Deciding]] = {
    "confirm": Deciding(
        "Take it",
        "Take the selected",
        "What is taken is submitted anew as yours, and judged like any other operation.",
    ),
    "reject": Deciding(
        "Settle it",
        "Settle the selected",
        "What is settled is done with, and nothing is done about it: that cannot be taken back.",
    ),
}
_SETTLED: Final[Mapping[Decision, Deciding]] = {
    "reject": Deciding(
        "Settle it",
        "Settle the selected",
        "It is settled with nothing done about it. This cannot be taken back.",
    )
}

DECIDING: Final[Mapping[ReviewKind, Mapping[Decision, Deciding]]] = {
    "relationship": _EVIDENCE,
    "observation": _EVIDENCE,
    "membership": _EVIDENCE,
    "outcome": _SETTLED,
    "conflict": _HELD,
    "migration": _HELD,
    "quarantine": {
        "confirm": Deciding(
            "Lift it",
            "Lift the selected",
            "Its rows are read and computed from again as they stand.",
        )
    },
}

ABOUT: Final[Mapping[ReviewKind, str]] = {
    "relationship": "What a filing may be about, read from its words or its numbers.",
    "observation": "What an entry says that a court decided.",
    "outcome": "Fires of bindings that came to nothing, because something was not stated.",
    "membership": "What was taken into a corpus as a candidate.",
    "conflict": "Writes that contradict another one which they had not seen.",
    "migration": "Operations of version 1.5 that could not be migrated. State what one lacks, and"
    " take it.",
    "quarantine": "Rows and records that were found damaged. Nothing is computed from them.",
}

DONE: Final = "Done: each item is an operation of its own, in the list of what was decided lately."


async def show(pages: Pages, request: Request) -> Response:
    """Answer with what waits of a kind, by default of the first of which anything waits."""
    query = request.query_params
    kind = next((kind for kind in REVIEW_KINDS if kind == query.get("kind")), None)
    after = text_of(query, "after") or ""
    if kind is None or not is_place(kind, after):
        after = ""
    picture = await pages.source.reviews(kind, after)
    kind, page = picture.kind, picture.page
    context = {
        "kind": kind,
        "kinds": [(each, TITLES[each], picture.counts[each]) for each in REVIEW_KINDS],
        "counted_max": picture.counts["counted_max"],
        "kind_title": TITLES[kind],
        "about": ABOUT[kind],
        "deciding": DECIDING[kind],
        "items": [_item_context(number, item) for number, item in enumerate(page["items"])],
        "after": after,
        "next_query": query_of({"kind": kind, "after": page["next_after"]}),
        "first_query": query_of({"kind": kind}),
        "decisions": picture.decided["decisions"],
        "name": (text_of(query, "by") or "")[:NAME_CHARS_MAX],
        "done": DONE if query.get("done") in ("confirm", "reject") else None,
    }
    return await pages.answer(request, "reviews", context)


async def decide(pages: Pages, request: Request) -> Response:
    """Decide what a form says; where not every item was decided, say which, and why."""
    try:
        decision, fields = await _parse(request)
        results = await pages.source.decide_reviews(decision)
    except (FormRefused, KernelError) as error:
        return await pages.refuse(request, error.code, str(error))
    back = query_of({"kind": decision.kind, "after": fields.get("after")})
    name = fields.get("name", "").strip()
    failed = [result for result in results if result.problem is not None]
    if not failed:
        named = {"done": decision.decision, **({"by": name} if name else {})}
        place = f"{relative_root(request)}/reviews?{back}&{urlencode(named)}"
        return RedirectResponse(place, 303, headers=PAGE)
    context = {
        "results": results,
        "failed": len(failed),
        "kind_title": TITLES[decision.kind],
        "back": f"{back}&{urlencode({'by': name})}" if name else back,
    }
    return await pages.answer(request, "reviews_decided", context, _status(failed))


def _status(failed: Sequence[ItemResult]) -> int:
    codes = {result.code for result in failed}
    return status_of("review_decided_meanwhile") if "review_decided_meanwhile" in codes else 422


async def _parse(request: Request) -> tuple[ReviewDecision, Mapping[str, str]]:
    """Return what a form decides, about which items.

    Raises:
        FormRefused: `origin_refused`, `request_too_large`, `work_request_invalid`.
    """
    fields, lists = await selection_of(request, _FIELDS, _LISTS)
    kind = next((kind for kind in REVIEW_KINDS if kind == fields.get("kind")), None)
    verb, _, number = fields.get("decide", "").partition(" ")
    if kind is None or verb not in DECISIONS[kind]:
        raise FormRefused(INVALID, "a form is sent from the page of reviews")
    numbers = [number] if number else lists["selected"]
    items = _items(lists["item"], lists["supplied"])
    chosen = [items[each] for each in numbers if each in items]
    if not chosen or len(chosen) < len(numbers):
        raise FormRefused(INVALID, "select what is to be decided, or use the button of an item")
    said = decision_of(request, fields, needs_reason=True)
    return ReviewDecision(kind, verb, tuple(chosen), said.decided_by, said.reason), fields


def _items(stated: Sequence[str], supplied: Sequence[str]) -> dict[str, SeenItem]:
    """Return the items of a form by their numbers: each states its number, writer and id.

    Where anything may be supplied, there is a field for each item, in their order.
    """
    if supplied and len(supplied) != len(stated):
        raise FormRefused(INVALID, "a form is sent from the page of reviews")
    items = {}
    for each, text in zip_longest(stated, supplied, fillvalue=""):
        number, _, rest = each.partition(" ")
        seen, _, record_id = rest.partition(" ")
        if not number or not record_id or len(each) > ITEM_CHARS_MAX or "\x00" in each:
            raise FormRefused(INVALID, "an item of the form cannot be read")
        items[number] = SeenItem(record_id, seen.removeprefix("-"), _supplied_fields(text))
    return items


def _supplied_fields(text: str) -> Mapping[str, Any]:
    if not text.strip():
        return {}
    try:
        check_unique_keys(text.encode())
        stated = orjson.loads(text)
    except ValueError as error:
        raise FormRefused(INVALID, f"what is stated is no JSON: {error}") from error
    if not isinstance(stated, dict):
        raise FormRefused(INVALID, "what is stated is an object of fields and their values")
    return {name: value for name, value in stated.items() if value is not None}


def _lacking(item: OpenReviewDocument) -> str | None:
    """Return the fields that an item lacks as JSON that its reviewer completes."""
    if item["kind"] != "migration":
        return None
    fields = dict.fromkeys(item["record"].get("missing_fields", ()))
    return orjson.dumps(fields, option=orjson.OPT_INDENT_2).decode()


def _item_context(number: int, item: OpenReviewDocument) -> dict[str, Any]:
    """Return an item as the template shows it."""
    seen = item.get("written_by_operation_id") or "-"
    evidence = item.get("evidence")
    return {
        "number": number,
        "value": f"{number} {seen} {item['record_id']}",
        "headline": headline_of(item),
        "record_id": item["record_id"],
        "operation_id": item.get("written_by_operation_id"),
        "waits_since": item["waits_since"],
        "reason": reason_of(item),
        "code": item["reason"],
        "reader": reader_text(item["read_by"]),
        "facts": facts_of(item),
        "passages": [
            {
                "caption": caption_of(passage),
                "pieces": pieces_of(passage),
                "withheld": passage["withheld"],
                "source_ref": passage["source_ref"],
            }
            for passage in item["passages"][:PASSAGES_SHOWN_MAX]
        ],
        "lacking": _lacking(item),
        "against": item["record"].get("existing_operation_ids", [])[:AGAINST_SHOWN_MAX],
        "more_passages": max(0, len(item["passages"]) - PASSAGES_SHOWN_MAX),
        "contested_by": [] if evidence is None else evidence["contested_by"],
        "is_explained": item["kind"] not in (*BY_NUMBER, "quarantine"),
        "explained": item["record"].get("node_id", item["record_id"]),
    }
