"""A row of the log as it is read: what was superseded is read as what took its place (K24)."""

from kernel.audit.operations import stored_document
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.supersession import in_force_at
from kernel.ledger.tables import Row


def log_document(view: LedgerView, row: Row) -> Document:
    """Return what a row of the log says, with its hash.

    At the place of a lite envelope that was migrated, the row that took it speaks, under the
    sequence of that place, and `superseding_sequence` is where that row itself stands.
    """
    standing = in_force_at(view, row) or row
    document = stored_document(standing["row_bytes"], f"row {row['ec_sequence_number']} of the log")
    document |= {"row_hash": standing["row_hash"]}
    if standing["ec_sequence_number"] != row["ec_sequence_number"]:
        document["ec_sequence_number"] = str(row["ec_sequence_number"])
        document["superseding_sequence"] = str(standing["ec_sequence_number"])
    return document


def superseded_row(view: LedgerView, row: Row) -> Row | None:
    """Return the lite row whose place a row took, None for one that took none."""
    superseded = row["supersedes_sequence"]
    return view.tables.get(schema.kernel_event_log, superseded) if superseded else None
