"""Memberships that wait."""

# ruff: noqa: S608
# The one thing that is put into a text here is chosen from two.

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0043"

INTEGER = sa.Integer().with_variant(sa.BigInteger(), "postgresql")
TEXT = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    """Go this step."""
    op.add_column("corpus_membership_records", sa.Column("is_open", INTEGER, nullable=True))
    state = (
        "json_extract(CAST(record AS TEXT), '$.state')"
        if op.get_context().dialect.name == "sqlite"
        else "convert_from(record, 'UTF8')::json ->> 'state'"
    )
    op.execute(f"UPDATE corpus_membership_records SET is_open = 1 WHERE ({state}) = 'candidate'")
    op.create_index(
        "corpus_membership_records_open",
        "corpus_membership_records",
        ["is_open", "membership_id"],
        unique=False,
        sqlite_where=sa.text("is_open IS NOT NULL"),
        postgresql_where=sa.text("is_open IS NOT NULL"),
    )


def downgrade() -> None:
    """Refuse."""
    raise NotImplementedError("the ledger's schema goes forward only")
