"""Lists what people decided about the runtime, newest first: who, what about, why.

Each decision is an operation whose receipt says who decided and why (decision kernel/0265). An
index leads to the operations of each verb; a name is compared with what it leads to.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from kernel.algebra.verbs import OPERATOR_VERBS
from kernel.audit.operations import envelope_of
from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.ledger.store.tables import Row, TableQuery

LOOKED_AT_MAX: Final = 1000
"""Decisions that one call compares with a name."""

TARGETS_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class OperatorEntry:
    """A decision about the runtime."""

    ec_sequence_number: int
    operation_id: str
    verb: str
    committed_at: str
    decided_by: str
    reason: str
    targets: tuple[str, ...]
    """What it is about, the first of them."""

    targets_left_out: int


@dataclass(frozen=True, slots=True)
class OperatorLog:
    """A page of decisions, newest first; it may be empty and not the last."""

    entries: tuple[OperatorEntry, ...]
    next_after: int | None
    """Before which sequence the next page goes on; None after the last."""


def operator_log(
    view: LedgerView,
    *,
    verb: str | None = None,
    who: str | None = None,
    after: int | None = None,
    limit: int,
) -> OperatorLog:
    """Return decisions of one verb or of all, by anybody or by names with a part, newest first."""
    verbs = OPERATOR_VERBS if verb is None else [each for each in OPERATOR_VERBS if each == verb]
    entries: list[OperatorEntry] = []
    looked_at = 0
    while looked_at < LOOKED_AT_MAX:
        rows = _newest(view, verbs, after, limit)
        for row in rows:
            after, looked_at = row["ec_sequence_number"], looked_at + 1
            entry = _entry(view, row)
            if who is None or who.casefold() in entry.decided_by.casefold():
                entries.append(entry)
            if len(entries) == limit:
                return OperatorLog(tuple(entries), after)
        if len(rows) < limit:
            return OperatorLog(tuple(entries), None)
    return OperatorLog(tuple(entries), after)


def _newest(view: LedgerView, verbs: Sequence[str], after: int | None, limit: int) -> list[Row]:
    rows: list[Row] = []
    for verb in verbs:
        query = TableQuery(
            schema.kernel_event_log,
            {"semantic_intent": verb},
            order_by="ec_sequence_number",
            after=after,
            descending=True,
            limit=limit,
        )
        rows += view.tables.scan(query)
    return sorted(rows, key=itemgetter("ec_sequence_number"), reverse=True)[:limit]


def _entry(view: LedgerView, row: Row) -> OperatorEntry:
    operation_id = row["operation_id"]
    receipts = view.receipts_of(operation_id)
    said: dict[str, Any] = next((each for each in receipts if "decided_by" in each), {})
    envelope = envelope_of(view, row) or {}
    targets = [str(target) for target in envelope.get("target_refs", ())]
    return OperatorEntry(
        row["ec_sequence_number"],
        operation_id,
        row["semantic_intent"],
        row["committed_at"],
        str(said.get("decided_by", "")),
        str(said.get("reason", "")),
        tuple(targets[:TARGETS_SHOWN]),
        max(0, len(targets) - TARGETS_SHOWN),
    )
