"""Shows what was found damaged, as JSON and as sentences for its keeper (§17.5)."""

from collections.abc import Collection, Sequence
from typing import cast

from typing_extensions import TypedDict

from kernel.ledger.quarantine import RecordKey, SequenceRange, range_document
from kernel.records.access.readable_view import ReadableView

_CHAINS = frozenset({"chain_head", "kernel_event_log", "receipts", "tree_tiles"})

_LIST_AND_LIFT = (
    "`rotulus quarantine list`, and `rotulus quarantine lift ID --reason TEXT --authority NAME`"
)

NAMED_MAX = 5
"""Ranges or records that a sentence names."""


class RangeDocument(TypedDict):
    """Rows of the log, both ends included; sequences are strings."""

    first_sequence: str
    last_sequence: str


class RecordDocument(TypedDict):
    """A damaged record by its table and its key, whose parts are joined by a slash."""

    table: str
    key: str


class QuarantineDocument(TypedDict):
    """What stands as damaged: the receipt of what was found, rows of the log, other records."""

    quarantine_id: str
    found_at: str
    finding: str
    ranges: list[RangeDocument]
    records: list[RecordDocument]


class QuarantinesDocument(TypedDict):
    """The quarantines that stand."""

    quarantines: list[QuarantineDocument]


def quarantines_document(view: ReadableView) -> QuarantinesDocument:
    """Return the quarantines that stand, in the order in which they were found."""
    return {
        "quarantines": [
            {
                "quarantine_id": each.quarantine_id,
                "found_at": each.found_at,
                "finding": each.finding,
                "ranges": [cast("RangeDocument", range_document(rows)) for rows in each.ranges],
                "records": [cast("RecordDocument", key._asdict()) for key in each.records],
            }
            for each in view.quarantines().standing
        ]
    }


def damage_problems(records: Collection[RecordKey]) -> dict[str, str]:
    """Return a sentence about damaged records by component of readiness."""
    return {
        component: f"{what}: let nothing else write, `rotulus verify`, {_LIST_AND_LIFT} once"
        " somebody has dealt with it"
        for component, what in damage_sentences(records).items()
    }


def damage_sentences(records: Collection[RecordKey]) -> dict[str, str]:
    """Return which records are damaged by component of readiness."""
    parts: dict[str, list[str]] = {}
    for record in sorted(records):
        parts.setdefault("chain" if record.table in _CHAINS else "record", []).append(str(record))
    return {
        component: f"{_names(named, 'records')} found damaged" for component, named in parts.items()
    }


def quarantine_problem(ranges: Sequence[SequenceRange]) -> str:
    """Say which rows are quarantined, what that means, and what to do about it."""
    return f"{quarantine_sentence(ranges)}: {_LIST_AND_LIFT} once somebody has looked"


def quarantine_sentence(ranges: Sequence[SequenceRange]) -> str:
    """Say which rows are quarantined, and what that means."""
    named = _names([*map(str, ranges)], "ranges")
    return f"{named} of the log, found damaged, so nothing is computed from there"


def _names(names: Sequence[str], what: str) -> str:
    others = len(names) - NAMED_MAX
    beside = f" and {others} more {what}" if others > 0 else ""
    return f"{', '.join(names[:NAMED_MAX])}{beside}"
