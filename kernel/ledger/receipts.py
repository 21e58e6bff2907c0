"""Records receipts: durable ones in a chain of their own, which every log row seals.

A rejection has a receipt and no log row (K5); through the chain's head in the next log row it is
sealed all the same.
"""

from kernel.ledger import schema
from kernel.ledger.ledger import LedgerTransaction
from kernel.model.receipt import CURRENT_RECEIPTS, EPHEMERAL_DAYS, Receipt, ReceiptRules
from kernel.values.canonical import canonicalize, sha256_hex
from kernel.values.host import iso_time

US_PER_DAY = 24 * 3600 * 1_000_000


def append_receipt(
    transaction: LedgerTransaction,
    receipt_id: str,
    receipt: Receipt,
    operation_id: str | None,
    *,
    rules: ReceiptRules = CURRENT_RECEIPTS,
) -> str:
    """Record a receipt by its retention class and return its hash.

    `rules` differ from today's only where a log is folded (K30).

    Raises:
        ReceiptBodyInvalid: when the body is not what the kind says; nothing was written.
    """
    rules.check(receipt)
    head = transaction.head_now
    document = {
        **receipt.body,
        "receipt_id": receipt_id,
        "receipt_kind": receipt.receipt_kind,
        "emitted_at": iso_time(head.committed_at_us),
        "rules_version": rules.version,
        "schema_version": 1,
    }
    if operation_id is not None:
        document["operation_id"] = operation_id
    if rules.retention_of(receipt) == "ephemeral":
        content = canonicalize(document)
        row = {
            "receipt_id": receipt_id,
            "receipt_kind": receipt.receipt_kind,
            "operation_id": operation_id,
            "expires_at_us": head.committed_at_us + EPHEMERAL_DAYS * US_PER_DAY,
            "receipt_bytes": content,
        }
        transaction.tables.append(schema.ephemeral_receipts, row)
        return sha256_hex(content)
    document["receipt_sequence"] = str(head.receipt_sequence + 1)
    document["prior_receipt_hash"] = head.receipt_hash
    content = canonicalize(document)
    reason_code = receipt.body.get("reason_code")
    receipt_hash = sha256_hex(content)
    transaction.tables.append(
        schema.receipts,
        {
            "receipt_sequence": head.receipt_sequence + 1,
            "receipt_id": receipt_id,
            "receipt_kind": receipt.receipt_kind,
            "reason_code": reason_code if isinstance(reason_code, str) else None,
            "operation_id": operation_id,
            "prior_receipt_hash": head.receipt_hash,
            "receipt_hash": receipt_hash,
            "receipt_bytes": content,
        },
    )
    head.receipt_sequence += 1
    head.receipt_hash = receipt_hash
    return receipt_hash


def purge_expired(transaction: LedgerTransaction) -> int:
    """Delete the ephemeral receipts whose time is over and return their number (§17.2).

    The record's clock goes on past their time: one that is missing before it was not purged.
    """
    now_us = transaction.host.now_us()
    purged = transaction.tables.delete_before(schema.ephemeral_receipts, "expires_at_us", now_us)
    if purged:
        transaction.next_commit_time_us()
    return purged
