"""Whether this program reads the tables that it found."""

from kernel.errors import LedgerSchemaDiffers
from kernel.ledger import schema


def check_version(version: int, place: str) -> None:
    """Refuse tables of another version.

    Raises:
        LedgerSchemaDiffers: says which versions, and what to do.
    """
    expected = schema.SCHEMA_VERSION
    if version == expected:
        return
    if version <= 0:
        raise LedgerSchemaDiffers(f"{place} has tables, but none that a ledger's program made")
    found = f"{place} has schema version {version}, this program reads {expected}"
    if version < expected:
        raise LedgerSchemaDiffers(
            f"{found}: stop what runs on it, then `rotulus migrate`", code="ledger_schema_older"
        )
    raise LedgerSchemaDiffers(f"{found}: use a newer program", code="ledger_schema_newer")
