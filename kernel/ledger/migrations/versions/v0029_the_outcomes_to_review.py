"""Which outcomes of bindings a person has to look at, from the receipts that say them."""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"

INTEGER = sa.Integer().with_variant(sa.BigInteger(), "postgresql")
TEXT = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    """Go this step."""
    op.create_table(
        "outcomes_to_review",
        sa.Column("receipt_id", TEXT, nullable=False),
        sa.Column("request_sequence", INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("receipt_id"),
        sa.UniqueConstraint("request_sequence"),
    )
    request_id, outcome_state = {
        "sqlite": (
            "json_extract(CAST(receipt_bytes AS TEXT), '$.request_id')",
            "json_extract(CAST(receipt_bytes AS TEXT), '$.result.outcome_state')",
        ),
        "postgresql": (
            "CAST(convert_from(receipt_bytes, 'UTF8') AS json) #>> '{request_id}'",
            "CAST(convert_from(receipt_bytes, 'UTF8') AS json) #>> '{result,outcome_state}'",
        ),
    }[op.get_context().dialect.name]
    op.execute(
        "INSERT INTO outcomes_to_review (receipt_id, request_sequence)"  # noqa: S608 - our names
        " SELECT receipts.receipt_id, outbox.request_sequence"
        f" FROM receipts JOIN outbox ON outbox.request_id = {request_id}"
        " WHERE receipts.receipt_kind = 'work_request_closed' AND receipts.operation_id IS NULL"
        f" AND {outcome_state} = 'user_review_required' AND NOT EXISTS"
        " (SELECT 1 FROM adjudications WHERE adjudications.receipt_id = receipts.receipt_id)"
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
