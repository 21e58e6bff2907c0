"""The ledger file as the command line reads it: without the right to write."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kernel.ledger.ledger import Ledger, LedgerView
from kernel.ledger.sqlite import SqliteStore
from kernel.verify import Verification, verify
from workers.host import system_host


@contextmanager
def open_record(path: Path) -> Iterator[LedgerView]:
    """Open a snapshot of a ledger file.

    Raises:
        LedgerUnavailable: when there is no ledger there.
    """
    ledger = Ledger(SqliteStore(path, read_only=True), system_host())
    try:
        with ledger.view() as view:
            yield view
    finally:
        ledger.close()


def verify_file(path: Path, progress: Callable[[int, int], None]) -> Verification:
    """Verify everything in a ledger file, as of now."""
    with open_record(path) as view:
        return verify(view, progress=progress)
