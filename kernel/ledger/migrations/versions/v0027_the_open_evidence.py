"""Which evidence waits to be confirmed or rejected, from its record."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"

INTEGER = sa.Integer().with_variant(sa.BigInteger(), "postgresql")
TEXT = sa.String().with_variant(sa.String(collation="C"), "postgresql")

OPEN = {"filing_relationships": "candidate", "court_disposition_observations": "observed"}


def upgrade() -> None:
    """Go this step."""
    state, stated = {
        "sqlite": (
            "json_extract(CAST(record AS TEXT), '$.state')",
            "json_extract(CAST(record AS TEXT), '$.payload.lifecycle_state')",
        ),
        "postgresql": (
            "CAST(convert_from(record, 'UTF8') AS json) #>> '{state}'",
            "CAST(convert_from(record, 'UTF8') AS json) #>> '{payload,lifecycle_state}'",
        ),
    }[op.get_context().dialect.name]
    for table, open_state in OPEN.items():
        op.add_column(table, sa.Column("is_open", INTEGER, nullable=True))
        op.execute(
            f"UPDATE {table} SET is_open = 1"  # noqa: S608 - our names
            f" WHERE {state} = 'active' AND {stated} = '{open_state}'"
        )
    op.create_index(
        "court_disposition_observations_open",
        "court_disposition_observations",
        ["is_open", "observation_id"],
        unique=False,
        sqlite_where=sa.text("is_open IS NOT NULL"),
        postgresql_where=sa.text("is_open IS NOT NULL"),
    )
    op.create_index(
        "filing_relationships_open",
        "filing_relationships",
        ["is_open", "filing_relationship_id"],
        unique=False,
        sqlite_where=sa.text("is_open IS NOT NULL"),
        postgresql_where=sa.text("is_open IS NOT NULL"),
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
