"""Says which tables this program works on, and refuses others.

Tables state two numbers: their version, and the oldest program that works on them, by the version
of its own tables. A step that only adds what nobody has to fill (a table, a column that may be
empty, an index) leaves the programs before it at work, so that a fleet is brought to a release
process by process; a step that takes something away follows once no process needs it (decision
kernel/0710). A program states the oldest tables on which it works itself.

Tables that do not fit raise `LedgerSchemaDiffers`, which is no `LedgerUnavailable`: trying again
does not help, and the process ends. The version is asked for at opening and by each writing
transaction (PostgreSQL returns it with the lock of the head), so an earlier program that still runs
while the tables go forward beyond it is refused before it writes. Readers ask at opening only: what
they compute enters the record through a writer.
"""

from dataclasses import dataclass

from kernel.ledger import schema
from kernel.values.errors import LedgerSchemaDiffers

_DISTANCE_UNIT = 1 << 16


@dataclass(frozen=True, slots=True)
class TablesVersion:
    """The version of tables, and the oldest program that works on them."""

    version: int
    programs_from: int

    @property
    def is_own(self) -> bool:
        """Whether these are the tables that this program makes."""
        return self.version == schema.SCHEMA_VERSION

    @property
    def number(self) -> int:
        """Both in one number, which is the version where no earlier program works on them."""
        return self.version + _DISTANCE_UNIT * (self.version - self.programs_from)


def own_version() -> TablesVersion:
    """Return what the tables state that this program makes."""
    return TablesVersion(schema.SCHEMA_VERSION, schema.PROGRAMS_FROM)


def version_of(number: int) -> TablesVersion:
    """Return what a number of `TablesVersion.number` says; one below zero is no version."""
    if number < 0:
        return TablesVersion(-1, -1)
    distance, version = divmod(number, _DISTANCE_UNIT)
    return TablesVersion(version, version - distance)


def expected_version() -> int:
    """Return the version of the tables that this program makes."""
    return schema.SCHEMA_VERSION


def check_version(tables: TablesVersion, place: str) -> None:
    """Refuse tables on which this program does not work.

    Raises:
        LedgerSchemaDiffers: says which versions, and what to do.
    """
    own, version = schema.SCHEMA_VERSION, tables.version
    if version == own:
        return
    if version <= 0:
        raise LedgerSchemaDiffers(f"{place} has tables, but none that a ledger's program made")
    difference = f"{place} has schema version {version}, this program makes {own}"
    if version < own:
        if version >= schema.TABLES_FROM:
            return
        raise LedgerSchemaDiffers(
            f"{difference}: stop what runs on it, unless --plan says that it goes on, then"
            " `rotulus migrate`",
            code="ledger_schema_older",
        )
    if tables.programs_from <= own:
        return
    raise LedgerSchemaDiffers(
        f"{difference}, and it needs {tables.programs_from}: use a newer program",
        code="ledger_schema_newer",
    )


def check_own(tables: TablesVersion, place: str) -> None:
    """Refuse tables that are not those which this program makes, for who takes all of them.

    Raises:
        LedgerSchemaDiffers: likewise; what another release has added would be left out.
    """
    check_version(tables, place)
    if not tables.is_own:
        is_later = tables.version > schema.SCHEMA_VERSION
        raise LedgerSchemaDiffers(
            f"{place} has schema version {tables.version}, and this takes the whole of it: use the"
            " release that makes this version",
            code="ledger_schema_newer" if is_later else "ledger_schema_older",
        )
