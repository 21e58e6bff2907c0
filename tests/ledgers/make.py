"""Writes the ledger of today's rules that `test_rules_versions.py` verifies: `make ledger`.

    python -m tests.ledgers.make

It holds an operation of every kind and verb, one of a principal, refusals, conflicts, work, models'
answers, a log of version 1.5 and belief sessions, by a clock and a randomness that repeat. While
nothing was released
it is written anew whenever the rules of version 1 change. The ledger of a released version is what
installations have: it is never written again, and a new version gets a file of its own.
"""

import lzma
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.model.rules_version import RULES_VERSION
from kernel.rollback.execute import rollback_operation
from kernel.transaction.kernel import Kernel
from tests.kernel.build import FakeHost, adapt, create, submit
from tests.kernel.honest import write_honestly
from tests.kernel.lites import lite, migrated

FOLDER = Path(__file__).parent
PAGE_BYTES = 512
"""Most of the many tables hold little: small pages, small file."""


def file_of(version: int) -> Path:
    """Return where the ledger of a version lies."""
    return FOLDER / f"rules_{version}.sqlite.xz"


def write(path: Path) -> None:
    """Write the ledger of today's rules into a new database."""
    host = FakeHost()
    with closing(Ledger.create(SqliteStore(path), host.host)) as ledger:
        write_honestly(ledger, host)
        whole = lite(create("of-1.5", "Note", text="taken from version 1.5"))
        held = lite(create("held", "Note")) | {"primitive_effects": []}
        migrated(ledger, whole, held)
        bring_back_both(ledger)
        submit(ledger, create("brought", "Note"), principal="service:shop")


def bring_back_both(ledger: Ledger) -> None:
    """Undo two writes of a node in turn, and bring both back."""
    submit(ledger, create("brought-back", "Note"))
    undoings = []
    for fields in ({"first": 1}, {"second": 2}):
        document = adapt("brought-back", **fields)
        submit(ledger, document)
        undoings.append(undo(ledger, document["operation_id"]))
    for undoing in undoings:
        undo(ledger, undoing)


def undo(ledger: Ledger, operation_id: str) -> str:
    """Undo an operation and return the id of its undoing."""
    with ledger.transaction() as transaction:
        return rollback_operation(Kernel(), transaction, operation_id).submission.operation_id


def main() -> None:
    """Write the file of the newest version."""
    with tempfile.TemporaryDirectory() as folder:
        path, small = Path(folder) / "ledger.db", Path(folder) / "small.db"
        write(path)
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA journal_mode = DELETE")
            database.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            database.execute("VACUUM INTO ?", (str(small),))
        target = file_of(RULES_VERSION)
        target.write_bytes(lzma.compress(small.read_bytes(), preset=9 | lzma.PRESET_EXTREME))
    sys.stdout.write(f"{target.name}: {target.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()
