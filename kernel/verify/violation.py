"""The findings of a verification as a receipt on the record (§17.5, decision kernel/0106).

The receipt names what was found first, and where, and which rows of the log are quarantined from
then on (decision kernel/0522). It goes to the end of the chain of receipts, so it can be written
while an earlier row is damaged, and what it says can itself be verified.
"""

from typing import Any

from kernel.canonical import digest
from kernel.ledger.ledger import LedgerTransaction
from kernel.ledger.quarantine import VIOLATION, SequenceRange, merged, stated_range
from kernel.ledger.receipts import append_receipt
from kernel.model.receipt import Receipt
from kernel.verify import Verification
from kernel.verify.damaged_rows import fresh_rows
from kernel.verify.reading import Finding

RANGES_MAX = 1000
"""Ranges that are quarantined at a time; those that are found then become one with what lies
between them and the others."""

_TEXT_MAX = 512


def record_violation(
    transaction: LedgerTransaction, verification: Verification, *, once: bool = False
) -> str | None:
    """Leave a durable receipt of findings and return its id; None where nothing was found.

    Rows of the log that they are about are quarantined by it, but for those that are already, and
    those that stand as they stood when a quarantine of them was lifted. With `once`, the same
    findings leave one receipt however often they are found: then None again.
    """
    if verification.ok:
        return None
    fresh, of_no_row = fresh_rows(transaction, verification.findings)
    receipt_id = f"receipt:{transaction.host.new_id()}"
    if once and not fresh:
        receipt_id = f"receipt:{digest([*map(_stated, of_no_row)])}"
        if not of_no_row or transaction.has_receipt(receipt_id):
            return None
    transaction.next_commit_time_us()
    body: dict[str, Any] = {
        "reason_code": VIOLATION,
        "head_hash": verification.head_hash,
        "rows_verified": str(verification.rows),
        "receipts_verified": str(verification.receipts),
        "findings": [*map(_stated, verification.findings)],
    }
    if fresh:
        body["quarantined"] = [*map(stated_range, _bounded(transaction, fresh))]
    append_receipt(transaction, receipt_id, Receipt(VIOLATION, body), None)
    transaction.forget_quarantines()
    return receipt_id


def _bounded(
    transaction: LedgerTransaction, fresh: tuple[SequenceRange, ...]
) -> tuple[SequenceRange, ...]:
    """Return the ranges to quarantine; of more than can be kept apart one that holds all."""
    every_range = merged((*transaction.quarantines().ranges, *fresh))
    if len(every_range) <= RANGES_MAX:
        return fresh
    return (SequenceRange(every_range[0].first, every_range[-1].last),)


def _stated(finding: Finding) -> dict[str, str]:
    return {
        "table": finding.table,
        "key": _storable(str(finding.key)),
        "rule": finding.rule,
        "message": _storable(finding.message),
    }


def _storable(text: str) -> str:
    """Return a finding's text as a receipt can hold it."""
    return text[:_TEXT_MAX].encode("utf-8", "replace").decode().replace("\x00", "\ufffd")
