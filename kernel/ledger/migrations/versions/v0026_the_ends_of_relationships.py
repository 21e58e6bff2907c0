"""The ends of relationships between filings, from their records."""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"

INTEGER = sa.Integer().with_variant(sa.BigInteger(), "postgresql")
TEXT = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    """Go this step."""
    op.add_column("filing_relationships", sa.Column("source_filing_unit_id", TEXT, nullable=True))
    op.add_column("filing_relationships", sa.Column("target_filing_unit_id", TEXT, nullable=True))
    for name in ("source_filing_unit_id", "target_filing_unit_id"):
        stated = {
            "sqlite": f"json_extract(CAST(record AS TEXT), '$.payload.{name}')",
            "postgresql": (f"CAST(convert_from(record, 'UTF8') AS json) #>> '{{payload,{name}}}'"),
        }[op.get_context().dialect.name]
        op.execute(f"UPDATE filing_relationships SET {name} = {stated}")  # noqa: S608 - our names
    op.create_index(
        "filing_relationships_by_source",
        "filing_relationships",
        ["source_filing_unit_id"],
        unique=False,
        sqlite_where=sa.text("source_filing_unit_id IS NOT NULL"),
        postgresql_where=sa.text("source_filing_unit_id IS NOT NULL"),
    )
    op.create_index(
        "filing_relationships_by_target",
        "filing_relationships",
        ["target_filing_unit_id"],
        unique=False,
        sqlite_where=sa.text("target_filing_unit_id IS NOT NULL"),
        postgresql_where=sa.text("target_filing_unit_id IS NOT NULL"),
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
