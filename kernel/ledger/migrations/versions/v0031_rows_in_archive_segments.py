"""Rows of the log that lie in archive segments, and what lets them leave the log."""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"

INTEGER = sa.Integer().with_variant(sa.BigInteger(), "postgresql")
TEXT = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    """Go this step."""
    op.create_table(
        "archive_segments",
        sa.Column("segment_index", INTEGER, autoincrement=False, nullable=False),
        sa.Column("content_hash", TEXT, nullable=False),
        sa.Column("stored_bytes", INTEGER, nullable=False),
        sa.Column("envelopes", INTEGER, nullable=False),
        sa.Column("collected", INTEGER, nullable=False),
        sa.Column("archived_at_us", INTEGER, nullable=False),
        sa.CheckConstraint("collected IN (0, 1)"),
        sa.PrimaryKeyConstraint("segment_index"),
    )
    op.create_index(
        "archive_segments_by_collected",
        "archive_segments",
        ["collected", "segment_index"],
        unique=False,
    )
    op.create_table(
        "archived_rows",
        sa.Column("ec_sequence_number", INTEGER, autoincrement=False, nullable=False),
        sa.Column("operation_id", TEXT, nullable=False),
        sa.Column("supersedes_sequence", INTEGER, nullable=False),
        sa.Column("envelope_payload_blob_ref", TEXT, nullable=False),
        sa.Column("semantic_intent", TEXT, nullable=False),
        sa.Column("session_id", TEXT, nullable=True),
        sa.Column("commit_epoch_id", TEXT, nullable=True),
        sa.Column("committed_at", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("ec_sequence_number"),
        sa.UniqueConstraint("operation_id", "supersedes_sequence"),
    )
    op.create_index(
        "archived_rows_by_epoch",
        "archived_rows",
        ["commit_epoch_id", "ec_sequence_number"],
        unique=False,
        sqlite_where=sa.text("commit_epoch_id IS NOT NULL"),
        postgresql_where=sa.text("commit_epoch_id IS NOT NULL"),
    )
    op.create_index(
        "archived_rows_by_intent",
        "archived_rows",
        ["semantic_intent", "ec_sequence_number"],
        unique=False,
    )
    op.create_index(
        "archived_rows_by_session",
        "archived_rows",
        ["session_id", "ec_sequence_number"],
        unique=False,
        sqlite_where=sa.text("session_id IS NOT NULL"),
        postgresql_where=sa.text("session_id IS NOT NULL"),
    )
    op.create_index(
        op.f("ix_archived_rows_envelope_payload_blob_ref"),
        "archived_rows",
        ["envelope_payload_blob_ref"],
        unique=False,
    )
    refuse_change("archived_rows")
    # A row of the log may go once a row of its key is there.
    if op.get_context().dialect.name == "sqlite":
        op.execute("DROP TRIGGER kernel_event_log_refuses_update")
        op.execute("DROP TRIGGER kernel_event_log_refuses_delete")
        refuse_change("kernel_event_log", moves_to="archived_rows")
        return
    op.execute(
        "CREATE FUNCTION rotulus_refuses_unless_archived() RETURNS trigger LANGUAGE plpgsql"
        " AS $$ BEGIN IF TG_OP = 'DELETE' AND EXISTS (SELECT FROM archived_rows a"
        " WHERE a.ec_sequence_number = OLD.ec_sequence_number) THEN RETURN OLD; END IF;"
        " RAISE EXCEPTION 'append only'; END $$"
    )
    op.execute("DROP TRIGGER kernel_event_log_refuses_row ON kernel_event_log")
    op.execute("DROP TRIGGER kernel_event_log_refuses_statement ON kernel_event_log")
    refuse_change("kernel_event_log", moves_to="archived_rows")


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
