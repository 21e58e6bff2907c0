"""Which extractions run, and whose source was changed under them.

A run that began before this revision states no request and has no row: the report of its worker
finds that its source was changed.
"""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"

INTEGER = sa.Integer().with_variant(sa.BigInteger(), "postgresql")
TEXT = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    """Go this step."""
    op.create_table(
        "running_extractions",
        sa.Column("extraction_run_id", TEXT, nullable=False),
        sa.Column("source_ref", TEXT, nullable=False),
        sa.Column("source_changed", INTEGER, nullable=True),
        sa.PrimaryKeyConstraint("extraction_run_id"),
    )
    op.create_index(
        "running_extractions_by_source", "running_extractions", ["source_ref"], unique=False
    )
    op.create_index(
        "running_extractions_of_changed_sources",
        "running_extractions",
        ["source_changed", "extraction_run_id"],
        unique=False,
        sqlite_where=sa.text("source_changed IS NOT NULL"),
        postgresql_where=sa.text("source_changed IS NOT NULL"),
    )


def downgrade() -> None:
    """Refuse."""
    raise NotImplementedError("the ledger's schema goes forward only")


def refuse_change(table: str) -> None:
    """Make a table append-only."""
    if op.get_context().dialect.name == "sqlite":
        for change in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {table}_refuses_{change.lower()} BEFORE {change} "
                f"ON {table} BEGIN SELECT RAISE(ABORT, 'append only'); END"
            )
        return
    for change, each in (("UPDATE OR DELETE", "ROW"), ("TRUNCATE", "STATEMENT")):
        op.execute(
            f"CREATE TRIGGER {table}_refuses_{each.lower()} BEFORE {change} ON {table}"
            f" FOR EACH {each} EXECUTE FUNCTION rotulus_refuses()"
        )
