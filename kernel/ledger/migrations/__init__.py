"""The ledger's schema through time: numbered revisions, forward only, as SQL for each database.

Alembic orders the revisions and turns their operations into statements, without a connection. So
what a dry run shows is, byte for byte, what the adapters run, all of it in one transaction
(decision kernel/0115). Loading Alembic takes a while, so nothing imports this but what migrates. A
new ledger is made from `schema.py` and not by the revisions; a test holds both equal, fact by fact
as the databases tell them.

Whoever changes `schema.py` (a table, a column, an index) adds the step that leads there; until then
`tests/contract/test_migrations.py` fails and says so:

- while nothing was released: `make baseline` writes the one revision anew, under the next number,
  and the kept ledger with it;
- once a release has the baseline: `make revision NAME="what changed"` writes a further one. The
  baseline never changes again, and the target `baseline` goes.

Both set `SCHEMA_VERSION`. If two branches did so, take either side's revision and number at the
merge, then `make baseline` (or renumber the later revision).

So that a fleet goes from one release to the next without a stop (decision kernel/0710), a change
goes over two releases, and the author of a revision says by two numbers who works on what:

- *expand*: it adds tables, columns that may be empty and indexes that are not unique, and to no
  table whose rows move to the archive a column. Its `programs_from` and `PROGRAMS_FROM` are those
  of the release before, whose processes go on.
- *contract*: a later release no longer has what is to go, and its revision takes it away. It works
  on the tables from before too, which `TABLES_FROM` says; it is migrated once every process is
  of it.

Whatever else a revision does, both numbers are its own, and the fleet stops for it.

Alembic derives tables, columns and indexes. The author of a revision adds what Alembic does not
see, and the tests compare it: checks, unique values and nullability of tables that exist, triggers
of a table that SQLite has to build anew (`create_table`, `INSERT ... SELECT`, `drop_table`,
`rename_table`, indexes, `refuse_change`; `tests/later_revision.py` is an example). A column that
follows from the log and not from SQL is left to `rotulus rollback rebuild`. Rows of history never
change; the triggers hold for revisions too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.dialects import postgresql, sqlite

from kernel.ledger.schema_version import TablesVersion
from kernel.values.errors import LedgerSchemaDiffers

FOLDER = Path(__file__).parent
VERSIONS = FOLDER / "versions"

_DIALECTS: dict[str, Any] = {"sqlite": sqlite, "postgresql": postgresql}


@dataclass(frozen=True, slots=True)
class Revision:
    """One step of the schema from the version before to its own."""

    tables: TablesVersion
    message: str
    statements: tuple[str, ...]

    @property
    def version(self) -> int:
        """The version of the tables after it."""
        return self.tables.version

    @property
    def programs_from(self) -> int:
        """The oldest program that works on those tables."""
        return self.tables.programs_from


@dataclass(frozen=True, slots=True)
class SchemaMigration:
    """The way from a version of the tables to the newest."""

    found_version: int
    revisions: tuple[Revision, ...]


def revisions_after(version: int, database: str) -> tuple[Revision, ...]:
    """Return the steps that lead from a version to the newest; 0 has no tables.

    Raises:
        LedgerSchemaDiffers: when no step leads on from it.
    """
    return tuple(
        Revision(_tables(script), script.doc, _statements(script.module, database))
        for script in scripts()[_position(version) :]
    )


def scripts() -> Sequence[Any]:
    """Return Alembic's scripts, the oldest first."""
    directory = ScriptDirectory(FOLDER, version_locations=[VERSIONS])
    return list(directory.walk_revisions())[::-1]


def _position(version: int) -> int:
    versions = [0, *(int(script.revision) for script in scripts())]
    if version not in versions:
        raise LedgerSchemaDiffers(
            f"schema version {version} is none of the revisions from {versions[1]} to "
            f"{versions[-1]}, and no migration leads on from it"
        )
    return versions.index(version)


def _tables(script: Any) -> TablesVersion:
    return TablesVersion(int(script.revision), int(script.module.programs_from))


def _statements(module: Any, database: str) -> tuple[str, ...]:
    output = _Output()
    # Named marks: others would double each percent sign.
    dialect = _DIALECTS[database].dialect(paramstyle="named")
    options = {"as_sql": True, "output_buffer": output, "literal_binds": True}
    with Operations.context(MigrationContext.configure(dialect=dialect, opts=options)):
        module.upgrade()
    return tuple(output.statements)


class _Output:
    """What Alembic takes for a file; it writes each statement in one go, with its semicolon."""

    def __init__(self) -> None:
        self.statements: list[str] = []

    def write(self, text: str) -> None:
        self.statements.append(text.strip().removesuffix(";"))

    def flush(self) -> None:
        """Nothing is held back."""
