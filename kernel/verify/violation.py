"""Records the findings of a verification as a receipt on the record (§17.5, decision kernel/0106).

The receipt names what was found first, and where, which rows of the log are quarantined from then
on (decision kernel/0522), and what is about no row and nobody knew of (decision kernel/0595). It
goes to the end of the chain of receipts, so it can be written while an earlier row is damaged, and
what it says can itself be verified.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from kernel.ledger.damage import Damage
from kernel.ledger.ledger import LedgerTransaction
from kernel.ledger.quarantine import (
    VIOLATION,
    RecordKey,
    SequenceRange,
    merge_ranges,
    range_document,
)
from kernel.ledger.receipts import append_receipt
from kernel.model.receipt import Receipt
from kernel.verify import Verification
from kernel.verify.checked_reading import is_sound
from kernel.verify.damaged_rows import acknowledged_records, fresh_rows
from kernel.verify.reading import Finding

_OF_A_ROW = frozenset({"record_damaged", "landscape_record_damaged"})
"""Codes of damage that a row shows by itself."""

RANGES_MAX = 1000
"""Ranges that are quarantined at a time; those that are found then become one with what lies
between them and the others."""

_TEXT_MAX = 512


def record_violation(
    transaction: LedgerTransaction, verification: Verification, *, once: bool = False
) -> str | None:
    """Leave a durable receipt of findings and return its id; None where nothing was found.

    Rows of the log that they are about are quarantined by it, but for those that are already, and
    those that stand as they stood when a quarantine of them was lifted; so are records of no row.
    With `once`, findings of which somebody knows leave no receipt: then None again.
    """
    counts = (verification.head_hash, verification.rows, verification.receipts)
    return _record(transaction, verification.findings, *counts, once=once)


def record_damage(transaction: LedgerTransaction, met: Sequence[Damage]) -> str | None:
    """Leave a receipt of damage that readers met, as of findings with `once` (ruling L3).

    A row that was put back since it was met is none.
    """
    findings = [
        Finding(each.table, each.key, "unreadable", str(each))
        for each in met
        if each.code not in _OF_A_ROW or not is_sound(transaction, RecordKey(each.table, each.key))
    ]
    return _record(transaction, findings, transaction.head_now.row_hash, 0, 0, once=True)


def _record(
    transaction: LedgerTransaction,
    findings: Sequence[Finding],
    head_hash: str,
    rows: int,
    receipts: int,
    *,
    once: bool,
) -> str | None:
    if not findings:
        return None
    fresh, about_no_row = fresh_rows(transaction, findings)
    of_no_row = _unknown(transaction, about_no_row)
    if once and not (fresh or of_no_row):
        return None
    receipt_id = f"receipt:{transaction.host.new_id()}"
    transaction.next_commit_time_us()
    body: dict[str, Any] = {
        "reason_code": VIOLATION,
        "head_hash": head_hash,
        "rows_verified": str(rows),
        "receipts_verified": str(receipts),
        "findings": [*map(_finding_document, findings)],
    }
    if fresh:
        body["quarantined"] = [*map(range_document, _ranges_to_quarantine(transaction, fresh))]
    if of_no_row:
        body["of_no_row"] = of_no_row
    append_receipt(transaction, receipt_id, Receipt(VIOLATION, body), None)
    transaction.forget_quarantines()
    return receipt_id


def _unknown(transaction: LedgerTransaction, findings: Iterable[Finding]) -> list[dict[str, str]]:
    """Return findings about records of no row, those left out that somebody knows of."""
    stated = {
        RecordKey(each["table"], each["key"]): each for each in map(_finding_document, findings)
    }
    known = acknowledged_records(transaction) if stated else frozenset()
    return [each for key, each in stated.items() if key not in known]


def _ranges_to_quarantine(
    transaction: LedgerTransaction, fresh: tuple[SequenceRange, ...]
) -> tuple[SequenceRange, ...]:
    """Return the ranges to quarantine; of more than can be kept apart one that holds all."""
    every_range = merge_ranges((*transaction.quarantines().ranges, *fresh))
    if len(every_range) <= RANGES_MAX:
        return fresh
    return (SequenceRange(every_range[0].first, every_range[-1].last),)


def _finding_document(finding: Finding) -> dict[str, str]:
    return {
        "table": finding.table,
        "key": _storable(str(finding.key)),
        "rule": finding.rule,
        "message": _storable(finding.message),
    }


def _storable(text: str) -> str:
    """Return a finding's text as a receipt can hold it."""
    return text[:_TEXT_MAX].encode("utf-8", "replace").decode().replace("\x00", "\ufffd")
