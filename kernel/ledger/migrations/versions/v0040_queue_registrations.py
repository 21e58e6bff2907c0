"""Queue registrations: what workers state of the queues that they serve."""

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0039"

INTEGER = sa.Integer().with_variant(sa.BigInteger(), "postgresql")
TEXT = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    """Go this step."""
    op.create_table(
        "queue_registrations",
        sa.Column("queue", TEXT, nullable=False),
        sa.Column("registered_at_us", INTEGER, nullable=False),
        sa.Column("definition", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("queue"),
    )


def downgrade() -> None:
    """Refuse."""
    raise NotImplementedError("the ledger's schema goes forward only")
