"""Writes revisions of the ledger's schema from what `kernel/ledger/schema.py` says now.

    python -m tests.revisions baseline         # while nothing was released: the one revision, anew
    python -m tests.revisions revision NAME    # a further revision: the difference to the newest

Both count `SCHEMA_VERSION` up, so that ledgers of the tables before are not taken for new ones.
What Alembic does not see (checks, triggers of tables that were there) is for its author to add;
`tests/contract/test_migrations.py` compares everything.
"""

import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

from alembic.autogenerate import produce_migrations, render_python_code
from alembic.operations.ops import CreateTableOp
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Integer, MetaData, String, Table, create_engine
from sqlalchemy.pool import StaticPool

from kernel.ledger import schema
from kernel.ledger.migrations import FOLDER, VERSIONS, revisions_after, scripts
from kernel.ledger.postgres import schema as postgres_schema
from kernel.ledger.sqlite import schema as sqlite_schema

SCHEMA = Path(schema.__file__)
BASELINE = "Baseline: the tables of the first release"
REFUSAL = (
    'if op.get_context().dialect.name == "postgresql":\n'
    "    op.execute(\n"
    '        "CREATE FUNCTION rotulus_refuses() RETURNS trigger LANGUAGE plpgsql"\n'
    "        \" AS $$ BEGIN RAISE EXCEPTION 'append only'; END $$\"\n"
    "    )"
)


def differences(statements: tuple[str, ...]) -> Any:
    """Return Alembic's operations from what the statements make to what the schema says."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)
        engine = create_engine("sqlite://", creator=lambda: connection, poolclass=StaticPool)
        with engine.connect() as living:
            context = MigrationContext.configure(living, opts={"compare_type": True})
            return produce_migrations(context, _plain_tables()).upgrade_ops


def upgrade_text(statements: tuple[str, ...]) -> str:
    """Return the body of a revision's `upgrade`, empty where there is nothing to do."""
    upgrade = differences(statements)
    made = {
        operation.table_name for operation in upgrade.ops if isinstance(operation, CreateTableOp)
    }
    lines = render_python_code(upgrade, render_item=_rendered).splitlines()
    text = dedent("\n".join(line for line in lines if not line.strip().startswith("#"))).strip()
    if text == "pass":
        return ""
    history = [table for table in schema.APPEND_ONLY_TABLES if table.name in made]
    guards = [
        _guard_until_moved(table) if "moves_to" in table.info else f'refuse_change("{table.name}")'
        for table in history
    ]
    return "\n".join([text, *guards])


def _guard_until_moved(table: Table) -> str:
    """Return the lines that keep a table's rows until they have moved to another table."""
    row = next(sql for sql in postgres_schema.definitions() if f"{table.name}_refuses_row" in sql)
    function = f"CREATE FUNCTION {row.rpartition('FUNCTION ')[2]} "
    databases = {"sqlite": sqlite_schema.definitions(), "postgresql": postgres_schema.definitions()}
    lines = []
    for dialect, definitions in databases.items():
        triggers = [sql for sql in definitions if f" {table.name}_refuses_" in sql]
        functions = [sql for sql in definitions if sql.startswith(function)]
        lines.append(f'if op.get_context().dialect.name == "{dialect}":')
        lines += [f"    op.execute({sql!r})" for sql in (*functions, *triggers)]
    return "\n".join(lines)


def write_baseline() -> str:
    """Write the one revision anew, under the next number, and return what was done."""
    known = scripts()
    if len(known) > 1:
        return "a revision follows the baseline, so it stays; `make revision NAME=...` adds one"
    text = f"{REFUSAL}\n{upgrade_text(())}"
    version = schema.SCHEMA_VERSION
    for script in known:
        kept = Path(script.path).read_text()
        Path(script.path).unlink()
        if _write(version, BASELINE, text) == kept:
            return "the baseline makes the schema as it is"
        _file_of(version).unlink()
        version += 1
    _write(version, BASELINE, text)
    _count_up(version)
    return f"the baseline is now revision {version}"


def write_revision(name: str) -> str:
    """Write a further revision and return what was done."""
    known = sum((revision.statements for revision in revisions_after(0, "sqlite")), ())
    version = schema.SCHEMA_VERSION + 1
    _write(version, name, upgrade_text(known) or "pass  # what Alembic does not see")
    _count_up(version)
    return f"revision {version}: look at it, and add what Alembic does not see"


def _write(version: int, message: str, text: str) -> str:
    file = _file_of(version, message)
    directory = ScriptDirectory(
        FOLDER,
        file_template=file.stem,
        version_locations=[VERSIONS],
        messaging_opts={"quiet": True},
    )
    directory.generate_revision(f"{version:04}", message, upgrades=indent(text, "    ").strip())
    subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", file], check=True)
    return file.read_text()


def _file_of(version: int, message: str = BASELINE) -> Path:
    slug = "_".join(re.findall(r"\w+", message.partition(":")[0].lower()))
    return VERSIONS / f"v{version:04}_{slug}.py"


def _count_up(version: int) -> None:
    text = SCHEMA.read_text()
    numbers = r"(?m)^(SCHEMA_VERSION|PROGRAMS_FROM|TABLES_FROM) = \d+$"
    SCHEMA.write_text(re.sub(numbers, rf"\1 = {version}", text))


def _plain_tables() -> MetaData:
    copy = MetaData()
    for table in schema.metadata.sorted_tables:
        copied = table.to_metadata(copy)
        copied.info = {}
        for column in copied.primary_key.columns:
            if isinstance(column.type, Integer):
                column.autoincrement = False
    return copy


def _rendered(kind: str, item: Any, _context: Any) -> Any:
    if kind == "type":
        for sort, name in ((Integer, "INTEGER"), (String, "TEXT")):
            if isinstance(item, sort):
                return name
    return False


if __name__ == "__main__":
    done = write_baseline() if sys.argv[1] == "baseline" else write_revision(sys.argv[2])
    sys.stdout.write(f"{done}\n")
