"""A revision that only tests know: what the next release could bring to a ledger that exists.

It has one of everything: a column that is filled from what is there, a table of history, an index,
and a rule of the append-only log that becomes wider, for which SQLite builds the table anew.
"""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from kernel.ledger import migrations, schema
from kernel.ledger.sqlite import catalog as sqlite_catalog
from kernel.ledger.sqlite import schema as sqlite_schema

LATER = schema.SCHEMA_VERSION + 1

_TEXT = '''"""Reviews."""

import sqlalchemy as sa
from alembic import op

revision = "{later:04}"
programs_from = "{later:04}"
down_revision = "{before:04}"

INTEGER = sa.Integer().with_variant(sa.BigInteger(), "postgresql")
TEXT = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade():
    op.add_column("nodes", sa.Column("reviewed_by", TEXT))
    op.execute("UPDATE nodes SET reviewed_by = 'after ' || node_kind || ', 100%'")
    op.create_index("nodes_by_reviewer", "nodes", ["reviewed_by"])
    op.create_table("reviews", sa.Column("review_id", TEXT, primary_key=True))
    refuse_change("reviews")
    if op.get_context().dialect.name == "sqlite":
        op.create_table(
            "kernel_event_log_new",
            sa.Column("ec_sequence_number", INTEGER, primary_key=True),
            sa.Column("operation_id", TEXT, nullable=False),
            sa.Column("supersedes_sequence", INTEGER, nullable=False),
            sa.UniqueConstraint("operation_id", "supersedes_sequence"),
            sa.Column("prior_row_hash", TEXT, nullable=False, unique=True),
            sa.Column("row_hash", TEXT, nullable=False),
            sa.Column("rules_version", INTEGER, nullable=False),
            sa.Column("row_bytes", sa.LargeBinary(), nullable=False),
            sa.Column("envelope_payload_blob_ref", TEXT, nullable=False),
            sa.Column("semantic_intent", TEXT, nullable=False),
            sa.Column("session_id", TEXT),
            sa.Column("commit_epoch_id", TEXT),
            sa.Column("committed_at", TEXT, nullable=False),
            sa.CheckConstraint("rules_version >= 0"),
        )
        op.execute("INSERT INTO kernel_event_log_new SELECT * FROM kernel_event_log")
        op.drop_table("kernel_event_log")
        op.rename_table("kernel_event_log_new", "kernel_event_log")
        for name, column in (("session", "session_id"), ("intent", "semantic_intent")):
            columns = [column, "ec_sequence_number"]
            op.create_index(f"kernel_event_log_by_{{name}}", "kernel_event_log", columns)
        for name, columns in (("epoch", []), ("epoch_intent", ["semantic_intent"])):
            op.create_index(
                f"kernel_event_log_by_{{name}}",
                "kernel_event_log",
                ["commit_epoch_id", *columns, "ec_sequence_number"],
                sqlite_where=sa.text("commit_epoch_id IS NOT NULL"),
            )
        for guard in {guards!r}:
            op.execute(guard)
    else:
        op.drop_constraint("kernel_event_log_rules_version_check", "kernel_event_log")
        op.create_check_constraint(
            "kernel_event_log_rules_version_check", "kernel_event_log", "rules_version >= 0"
        )


def downgrade():
    raise NotImplementedError("the ledger's schema goes forward only")


{helper}'''


_EXPANDING = '''"""Labels."""

import sqlalchemy as sa
from alembic import op

revision = "{later:04}"
programs_from = "{before:04}"
down_revision = "{before:04}"

TEXT = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade():
    op.add_column("nodes", sa.Column("label", TEXT))
    op.create_index("nodes_by_label", "nodes", ["label"])
    op.create_table("labels", sa.Column("label", TEXT, primary_key=True))


def downgrade():
    raise NotImplementedError("the ledger's schema goes forward only")
'''


def write_expanding_revision(folder: Path) -> Path:
    """Write every revision and a later one, after which this program goes on, into a folder."""
    shutil.copytree(
        migrations.FOLDER / "versions", folder, ignore=shutil.ignore_patterns("__pycache__")
    )
    text = _EXPANDING.format(later=LATER, before=LATER - 1)
    (folder / f"v{LATER:04}_labels.py").write_text(text)
    return folder


def become_later(patch):
    """Let this program make the later tables, and work on no others."""
    for name in ("SCHEMA_VERSION", "PROGRAMS_FROM", "TABLES_FROM"):
        patch.setattr(schema, name, LATER)


def write_later_revision(folder: Path) -> Path:
    """Write every revision and the later one into a folder."""
    shutil.copytree(migrations.VERSIONS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    texts = [Path(script.path).read_text() for script in migrations.scripts()]
    newest = next(text for text in reversed(texts) if "def refuse_change" in text)
    helper = newest[newest.index("def refuse_change") :]
    guards = [sql for sql in sqlite_schema.definitions() if " kernel_event_log_refuses_" in sql]
    text = _TEXT.format(later=LATER, before=schema.SCHEMA_VERSION, helper=helper, guards=guards)
    (folder / f"v{LATER:04}_reviews.py").write_text(text)
    return folder


def _statements(database):
    return [
        statement
        for step in migrations.revisions_after(0, database)
        for statement in step.statements
    ]


def later_facts_of_sqlite():
    """Return the facts of a file that all revisions made."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for statement in _statements("sqlite"):
            connection.execute(statement)
        return frozenset(sqlite_catalog.stored_facts(connection))


def later_facts_of_postgres(postgres):
    """Return the facts of a database that all revisions made."""
    import psycopg  # noqa: PLC0415 - where there is a server there is the driver

    from kernel.ledger.postgres import catalog as postgres_catalog  # noqa: PLC0415 - needs the driver

    url = postgres.new_database()
    with psycopg.connect(url) as connection:
        for statement in _statements("postgresql"):
            connection.execute(statement)
        facts = postgres_catalog.stored_facts(
            lambda sql, values: connection.execute(sql, values).fetchall()
        )
        connection.rollback()
    postgres.drop(url)
    return frozenset(facts)
