"""States and tags of requests."""

# ruff: noqa: S608
# Every name that is put into a text here is one of the schema's.

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = "0040"

INTEGER = sa.Integer().with_variant(sa.BigInteger(), "postgresql")
TEXT = sa.String().with_variant(sa.String(collation="C"), "postgresql")

STATE = (
    "CASE WHEN open = 1 THEN 1 ELSE (SELECT CASE outcome WHEN 'completed' THEN 0"
    " WHEN 'cancelled' THEN 2 ELSE 3 END FROM outbox_outcomes"
    " WHERE outbox_outcomes.request_id = outbox.request_id) END"
)


def upgrade() -> None:
    """Go this step."""
    op.create_table(
        "dead_letters",
        sa.Column("request_sequence", INTEGER, autoincrement=False, nullable=False),
        sa.Column("queue", TEXT, nullable=False),
        sa.Column("error_signature", TEXT, nullable=False),
        sa.Column("settled", INTEGER, nullable=False),
        sa.CheckConstraint("settled IN (0, 1)"),
        sa.PrimaryKeyConstraint("request_sequence"),
    )
    op.create_index(
        "dead_letters_by_signature",
        "dead_letters",
        ["settled", "queue", "error_signature", "request_sequence"],
        unique=False,
    )
    op.create_table(
        "request_tags",
        sa.Column("request_sequence", INTEGER, autoincrement=False, nullable=False),
        sa.Column("tag", TEXT, nullable=False),
        sa.Column("queue", TEXT, nullable=False),
        sa.Column("state", INTEGER, nullable=False),
        sa.CheckConstraint("state IN (0, 1, 2, 3, 4)"),
        sa.PrimaryKeyConstraint("request_sequence", "tag"),
    )
    op.create_index(
        "request_tags_by_tag",
        "request_tags",
        ["tag", "state", "queue", "request_sequence"],
        unique=False,
    )
    op.drop_index("outbox_open", table_name="outbox")
    op.drop_index("outbox_by_item", table_name="outbox")
    if op.get_context().dialect.name == "sqlite":
        op.create_table(
            "outbox_new",
            sa.Column("request_id", TEXT, nullable=False),
            sa.Column("request_sequence", INTEGER, nullable=False),
            sa.Column("queue", TEXT, nullable=False),
            sa.Column("item_key", TEXT, nullable=False),
            sa.Column("priority", TEXT, nullable=False),
            sa.Column("cause_sequence", INTEGER, nullable=False),
            sa.Column("open", INTEGER, nullable=False),
            sa.Column("state", INTEGER, nullable=False),
            sa.Column("enqueued_at_us", INTEGER, nullable=False),
            sa.Column("request_bytes", sa.LargeBinary(), nullable=False),
            sa.CheckConstraint("open IN (0, 1)"),
            sa.CheckConstraint("state IN (0, 1, 2, 3, 4)"),
            sa.PrimaryKeyConstraint("request_id"),
            sa.UniqueConstraint("request_sequence"),
        )
        op.execute(
            "INSERT INTO outbox_new SELECT request_id, request_sequence, queue, item_key, priority,"
            f" cause_sequence, open, {STATE}, enqueued_at_us, request_bytes FROM outbox"
        )
        op.drop_table("outbox")
        op.rename_table("outbox_new", "outbox")
    else:
        op.add_column("outbox", sa.Column("state", INTEGER))
        op.execute(f"UPDATE outbox SET state = {STATE}")
        op.alter_column("outbox", "state", nullable=False)
        op.execute("ALTER TABLE outbox ADD CHECK (state IN (0, 1, 2, 3, 4))")
    op.create_index(
        "outbox_by_item",
        "outbox",
        ["queue", "item_key", "open", "request_sequence", "state"],
        unique=False,
    )
    op.create_index(
        "outbox_by_state", "outbox", ["state", "queue", "request_sequence"], unique=False
    )
    op.drop_index("outbox_outcomes_by_outcome", table_name="outbox_outcomes")
    op.execute(
        "UPDATE outbox SET state = 4 WHERE state = 3 AND (request_id IN"
        f" (SELECT {field('request_bytes', 'requeues')} FROM outbox WHERE {names_requeued()})"
        " OR EXISTS (SELECT 1 FROM receipts"
        r" WHERE receipt_id = 'receipt:' || outbox.request_id || '\:dismissed'))"
    )
    op.execute(
        "INSERT INTO dead_letters SELECT request_sequence, queue,"
        f" COALESCE({signature()}, ''), state - 3 FROM outbox WHERE state IN (3, 4)"
    )


def field(column: str, name: str) -> str:
    """Return the expression for a field of a document."""
    if op.get_context().dialect.name == "sqlite":
        return f"json_extract(CAST({column} AS TEXT), '$.{name}')"
    return f"(convert_from({column}, 'UTF8')::json ->> '{name}')"


def names_requeued() -> str:
    """Return the condition under which a request may name one that it asks for anew."""
    if op.get_context().dialect.name == "sqlite":
        return """instr(request_bytes, CAST('"requeues":' AS BLOB)) > 0"""
    return """position('"requeues":'::bytea IN request_bytes) > 0"""


def signature() -> str:
    """Return the expression for why a request was given up."""
    reason, why = field("receipt_bytes", "reason"), field("receipt_bytes", "error_signature")
    code, request_id = (
        field("receipt_bytes", "error_code"),
        field("receipt_bytes", "request_id"),
    )
    by_name = "(SELECT {} FROM receipts WHERE receipt_id = 'receipt:' || outbox.request_id || {})"
    closed, given_up = r"'\:closed'", r"'\:dead_letter'"
    return (
        f"{by_name.format(reason, closed)}, {by_name.format(why, given_up)},"
        f" (SELECT {code} FROM receipts WHERE operation_id = (SELECT operation_id FROM"
        " outbox_outcomes WHERE outbox_outcomes.request_id = outbox.request_id)"
        " AND receipt_kind = 'external_effect_failed'"
        f" AND {request_id} = outbox.request_id)"
    )


def downgrade() -> None:
    """Refuse."""
    raise NotImplementedError("the ledger's schema goes forward only")
