"""Keeps of each answer to a submission what the log does not say, to give it again (§2.5).

The log and its effects tell what was applied, and when. Durable receipts are those on record, so
the others are ephemeral, however long they are gone.
"""

from kernel.ledger import schema
from kernel.ledger.applied_effects import effects_of
from kernel.ledger.ledger import Document, LedgerTransaction, LedgerView
from kernel.ledger.store.tables import Row
from kernel.model.result import SubmissionResult
from kernel.values.errors import LedgerCorrupt


def emitted_receipt_id(operation_id: str, number: int) -> str:
    """Return the id of a receipt that an operation emits, by its place among them."""
    return f"receipt:{operation_id}:{number}"


def remember(
    transaction: LedgerTransaction,
    result: SubmissionResult,
    idempotency_key: str,
    content_digest: str,
    window_us: int,
) -> None:
    """Keep the answer for its key until the window is over."""
    transaction.tables.append(
        schema.idempotency_records,
        {
            "ec_sequence_number": result.ec_sequence_number,
            "idempotency_key": idempotency_key,
            "content_digest": content_digest,
            "row_hash": bytes.fromhex(result.row_hash),
            "emitted_receipts": " ".join(
                [receipt["receipt_kind"] for receipt in result.emitted_receipts]
            ),
            "expires_at_us": transaction.head_now.committed_at_us + window_us,
            "archived": 0,
        },
    )


def recall(view: LedgerView, record: Row) -> SubmissionResult:
    """Return the answer that a record keeps, as the answer to a duplicate.

    Raises:
        LedgerCorrupt: when its row is not on the log.
    """
    sequence = record["ec_sequence_number"]
    row = view.log_row_at(sequence)
    if row is None:
        raise LedgerCorrupt(f"the row {sequence} that was answered is missing")
    applied = tuple(
        {"effect_id": effect["effect_id"], "applied_at": effect["applied_at"]}
        for effect in effects_of(view, row)
    )
    kinds = enumerate(record["emitted_receipts"].split())
    receipts = tuple(_receipt(view, row["operation_id"], *numbered) for numbered in kinds)
    return SubmissionResult(
        row["operation_id"],
        sequence,
        row["committed_at"],
        applied,
        receipts,
        record["row_hash"].hex(),
        duplicate=True,
    )


def _receipt(view: LedgerView, operation_id: str, number: int, receipt_kind: str) -> Document:
    receipt_id = emitted_receipt_id(operation_id, number)
    return {
        "receipt_id": receipt_id,
        "receipt_kind": receipt_kind,
        "retention_class": "durable" if view.has_receipt(receipt_id) else "ephemeral",
    }
