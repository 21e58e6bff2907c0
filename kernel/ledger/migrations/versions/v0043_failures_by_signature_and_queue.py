"""Failures by signature and queue."""

import sqlalchemy as sa
from alembic import op

revision = "0043"
down_revision = "0042"

INTEGER = sa.Integer().with_variant(sa.BigInteger(), "postgresql")
TEXT = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    """Go this step."""
    op.drop_index("request_failures_by_signature", table_name="request_failures")
    op.create_index(
        "request_failures_by_signature",
        "request_failures",
        ["error_signature", "queue", "request_sequence"],
        unique=False,
        sqlite_where=sa.text("error_signature IS NOT NULL"),
        postgresql_where=sa.text("error_signature IS NOT NULL"),
    )


def downgrade() -> None:
    """Refuse."""
    raise NotImplementedError("the ledger's schema goes forward only")
