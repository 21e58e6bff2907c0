"""Access: who was granted what, and the keys by which principals prove who they are."""

import sqlalchemy as sa
from alembic import op

revision = "0046"
down_revision = "0045"

INTEGER = sa.Integer().with_variant(sa.BigInteger(), "postgresql")
TEXT = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    """Go this step."""
    op.create_table(
        "access_grants",
        sa.Column("grant_key", TEXT, nullable=False),
        sa.Column("principal", TEXT, nullable=False),
        sa.Column("role", TEXT, nullable=False),
        sa.Column("scope", TEXT, nullable=False),
        sa.Column("granted_at_us", INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("grant_key"),
    )
    op.create_table(
        "access_keys",
        sa.Column("key_id", TEXT, nullable=False),
        sa.Column("principal", TEXT, nullable=False),
        sa.Column("secret_hash", TEXT, nullable=False),
        sa.Column("created_at_us", INTEGER, nullable=False),
        sa.Column("expires_at_us", INTEGER, nullable=False),
        sa.Column("opened_by", TEXT),
        sa.PrimaryKeyConstraint("key_id"),
    )
    for column in ("created_at_us", "expires_at_us", "opened_by"):
        op.create_index(f"ix_access_keys_{column}", "access_keys", [column])


def downgrade() -> None:
    """Refuse."""
    raise NotImplementedError("the ledger's schema goes forward only")
