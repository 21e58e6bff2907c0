"""Bulk operations."""

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0041"

INTEGER = sa.Integer().with_variant(sa.BigInteger(), "postgresql")
TEXT = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    """Go this step."""
    op.create_table(
        "bulk_operations",
        sa.Column("ec_sequence_number", INTEGER, autoincrement=False, nullable=False),
        sa.Column("running", INTEGER, nullable=True),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("ec_sequence_number"),
    )
    op.create_index(
        "bulk_operations_running",
        "bulk_operations",
        ["running", "ec_sequence_number"],
        unique=False,
        sqlite_where=sa.text("running IS NOT NULL"),
        postgresql_where=sa.text("running IS NOT NULL"),
    )


def downgrade() -> None:
    """Refuse."""
    raise NotImplementedError("the ledger's schema goes forward only")
