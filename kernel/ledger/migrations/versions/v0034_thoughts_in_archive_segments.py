"""Thoughts that lie in archive segments, and what lets their records and nodes go."""

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"

INTEGER = sa.Integer().with_variant(sa.BigInteger(), "postgresql")
TEXT = sa.String().with_variant(sa.String(collation="C"), "postgresql")

MOVED = {
    "thought_records": "OLD.thought_sequence BETWEEN first_sequence AND last_sequence",
    "merkle_nodes": "OLD.node_index BETWEEN first_node AND last_node",
}
"""When a row of each may go."""


def upgrade() -> None:
    """Go this step."""
    op.create_table(
        "thought_segments",
        sa.Column("content_hash", TEXT, nullable=False),
        sa.Column("session_id", TEXT, nullable=False),
        sa.Column("first_sequence", INTEGER, nullable=False),
        sa.Column("last_sequence", INTEGER, nullable=False),
        sa.Column("first_node", INTEGER, nullable=False),
        sa.Column("last_node", INTEGER, nullable=False),
        sa.Column("stored_bytes", INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("content_hash"),
        sa.UniqueConstraint("session_id", "first_sequence"),
    )
    for table, place in MOVED.items():
        moved = f"FROM thought_segments WHERE session_id = OLD.session_id AND {place}"
        if op.get_context().dialect.name == "sqlite":
            op.execute(f"DROP TRIGGER {table}_refuses_delete")
            op.execute(
                f"CREATE TRIGGER {table}_refuses_delete BEFORE DELETE ON {table}"
                f" WHEN NOT EXISTS (SELECT 1 {moved})"
                " BEGIN SELECT RAISE(ABORT, 'append only'); END"
            )
            continue
        op.execute(
            f"CREATE FUNCTION rotulus_refuses_{table}() RETURNS trigger LANGUAGE plpgsql"
            f" AS $$ BEGIN IF TG_OP = 'DELETE' AND EXISTS (SELECT {moved}) THEN RETURN OLD; END IF;"
            " RAISE EXCEPTION 'append only'; END $$"
        )
        op.execute(f"DROP TRIGGER {table}_refuses_row ON {table}")
        op.execute(
            f"CREATE TRIGGER {table}_refuses_row BEFORE UPDATE OR DELETE ON {table}"
            f" FOR EACH ROW EXECUTE FUNCTION rotulus_refuses_{table}()"
        )


def downgrade() -> None:
    """Refuse."""
    raise NotImplementedError("the ledger's schema goes forward only")
