"""The tree over the log."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"

INTEGER = sa.Integer().with_variant(sa.BigInteger(), "postgresql")
TEXT = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    """Go this step."""
    op.create_table(
        "tree_tiles",
        sa.Column("tile_level", INTEGER, autoincrement=False, nullable=False),
        sa.Column("tile_index", INTEGER, autoincrement=False, nullable=False),
        sa.Column("hashes", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("tile_level", "tile_index"),
    )
    op.add_column("chain_head", sa.Column("frontier", sa.LargeBinary(), nullable=True))


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
