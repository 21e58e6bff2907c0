"""Chart blocks: what gateways counted of late, beside the record."""

import sqlalchemy as sa
from alembic import op

revision = "0045"
down_revision = "0044"

INTEGER = sa.Integer().with_variant(sa.BigInteger(), "postgresql")


def upgrade() -> None:
    """Go this step."""
    op.create_table(
        "chart_blocks",
        sa.Column("sample_s", INTEGER, autoincrement=False, nullable=False),
        sa.Column("slot", INTEGER, autoincrement=False, nullable=False),
        sa.Column("part", INTEGER, autoincrement=False, nullable=False),
        sa.Column("began_s", INTEGER, nullable=False),
        sa.Column("samples", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("sample_s", "slot", "part"),
    )


def downgrade() -> None:
    """Refuse."""
    raise NotImplementedError("the ledger's schema goes forward only")
