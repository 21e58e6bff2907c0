"""Verifies ranges of receipts: each goes on from the one before, and has its seal's root.

The walk along the chain holds each receipt's hash against its bytes, so here the stored hashes are
what the roots are computed of.
"""

from kernel.ledger import schema
from kernel.ledger.store.tables import TableQuery
from kernel.records.receipt_seals import RECEIPTS_SEALED, ReceiptRange, root_between
from kernel.verify.hash_chains import is_emitted
from kernel.verify.reading import Reader

_KIND = {"receipt_kind": RECEIPTS_SEALED}


def check_receipt_seals(reader: Reader, *, after: int = 0) -> int:
    """Check the seals behind a receipt and return the last receipt that is in a range."""
    sealed_to = _last_sealed_before(reader, after)
    for row in reader.pages(schema.receipts, _KIND, after=after):
        key = row["receipt_sequence"]
        with reader.findings.guard(schema.receipts, key):
            sealed = ReceiptRange.of_receipt(row)
            span = f"receipts {sealed.first} to {sealed.last}"
            if not is_emitted(row):
                message = f"no operation states the seal of {span}"
                reader.findings.add(schema.receipts, key, "extra", message)
            if sealed.first != sealed_to + 1 or not sealed.is_before(key):
                message = f"seals {span}, the seals before it end with {sealed_to}"
                reader.findings.add(schema.receipts, key, "order_broken", message)
            elif root_between(reader.tables, sealed.first, sealed.last) != sealed.root:
                message = f"{span} do not have the root that it states"
                reader.findings.add(schema.receipts, key, "bytes_changed", message)
            sealed_to = sealed.last
    return sealed_to


def _last_sealed_before(reader: Reader, after: int) -> int:
    """Return the last receipt that the seals up to a receipt have in a range."""
    with reader.findings.guard(schema.receipts, after):
        rows = reader.tables.scan(
            TableQuery(schema.receipts, _KIND, after=after + 1, descending=True, limit=1)
        )
        return ReceiptRange.of_receipt(rows[0]).last if rows else 0
    return 0
