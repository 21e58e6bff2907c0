"""Ends a quarantine: an operation of an operator, with the reason (§17.5).

Whoever lifts a quarantine has mended its rows and records, or says that they are read as they
stand. The receipt keeps what stood then, so who finds the same again knows whether it was changed
since. Verification of the whole log names a damaged row all the same.
"""

from typing import Any

from kernel.algebra.verbs import QUARANTINE_LIFT
from kernel.ledger.ledger import LedgerTransaction
from kernel.ledger.quarantine import LIFTED, content_digest, range_document, record_digest
from kernel.ledger.receipts import append_receipt
from kernel.model.receipt import Receipt
from kernel.records.legal_holds import Grounds
from kernel.records.operator_decisions import Decide, quarantine_target
from kernel.values.errors import KernelError


class QuarantineRefused(KernelError):
    """A quarantine that cannot be lifted so; nothing was written.

    Codes: `quarantine_unknown`, `quarantine_reason_missing`.
    """

    code = "quarantine_unknown"


def lift_quarantine(
    transaction: LedgerTransaction, quarantine_id: str, grounds: Grounds, decide: Decide
) -> bool:
    """Put on the record that a quarantine is lifted; False where it was lifted before.

    Raises:
        QuarantineRefused: `quarantine_unknown`, `quarantine_reason_missing`.
        ArchiveUnavailable: its rows lie in an archive that does not answer.
    """
    if not grounds.reason.strip():
        message = "a quarantine is lifted with the reason: what was found about its rows"
        raise QuarantineRefused(message, code="quarantine_reason_missing")
    if transaction.has_receipt(_lift_receipt_id(quarantine_id)):
        return False
    quarantine = next(
        (
            each
            for each in transaction.quarantines().standing
            if each.quarantine_id == quarantine_id
        ),
        None,
    )
    if quarantine is None:
        message = f"no quarantine is called {ascii(quarantine_id)[:200]}"
        raise QuarantineRefused(f"{message}; `rotulus quarantine list` shows those that stand")
    ranges = [
        {**range_document(rows), "content_digest": content_digest(transaction.tables, rows)}
        for rows in quarantine.ranges
    ]
    body: dict[str, Any] = {"quarantine_id": quarantine_id, "ranges": ranges}
    if quarantine.records:
        body["records"] = [
            {**each._asdict(), "content_digest": record_digest(transaction.tables, each)}
            for each in quarantine.records
        ]
    body |= grounds.decide(QUARANTINE_LIFT, quarantine_target(quarantine_id), decide)
    transaction.next_commit_time_us()
    append_receipt(transaction, _lift_receipt_id(quarantine_id), Receipt(LIFTED, body), None)
    transaction.forget_quarantines()
    return True


def _lift_receipt_id(quarantine_id: str) -> str:
    return f"receipt:quarantine:{quarantine_id}:lifted"
