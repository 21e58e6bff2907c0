"""Says in words what waits for a person: what was read, its words with their marks, by whom."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kernel.audit.open_reviews import (
    REVIEW_KINDS,
    OpenReviewDocument,
    ReviewCountsDocument,
    ReviewKind,
    ReviewPageDocument,
    count_open_reviews,
    open_reviews,
)
from kernel.audit.recent_decisions import DecisionsDocument, recent_decisions
from kernel.audit.review_words import PassageDocument, ReaderDocument
from kernel.records.access.readable_view import ReadableView
from kernel.values.spans import NAMING
from kernel.values.untrusted import text_of

FACTS_MAX = 24
VALUE_CHARS_MAX = 400
EFFECTS_SHOWN_MAX = 3

TITLES: Mapping[ReviewKind, str] = {
    "relationship": "Relationships of filings",
    "observation": "What courts decided",
    "outcome": "Outcomes of bindings",
    "membership": "Memberships",
    "conflict": "Conflicts",
    "migration": "Held by migration",
    "quarantine": "Quarantines",
}

REASONS: Mapping[str, str] = {
    "identity_confidence_unstated": "nobody stated how sure it is",
    "identity_confidence_below_threshold": "it is less sure than 0.95",
    "source_not_signed": "its source does not say who signed it",
    "contested": "something on the record contests it",
    "not_confirmed_yet": "nobody has confirmed it yet",
    "binding_target_incomplete": "the document does not say all that the binding writes",
    "envelope_conflict_user_review_required": "it contradicts a write that it had not seen",
}
"""By its code, why something waits."""

_UNREAD = NAMING | {
    *("prior_receipt_hash", "receipt_hash", "receipt_sequence", "check", "existing_operation_ids"),
    *("existing_record_ids", "ec_sequence_number", "adjudication_receipt_id"),
    *("lifecycle_state", "schema_version", "evaluation", "envelope", "outcome_state"),
    *("updated_at", "updated_by_operation_id", "version", "outcome_id", "state"),
    *("docket_entry_date_originating_tz", "docket_entry_date_utc", "docket_entry_ref"),
    *("source_filing_unit_id", "target_filing_unit_id", "filing_unit_id"),
    *("motion_filing_unit_id", "order_filing_unit_id", "transition_kind"),
}
"""Fields that say nothing of what was read, or are shown elsewhere."""


_LABELS: Mapping[str, str] = {
    "docket_entry_date_originating_calendar_date": "entered on",
    "identity_confidence": "how sure it is",
    "relationship_type": "relation",
}


@dataclass(frozen=True, slots=True)
class ReviewsView:
    """What waits of one kind, how much waits of each, and what was decided lately."""

    kind: ReviewKind
    counts: ReviewCountsDocument
    page: ReviewPageDocument
    decided: DecisionsDocument


def reviews_view(
    view: ReadableView, kind: ReviewKind | None, after: str, limit: int
) -> ReviewsView:
    """Return what waits of a kind, by default of the first of which anything waits."""
    counts = count_open_reviews(view)
    waiting: tuple[ReviewKind, ...] = tuple(each for each in REVIEW_KINDS if counts[each])
    shown: ReviewKind = kind if kind is not None else (*waiting, REVIEW_KINDS[0])[0]
    page = open_reviews(view, shown, after=after, limit=limit).document()
    return ReviewsView(shown, counts, page, recent_decisions(view))


class Piece(NamedTuple):
    """Some words of a passage that are marked, or that are not."""

    text: str
    is_marked: bool


def pieces_of(passage: PassageDocument) -> list[Piece]:
    """Return the words of a passage, parted where marks begin and end; none of them is empty."""
    text, start = passage["text"] or "", passage["offset"]
    pieces: list[Piece] = []
    at = 0
    for mark in passage["marks"]:
        begin = mark["offset"] - start
        end = begin + mark["length"]
        pieces += [Piece(text[at:begin], is_marked=False), Piece(text[begin:end], is_marked=True)]
        at = end
    pieces.append(Piece(text[at:], is_marked=False))
    return [piece for piece in pieces if piece.text]


def caption_of(passage: PassageDocument) -> str:
    """Return which part of which source a passage shows, and what the source is."""
    roles, text = ", ".join(passage["roles"]) or "a source", passage["text"]
    caption = f"{roles}: {passage['source_ref']}"
    if text is None:
        return caption
    end = passage["offset"] + len(text)
    is_whole = len(text) == passage["source_chars"]
    part = "all of it" if is_whole else f"characters {passage['offset']} to {end}"
    beyond = passage["marks_elsewhere"]
    marks = f", {beyond} more marks are not in this part" if beyond else ""
    return f"{caption}, {part}{marks}"


def headline_of(item: OpenReviewDocument) -> str:
    """Return in a few words what is to be decided about."""
    record = item["record"]
    if item["kind"] == "membership":
        member = record["member"]
        value = member.get("value") or member.get("title") or member.get("caption") or ""
        said = [member.get("node_kind", "nothing"), member.get("field", ""), _text(value)]
        return f"{' '.join(filter(None, said))} in {record['corpus_id']}"
    held = record.get("envelope")
    if held:
        targets = ", ".join(map(_text, held.get("target_refs") or ["what it does not name"]))
        verb = held.get("semantic_intent") or held.get("operation_kind") or "an operation"
        return f"{verb.replace('_', ' ')}: {targets}"
    stated = next((record[name] for name in _HEADLINES if name in record), item["reason"])
    return str(stated or item["kind"]).replace("_", " ")


_HEADLINES = ("relationship_type", "disposition", "binding_id")


def reason_of(item: OpenReviewDocument) -> str:
    """Return why an item waits, in words where there are any for its code."""
    reason = item["reason"] or "nobody said why"
    return REASONS.get(reason, reason)


def facts_of(item: OpenReviewDocument) -> list[tuple[str, str]]:
    """Return what was read, each by its name, and what is on record for and against it."""
    evidence: Mapping[str, Any] = item.get("evidence") or {}
    held = item["record"].get("envelope") or {}
    facts = [*_held_back(held), *_facts(item["record"]), *_facts(evidence)]
    return list(dict(facts).items())[:FACTS_MAX]


def _held_back(envelope: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what an operation that is held back would write."""
    effects = envelope.get("primitive_effects") or ()
    for number, effect in enumerate(effects[:EFFECTS_SHOWN_MAX], start=1):
        written = [str(effect.get("effect_kind")), str(effect.get("target_ref") or "")]
        text = f"{' '.join(written).replace('_', ' ')}: {_text(effect.get('payload') or {})}"
        yield f"would write {number}", text[:VALUE_CHARS_MAX]
    if len(effects) > EFFECTS_SHOWN_MAX:
        yield "would write", f"and {len(effects) - EFFECTS_SHOWN_MAX} more"


def _facts(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in record.items():
        if name in _UNREAD or value in (None, [], {}, ""):
            continue
        yield _LABELS.get(name, name.replace("_", " ")), _text(value)[:VALUE_CHARS_MAX]


def _text(value: Any) -> str:
    if isinstance(value, str):
        return text_of(value)
    if isinstance(value, list):
        return "; ".join(map(_text, value))
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')} {_text(each)}" for name, each in value.items())
    return str(value)


def reader_text(reader: ReaderDocument | None) -> str:
    """Return who read something: what, of which version, under which rules, and when."""
    if reader is None:
        return "the record does not say who read it"
    by = []
    if reader["binding_id"] is not None:
        generation = reader["binding_generation_id"]
        by.append(f"binding {reader['binding_id']}, generation {generation or 'unknown'}")
    by += [f"detector {reader['detector']}"] if reader["detector"] is not None else []
    by += [reader["model"]] if reader["model"] is not None else []
    by += [] if by else [f"the {reader['actor']}"]
    rules = reader["rules_version"]
    return f"{'; '.join(by)}{'' if rules is None else f'; rules {rules}'}"
