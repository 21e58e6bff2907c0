"""Receipts of a kind, and outcomes of a kind, are read in pages by their keys.

The indexes held them in another order, so each page sorted all of its kind that there were.
"""

from alembic import op

revision = "0035"
down_revision = "0034"


def upgrade() -> None:
    """Go this step."""
    op.drop_index("outbox_outcomes_by_outcome", table_name="outbox_outcomes")
    op.create_index(
        "outbox_outcomes_by_outcome", "outbox_outcomes", ["outcome", "request_id"], unique=False
    )
    op.drop_index("receipts_by_kind", table_name="receipts")
    op.create_index(
        "receipts_by_kind", "receipts", ["receipt_kind", "receipt_sequence"], unique=False
    )


def downgrade() -> None:
    """Refuse."""
    raise NotImplementedError("the ledger's schema goes forward only")
