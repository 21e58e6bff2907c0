"""The findings of a verification as a receipt on the record (§17.5, decision kernel/0106).

The receipt names what was found first, and where; an operator decides what to do. It goes
to the end of the chain of receipts, so it can be written while an earlier row is damaged, and what
it says can itself be verified.
"""

from kernel.canonical import digest
from kernel.ledger import schema
from kernel.ledger.ledger import LedgerTransaction
from kernel.ledger.receipts import append_receipt
from kernel.model.receipt import Receipt
from kernel.verify import Verification

VIOLATION = "kernel_event_log_integrity_violation"
_TEXT_MAX = 512


def record_violation(
    transaction: LedgerTransaction, verification: Verification, *, once: bool = False
) -> str | None:
    """Leave a durable receipt of findings and return its id; None where nothing was found.

    With `once`, the same findings leave one receipt however often they are found: then None again.
    """
    if verification.ok:
        return None
    findings = [
        {
            "table": finding.table,
            "key": _storable(str(finding.key)),
            "rule": finding.rule,
            "message": _storable(finding.message),
        }
        for finding in verification.findings
    ]
    receipt_id = f"receipt:{digest(findings) if once else transaction.host.new_id()}"
    if once and transaction.tables.select(schema.receipts, {"receipt_id": receipt_id}, limit=1):
        return None
    transaction.next_commit_time_us()
    body = {
        "reason_code": VIOLATION,
        "head_hash": verification.head_hash,
        "rows_verified": str(verification.rows),
        "receipts_verified": str(verification.receipts),
        "findings": findings,
    }
    append_receipt(transaction, receipt_id, Receipt(VIOLATION, body), None)
    return receipt_id


def _storable(text: str) -> str:
    """Return a finding's text as a receipt can hold it."""
    return text[:_TEXT_MAX].encode("utf-8", "replace").decode().replace("\x00", "\ufffd")
