"""The groups of records of runs."""

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"

INTEGER = sa.Integer().with_variant(sa.BigInteger(), "postgresql")
TEXT = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    """Go this step."""
    op.create_table(
        "landscape_record_groups",
        sa.Column("group_sequence", INTEGER, autoincrement=False, nullable=False),
        sa.Column("run_id", TEXT, nullable=False),
        sa.Column("prior_group_hash", TEXT, nullable=False),
        sa.Column("group_hash", TEXT, nullable=False),
        sa.Column("group_bytes", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("group_sequence"),
    )
    op.create_index(
        "landscape_record_groups_by_run",
        "landscape_record_groups",
        ["run_id", "group_sequence"],
        unique=False,
    )
    refuse_change("landscape_record_groups")


def downgrade() -> None:
    """Refuse."""
    raise NotImplementedError("the ledger's schema goes forward only")


def refuse_change(table: str, moves_to: str | None = None) -> None:
    """Make a table append-only; rows of the log may go that are in `moves_to`."""
    if op.get_context().dialect.name == "sqlite":
        place = f"FROM {moves_to} WHERE ec_sequence_number = OLD.ec_sequence_number"
        unless = f" WHEN NOT EXISTS (SELECT 1 {place})" if moves_to else ""
        for change, condition in (("UPDATE", ""), ("DELETE", unless)):
            op.execute(
                f"CREATE TRIGGER {table}_refuses_{change.lower()} BEFORE {change} "
                f"ON {table}{condition} BEGIN SELECT RAISE(ABORT, 'append only'); END"
            )
        return
    row = f"rotulus_refuses{'_unless_archived' if moves_to else ''}"
    for change, each, function in (
        ("UPDATE OR DELETE", "ROW", row),
        ("TRUNCATE", "STATEMENT", "rotulus_refuses"),
    ):
        op.execute(
            f"CREATE TRIGGER {table}_refuses_{each.lower()} BEFORE {change} ON {table}"
            f" FOR EACH {each} EXECUTE FUNCTION {function}()"
        )
