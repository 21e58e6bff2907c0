"""Verifies the record at a place, and leaves on it what was found."""

from collections.abc import Callable
from contextlib import closing
from functools import partial

from kernel.ledger.sqlite import catalog as sqlite_catalog
from kernel.ledger.sqlite.damage import file_faults
from kernel.ledger.store.catalog import StorageFault
from kernel.values.errors import LedgerCorrupt, LedgerSchemaDiffers, LedgerUnavailable
from kernel.verify import Verification, unreadable, verify
from kernel.verify.expected import ExpectedHead
from kernel.verify.since import KeptTree, verify_since
from kernel.verify.stretches import ROWS_MIN
from kernel.verify.violation import record_violation
from workers.environment.ledger_access import LedgerPlace, file_of, open_ledger, open_record
from workers.environment.verifying_processes import VerifyingProcesses


def verify_file(
    place: LedgerPlace,
    progress: Callable[[int, int], None],
    *,
    expect_head: ExpectedHead | None = None,
    processes: int | None = None,
    rows_min: int = ROWS_MIN,
) -> Verification:
    """Verify everything in a ledger, as of now; a file that cannot be read is a finding too.

    A log of `rows_min` rows or more is walked by further processes while this one folds it: with
    this one as many as `processes`, or as there are processors.

    Raises:
        VerificationProcessDied: when one of them did.
        LedgerUnavailable: when there is no ledger there, or it cannot be reached.
        LedgerSchemaDiffers: when its tables are of another version.
    """
    damage = _damage(place)
    try:
        with (
            open_record(place) as view,
            closing(
                VerifyingProcesses(partial(open_record, place), processes, rows_min)
            ) as helpers,
        ):
            return verify(
                view, progress=progress, expect_head=expect_head, damage=damage, helpers=helpers
            )
    except LedgerCorrupt as error:
        return unreadable(damage or [StorageFault("ledger", "file", "page_damaged", str(error))])
    except (LedgerUnavailable, LedgerSchemaDiffers) as error:
        damage = damage or _version_faults(place, error)
        if not damage:
            raise
        return unreadable(damage)


def verify_file_since(
    place: LedgerPlace,
    kept: KeptTree,
    progress: Callable[[int, int], None],
    *,
    expect_head: ExpectedHead | None = None,
) -> Verification:
    """Verify what a ledger has recorded since a tree head that was kept.

    Raises:
        LedgerUnavailable: when there is no ledger there, or it cannot be reached.
        LedgerSchemaDiffers: when its tables are of another version.
    """
    try:
        with open_record(place) as view:
            return verify_since(view, kept, progress=progress, expect_head=expect_head)
    except LedgerCorrupt as error:
        return unreadable([StorageFault("ledger", "file", "page_damaged", str(error))])


def _damage(place: LedgerPlace) -> list[StorageFault]:
    file = file_of(place)
    if file is None or not file.is_file():
        return []
    try:
        return file_faults(file)
    except OSError as error:
        raise LedgerUnavailable(f"{file}: {error.strerror}") from error


def _version_faults(place: LedgerPlace, error: Exception) -> list[StorageFault]:
    """Name a version that only the header states, beside tables that are this program's."""
    file = file_of(place)
    if file is None or not isinstance(error, LedgerSchemaDiffers):
        return []
    return sqlite_catalog.version_faults(file)


def record_findings(place: LedgerPlace, verification: Verification) -> str | None:
    """Leave a durable receipt of what a verification found, and return its id.

    Raises:
        LedgerUnavailable: when the ledger cannot be written.
    """
    ledger = open_ledger(place)
    try:
        with ledger.transaction() as transaction:
            return record_violation(transaction, verification)
    finally:
        ledger.close()
