"""The thoughts."""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"

INTEGER = sa.Integer().with_variant(sa.BigInteger(), "postgresql")
TEXT = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    """Go this step."""
    op.create_table(
        "audit_sessions",
        sa.Column("session_id", TEXT, nullable=False),
        sa.Column("task_id", TEXT, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("thought_count", INTEGER, nullable=False),
        sa.Column("zeta_head", TEXT, nullable=False),
        sa.Column("verified_count", INTEGER, nullable=False),
        sa.Column("eta_frontier", sa.LargeBinary(), nullable=False),
        sa.Column("rfc6962_frontier", sa.LargeBinary(), nullable=False),
        sa.Column("round_number", INTEGER, nullable=True),
        sa.Column("seal_sequence", INTEGER, nullable=True),
        sa.Column("seal_bytes", sa.LargeBinary(), nullable=True),
        sa.Column("signatures", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("session_id"),
    )
    op.create_index(
        "audit_sessions_by_round",
        "audit_sessions",
        ["round_number", "seal_sequence"],
        unique=False,
        sqlite_where=sa.text("round_number IS NOT NULL"),
        postgresql_where=sa.text("round_number IS NOT NULL"),
    )
    op.create_table(
        "merkle_nodes",
        sa.Column("session_id", TEXT, nullable=False),
        sa.Column("node_index", INTEGER, autoincrement=False, nullable=False),
        sa.Column("level", INTEGER, nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("left_child_index", INTEGER, nullable=True),
        sa.Column("right_child_index", INTEGER, nullable=True),
        sa.PrimaryKeyConstraint("session_id", "node_index"),
    )
    op.create_table(
        "rounds",
        sa.Column("round_number", INTEGER, autoincrement=False, nullable=False),
        sa.Column("genesis_bytes", sa.LargeBinary(), nullable=False),
        sa.Column("opened_sequence", INTEGER, nullable=False),
        sa.Column("opened_at_us", INTEGER, nullable=False),
        sa.Column("session_count", INTEGER, nullable=False),
        sa.Column("seal_bytes", sa.LargeBinary(), nullable=True),
        sa.Column("signatures", sa.LargeBinary(), nullable=True),
        sa.Column("sealed_sequence", INTEGER, nullable=True),
        sa.PrimaryKeyConstraint("round_number"),
    )
    op.create_table(
        "thought_records",
        sa.Column("session_id", TEXT, nullable=False),
        sa.Column("thought_sequence", INTEGER, autoincrement=False, nullable=False),
        sa.Column("thought_id", TEXT, nullable=False),
        sa.Column("content_hash", TEXT, nullable=False),
        sa.Column("record_bytes", sa.LargeBinary(), nullable=False),
        sa.Column("ec_sequence_number", INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("session_id", "thought_sequence"),
        sa.UniqueConstraint("session_id", "thought_id"),
    )
    refuse_change("merkle_nodes")
    refuse_change("thought_records")


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
