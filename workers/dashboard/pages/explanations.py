"""Explains an id on a page: where what it names comes from, back to the words of sources."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from kernel.audit.provenance import Named, Provenance, Step, label_of
from kernel.landscape.errors import LandscapeRefused
from kernel.values.errors import KernelError
from workers.dashboard.headers import PAGE
from workers.dashboard.pages.page import Pages
from workers.dashboard.sanitize import bound_text
from workers.views.provenance import ProvenanceQuestion

ID_CHARS_MAX = 512
STEPS_SHOWN_MAX = 100
CAUSES_SHOWN_MAX = 12
WORDS_CHARS_MAX = 600
LINEAGE_CHARS_MAX = 40_000


async def show(pages: Pages, request: Request) -> Response:
    """Answer with the page: a form, and below it what the id in the query names."""
    query = {
        name: request.query_params.get(name, "")[:ID_CHARS_MAX] for name in ("id", "hypothesis")
    }
    context: dict[str, Any] = {"asked": query, "subject": None, "steps": [], "lineage": ""}
    context |= {"problem": "", "beyond": 0, "query": urlencode(query), "named": urlencode(query)}
    if not query["id"]:
        return await pages.answer(request, "explain", context)
    question = ProvenanceQuestion(query["id"], query["hypothesis"] or None)
    try:
        answer = await pages.source.explain(question)
    except LandscapeRefused as error:
        context["problem"] = f"{error.code}: {error}"
        return await pages.answer(request, "explain", context, 404)
    if isinstance(answer, str):
        lines = answer[:LINEAGE_CHARS_MAX].splitlines()
        context["lineage"] = "\n".join(bound_text(line, WORDS_CHARS_MAX) for line in lines)
    else:
        shown = [*_steps_for_template(answer)]
        context |= {"subject": shown[0], "steps": shown[1:], "query": _query_of(question)}
        context["beyond"] = len(answer.steps) - len(shown)
    return await pages.answer(request, "explain", context)


async def exhibit(pages: Pages, request: Request) -> Response:
    """Answer with a file that proves what the id in the query names, to be kept and handed on.

    Without an id it answers with the form that asks for one.
    """
    query = request.query_params
    name, hypothesis = (query.get(each, "")[:ID_CHARS_MAX] for each in ("id", "hypothesis"))
    if not name:
        return await show(pages, request)
    question = ProvenanceQuestion(name, hypothesis or None)
    try:
        content = await pages.source.exhibit(question)
    except KernelError as error:
        return await pages.refuse(request, error.code, str(error))
    headers = dict(PAGE) | {"Content-Disposition": 'attachment; filename="exhibit.html"'}
    return Response(content, media_type="text/html", headers=headers)


def _query_of(question: ProvenanceQuestion) -> str:
    fields = {"record_id": question.record_id, "hypothesis": question.hypothesis, "format": "text"}
    return urlencode({name: value for name, value in fields.items() if value is not None})


def _steps_for_template(provenance: Provenance) -> Iterator[dict[str, Any]]:
    """Yield the steps as the template shows them, each with the place of those it names."""
    places = {named: place for place, named in enumerate(provenance.steps)}
    for place, step in enumerate(provenance.steps.values()):
        if place == STEPS_SHOWN_MAX:
            return
        yield {
            "place": place,
            "kind": step.named.kind,
            "id": step.named.record_id,
            "says": [(label_of(name), _value(value)) for name, value in step.says.items()],
            "words": [*_words(step)],
            "because": [_cause(each, places) for each in step.because[:CAUSES_SHOWN_MAX]],
            "further": max(0, len(step.because) - CAUSES_SHOWN_MAX),
        }


def _cause(named: Named, places: dict[Named, int]) -> dict[str, Any]:
    place = places.get(named)
    is_here = place is not None and place < STEPS_SHOWN_MAX
    return {"kind": named.kind, "id": named.record_id, "place": place if is_here else None}


def _words(step: Step) -> Iterator[dict[str, Any]]:
    for words in step.words:
        text = words.text
        yield {
            "at": f"{words.source_ref}, characters {words.offset} to {words.offset + words.length}",
            "text": None if text is None else bound_text(" ".join(text.split()), WORDS_CHARS_MAX),
        }


def _value(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
