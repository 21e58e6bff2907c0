"""Shows the words of sources beside what was read of them, for who has to decide (§13.6).

A record that waits names where it was read: by stretches of a source, counted in the characters of
the source's text, or by the filing, entry or document that it is about. Each source is a passage:
as much of its text as is shown, with its marked stretches, or why its words are withheld.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import TypedDict

from kernel.audit.operations import OperationEntry, envelope_of
from kernel.ledger.archive import ArchiveUnavailable
from kernel.ledger.ledger import LedgerView
from kernel.ledger.quarantine import RangeQuarantined
from kernel.records.filings import document_of_unit
from kernel.records.texts import text_at
from kernel.values.spans import Span, sources_in, span_named_by, spans_in

PASSAGE_CHARS_MAX = 1000
"""Characters of a source that one passage shows."""

BEFORE_MARK_CHARS = 300
"""Characters that a passage shows before its first mark, where it does not begin at the start."""

PASSAGES_MAX = 8
MARKS_MAX = 32

_UNITS: Mapping[str, str] = {
    "source_filing_unit_id": "the filing",
    "target_filing_unit_id": "the filing that it is about",
    "filing_unit_id": "the filing",
    "motion_filing_unit_id": "the motion",
    "order_filing_unit_id": "the order",
}
"""By the field that names a filing, what its text is to what was read."""

_DOCUMENTS: Mapping[str, str] = {
    "docket_entry_ref": "the docket entry",
    "document_ref": "the document",
    "artifact_ref": "the document",
}


class MarkDocument(TypedDict):
    """A stretch that something was read from, in characters of the source's text."""

    offset: int
    length: int


class PassageDocument(TypedDict):
    """Words of a source: as many as are shown, from `offset` on, and what is marked in them."""

    source_ref: str
    roles: list[str]
    """What the source is to what was read."""

    offset: int
    text: str | None
    """None where the words are withheld."""

    source_chars: int | None
    marks: list[MarkDocument]
    """Those that lie in the text; they neither overlap nor touch, and come in order."""

    marks_elsewhere: int
    """Marks that lie in a part of the source that is not shown, or beyond its end."""

    withheld: str | None
    """Why the words are not shown."""


class ReaderDocument(TypedDict):
    """Who read it: what wrote it, by which binding, detector or model, under which rules."""

    operation_id: str | None
    actor: str
    at: str
    rules_version: int | None
    binding_id: str | None
    binding_generation_id: str | None
    detector: str | None
    model: str | None


@dataclass(slots=True)
class _Place:
    """A source, what it is to what was read, and where it was read."""

    roles: dict[str, None] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)


def passages_of(
    view: LedgerView, payload: Mapping[str, Any], others: Mapping[str, str] | None = None
) -> list[PassageDocument]:
    """Return the words of the sources that a record names, those with marks first.

    `others` are further sources, each with what it is to what was read.
    """
    places: dict[str, _Place] = {}
    for span in spans_in(payload):
        place = places.setdefault(span.source_ref, _Place())
        if span.end is not None:
            place.spans.append(span)
            place.roles["read from"] = None
    for name, role in [*_named_sources(view, payload), *(others or {}).items()]:
        places.setdefault(name, _Place()).roles[role] = None
    for name in sources_in(payload):
        if span_named_by(name) is None:
            place = places.setdefault(name, _Place())
            place.roles = place.roles or {"read from": None}
    return [_passage(view, name, place) for name, place in [*places.items()][:PASSAGES_MAX]]


def reader_of(view: LedgerView, operation_id: str) -> ReaderDocument | None:
    """Return what an operation says of who read something; None where its row cannot be read."""
    row = view.log_row_of(operation_id)
    if row is None:
        return None
    try:
        view.quarantines().expect_none_over(row["ec_sequence_number"])
        entry = OperationEntry.of_row(view, row)
        envelope = envelope_of(view, row) or {}
    except (RangeQuarantined, ArchiveUnavailable):
        return None
    stated = {"operation_id": operation_id, "actor": entry.actor, "recorded_at": entry.committed_at}
    return reader_of_envelope({**envelope, **stated}, row["rules_version"])


def reader_of_envelope(
    envelope: Mapping[str, Any], rules_version: int | None = None
) -> ReaderDocument:
    """Return what an envelope says of who read something."""
    fire = envelope.get("binding_fire") or {}
    outputs = envelope.get("recorded_model_outputs") or [{}]
    model = [str(outputs[0][name]) for name in _MODEL if name in outputs[0]]
    return {
        "operation_id": envelope["operation_id"],
        "actor": envelope["actor"],
        "at": envelope["recorded_at"],
        "rules_version": rules_version,
        "binding_id": fire.get("binding_id"),
        "binding_generation_id": fire.get("binding_generation_id"),
        "detector": (envelope.get("implication") or {}).get("detector"),
        "model": " ".join(model) or None,
    }


_MODEL = ("model_provider", "model_version")


def _named_sources(view: LedgerView, payload: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the sources that fields of a record name, each with what it is to what was read."""
    for name, role in _DOCUMENTS.items():
        if isinstance(payload.get(name), str):
            yield payload[name], role
    for name, role in _UNITS.items():
        unit = payload.get(name)
        document = document_of_unit(view, unit) if isinstance(unit, str) else None
        if document is not None:
            yield document, role


def _passage(view: LedgerView, name: str, place: _Place) -> PassageDocument:
    withheld = _withheld(view, name)
    text = None if withheld else text_at(view, name)
    if text is None:
        return {
            "source_ref": name,
            "roles": [*place.roles],
            "offset": 0,
            "text": None,
            "source_chars": None,
            "marks": [],
            "marks_elsewhere": len(place.spans),
            "withheld": withheld or "the record has no words of it",
        }
    spans = [(span.start, span.end) for span in place.spans if span.end is not None]
    inside = merge_stretches((start, end) for start, end in spans if end <= len(text))
    first = inside[0][0] if inside else 0
    offset = 0 if len(text) <= PASSAGE_CHARS_MAX else max(0, first - BEFORE_MARK_CHARS)
    end = min(len(text), offset + PASSAGE_CHARS_MAX)
    marks = [(start, min(stop, end)) for start, stop in inside if start < end][:MARKS_MAX]
    return {
        "source_ref": name,
        "roles": [*place.roles],
        "offset": offset,
        "text": text[offset:end],
        "source_chars": len(text),
        "marks": [{"offset": start, "length": stop - start} for start, stop in marks],
        "marks_elsewhere": len(inside)
        - len(marks)
        + sum(1 for _, stop in spans if stop > len(text)),
        "withheld": None,
    }


def _withheld(view: LedgerView, name: str) -> str | None:
    """Return why the words of a source are not shown, None where nothing stands in the way."""
    node = None if "\x00" in name else view.node(name)
    row = None if node is None else view.log_row_of(node["updated_by_operation_id"])
    if row is not None and view.quarantines().over(row["ec_sequence_number"]) is not None:
        return "the row of the log that wrote it is quarantined"
    if node is not None and node["state"] != "active":
        return f"the source is {node['state']}"
    return None


def merge_stretches(stretches: Iterator[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return stretches in order, those that overlap or touch as one."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(stretches):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return joined
