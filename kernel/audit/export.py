"""Writes the log as a file that proves itself: JSON lines, each in canonical form.

    {"format": "rotulus-export/1", "kind": "header"}
    {"kind": "receipt", "after_row", "receipt", "receipt_hash"}
    {"kind": "row", "effects", "envelope", "receipts", "row", "row_hash", "salt"}
    {"kind": "head", "ec_sequence_number", "row_hash", "receipt_sequence", "receipt_hash",
     "tree_root"}

The hashed bytes are embedded as they are stored, so a reader finds both layers of an operation by
plain JSON, and a verifier finds the bytes again by writing what it read canonically. A row's
`receipts` are those that its operation emitted, each with its hash. Receipts of refusals and of
work that was given up have lines of their own before the row that seals them, which say behind
which row they stand. In the order of the file the receipts are their chain. An erased envelope is
null, and so is its salt.

Left out: ephemeral receipts, the typed records (the log folds into them), requests, what models
answered, of which the envelopes hold the commitments, and the trails of belief sessions, of which
the rows hold the anchors only.
"""

from collections.abc import Iterator

from kernel.audit.operations import stored_document
from kernel.ledger import schema
from kernel.ledger.applied_effects import effects_of
from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.store.tables import LARGE_ROWS, Row, TableQuery
from kernel.proof.merkle_tree import Frontier, leaf_hash
from kernel.values.canonical import canonicalize

EXPORT_FORMAT = "rotulus-export/1"


def export_lines(view: LedgerView) -> Iterator[bytes]:
    """Yield the lines of a snapshot's export, each with its line feed; holds one page of rows.

    Raises:
        LedgerCorrupt: when a row of the log cannot be read; what was yielded is no whole export.
        RangeQuarantined: when a part of the log is quarantined; nothing was yielded.
    """
    view.quarantines().expect_none()
    head = view.head()
    yield _line({"format": EXPORT_FORMAT, "kind": "header"})
    sealed = sequence = 0
    frontier = Frontier()
    while sequence < head.ec_sequence_number:
        rows = view.log_rows(after=sequence, limit=LARGE_ROWS)
        if not rows:
            break
        for row in rows:
            upto = _newest_sealed_receipt(view, row)
            own: list[bytes] = []
            for receipt in _receipts(view, sealed, upto):
                if receipt["receipt_id"].startswith(f"receipt:{row['operation_id']}:"):
                    own.append(_receipt_members(receipt))
                else:
                    yield _receipt_line(receipt, row["ec_sequence_number"] - 1)
            yield _row_line(view, row, own)
            frontier = frontier.append(leaf_hash(row["row_bytes"]))
            sealed = max(sealed, upto)
        sequence = rows[-1]["ec_sequence_number"]
    for receipt in _receipts(view, sealed, head.receipt_sequence):
        yield _receipt_line(receipt, sequence)
    yield _line(
        {
            "kind": "head",
            "ec_sequence_number": str(head.ec_sequence_number),
            "row_hash": head.row_hash,
            "receipt_sequence": str(head.receipt_sequence),
            "receipt_hash": head.receipt_hash,
            "tree_root": frontier.root.hex(),
        }
    )


def _line(document: Document) -> bytes:
    return canonicalize(document) + b"\n"


def _row_line(view: LedgerView, row: Row, receipts: list[bytes]) -> bytes:
    blob = view.tables.get(schema.blobs, row["envelope_payload_blob_ref"])
    members = (
        b'{"effects":' + canonicalize(effects_of(view, row)),
        b'"envelope":' + (b"null" if blob is None else blob["content"]),
        b'"kind":"row"',
        b'"receipts":[' + b",".join(b"{" + receipt + b"}" for receipt in receipts) + b"]",
        b'"row":' + row["row_bytes"],
        b'"row_hash":' + canonicalize(row["row_hash"]),
        b'"salt":' + canonicalize(None if blob is None else blob["salt"].hex()) + b"}\n",
    )
    return b",".join(members)


def _receipt_line(receipt: Row, after_row: int) -> bytes:
    place = b'{"after_row":"%d","kind":"receipt",' % after_row
    return place + _receipt_members(receipt) + b"}\n"


def _receipt_members(receipt: Row) -> bytes:
    content: bytes = receipt["receipt_bytes"]
    return b'"receipt":' + content + b',"receipt_hash":' + canonicalize(receipt["receipt_hash"])


def _newest_sealed_receipt(view: LedgerView, row: Row) -> int:
    """Return the sequence of the newest receipt that a row seals; 0 where it seals none."""
    document = stored_document(row["row_bytes"], f"row {row['ec_sequence_number']} of the log")
    where = {"receipt_hash": document.get("receipt_chain_head")}
    receipts = view.tables.scan(TableQuery(schema.receipts, where, limit=1))
    return int(receipts[0]["receipt_sequence"]) if receipts else 0


def _receipts(view: LedgerView, after: int, upto: int) -> Iterator[Row]:
    while after < upto:
        rows = view.tables.scan(
            TableQuery(schema.receipts, after=after, limit=min(LARGE_ROWS, upto - after))
        )
        if not rows:
            return
        yield from rows
        after = rows[-1]["receipt_sequence"]
