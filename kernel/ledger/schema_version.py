"""Refuses tables that this program cannot read.

Tables of another version raise `LedgerSchemaDiffers`, which is no `LedgerUnavailable`: trying again
does not help, and the process ends. The version is asked for at opening and by each writing
transaction (PostgreSQL returns it with the lock of the head), so an earlier program that still runs
while the tables go forward is refused before it writes. Readers ask at opening only: what they
compute enters the record through a writer.
"""

from kernel.ledger import schema
from kernel.values.errors import LedgerSchemaDiffers


def expected_version() -> int:
    """Return the version of the tables that this program reads and writes."""
    return schema.SCHEMA_VERSION


def check_version(version: int, place: str) -> None:
    """Refuse tables of another version.

    Raises:
        LedgerSchemaDiffers: says which versions, and what to do.
    """
    expected = expected_version()
    if version == expected:
        return
    if version <= 0:
        raise LedgerSchemaDiffers(f"{place} has tables, but none that a ledger's program made")
    difference = f"{place} has schema version {version}, this program reads {expected}"
    if version < expected:
        raise LedgerSchemaDiffers(
            f"{difference}: stop what runs on it, then `rotulus migrate`",
            code="ledger_schema_older",
        )
    raise LedgerSchemaDiffers(f"{difference}: use a newer program", code="ledger_schema_newer")
