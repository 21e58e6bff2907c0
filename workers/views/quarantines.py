"""Quarantined ranges of the log as JSON, and as a sentence for whoever looks after it (§17.5)."""

from collections.abc import Sequence
from typing import cast

from typing_extensions import TypedDict

from kernel.ledger.ledger import LedgerView
from kernel.ledger.quarantine import SequenceRange, stated_range

NAMED_MAX = 5
"""Ranges that a sentence names."""


class RangeDocument(TypedDict):
    """Rows of the log, both ends included; sequences are strings."""

    first_sequence: str
    last_sequence: str


class QuarantineDocument(TypedDict):
    """A quarantine that stands: the receipt of what was found, and the rows."""

    quarantine_id: str
    found_at: str
    finding: str
    ranges: list[RangeDocument]


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
            }
            for each in view.quarantines().standing
        ]
    }


def quarantine_sentence(ranges: Sequence[SequenceRange]) -> str:
    """Say which rows are quarantined, what that means, and what to do about it."""
    named = ", ".join(map(str, ranges[:NAMED_MAX]))
    others = len(ranges) - NAMED_MAX
    beside = f" and {others} more ranges" if others > 0 else ""
    return (
        f"{named}{beside} of the log, found damaged, so nothing is computed from there:"
        " `rotulus quarantine list`, and `rotulus quarantine lift` once somebody has looked"
    )
