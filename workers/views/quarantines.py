"""Shows what was found damaged, as JSON and as sentences for its keeper (§17.5)."""

from collections.abc import Collection, Sequence
from typing import cast

from typing_extensions import TypedDict

from kernel.ledger.ledger import LedgerView
from kernel.ledger.quarantine import RecordKey, SequenceRange, stated_range

_CHAINS = frozenset({"chain_head", "kernel_event_log", "receipts", "tree_tiles"})

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


def quarantines_document(view: LedgerView) -> QuarantinesDocument:
    """Return the quarantines that stand, in the order in which they were found."""
    return {
        "quarantines": [
            {
                "quarantine_id": each.quarantine_id,
                "found_at": each.found_at,
                "finding": each.finding,
                "ranges": [cast("RangeDocument", stated_range(rows)) for rows in each.ranges],
                "records": [cast("RecordDocument", key._asdict()) for key in each.records],
            }
            for each in view.quarantines().standing
        ]
    }


def damage_problems(records: Collection[RecordKey]) -> dict[str, str]:
    """Return a sentence about damaged records by component of readiness."""
    parts: dict[str, list[str]] = {}
    for record in sorted(records):
        parts.setdefault("chain" if record.table in _CHAINS else "record", []).append(str(record))
    return {component: _damage_sentence(named) for component, named in parts.items()}


def _damage_sentence(records: Sequence[str]) -> str:
    named = ", ".join(records[:NAMED_MAX])
    others = len(records) - NAMED_MAX
    beside = f" and {others} more records" if others > 0 else ""
    return (
        f"{named}{beside} found damaged: let nothing else write, `rotulus verify`,"
        " `rotulus quarantine list`, and `rotulus quarantine lift` once somebody has dealt with it"
    )


def quarantine_sentence(ranges: Sequence[SequenceRange]) -> str:
    """Say which rows are quarantined, what that means, and what to do about it."""
    named = ", ".join(map(str, ranges[:NAMED_MAX]))
    others = len(ranges) - NAMED_MAX
    beside = f" and {others} more ranges" if others > 0 else ""
    return (
        f"{named}{beside} of the log, found damaged, so nothing is computed from there:"
        " `rotulus quarantine list`, and `rotulus quarantine lift` once somebody has looked"
    )
