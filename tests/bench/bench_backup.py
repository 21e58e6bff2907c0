"""Backing a ledger up and restoring it: how long, and how much is stored anew.

    python -m tests.bench.bench_backup [--json] [--rows 20000] [--new 1000]

The peer of a backup is a copy of the file that is on the disk when it returns. What bounds the loss
is the time of a backup and the pause before it; what bounds the stop is the time of a restore,
which verifies everything.
"""

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from pydantic import SecretStr

from kernel.ledger.ledger import Ledger
from kernel.ledger.postgres.store import PostgresStore
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.tables import Store
from tests.bench.report import figure, machine
from tests.kernel.build import FakeHost, create, submit
from tests.postgres import running_postgres
from workers.environment.settings import Settings
from workers.use_cases.backup.backup import make_backup
from workers.use_cases.backup.cipher import NoCipher
from workers.use_cases.backup.place import BackupPlace
from workers.use_cases.backup.restore import restore_backup

T = TypeVar("T")


def add(ledger: Ledger, begin: int, end: int) -> None:
    """Put operations through the kernel."""
    for number in range(begin, end):
        assert submit(ledger, create(f"n-{number}", "Note")).ec_sequence_number


def timed(call: Callable[[], T]) -> tuple[float, T]:
    """Return the seconds that a call took, and what it returned."""
    began = time.perf_counter()
    answer = call()
    return time.perf_counter() - began, answer


def copy_durably(source: Path, copy: Path) -> None:
    """Copy a file and wait for the disk."""
    shutil.copyfile(source, copy)
    with copy.open("rb") as file:
        os.fsync(file.fileno())


def quiet(text: str) -> None:
    """Show no progress."""
    del text


def measure(
    name: str, store: Store, settings: Settings, target: Settings, rows: int, new: int
) -> None:
    """Print the figures of one store."""
    folder = settings.data_dir.parent
    place = BackupPlace(str(folder / f"{name}-backups"), NoCipher())
    with closing(Ledger.create(store, FakeHost().host)) as ledger:
        add(ledger, 0, rows)
        whole_s, whole = timed(lambda: make_backup(settings, place, quiet))
        copied = folder / "copied.db"
        copied.write_bytes(b"\0" * whole.bytes_total)
        copy_s, _ = timed(lambda: copy_durably(copied, folder / "peer.db"))
        add(ledger, rows, rows + new)
        further_s, further = timed(lambda: make_backup(settings, place, quiet))
    restore_s, findings = timed(lambda: restore_backup(target, place, further.manifest, quiet))
    assert findings == []
    figure(f"{name}: backed up", whole.bytes_total / 1e6, "MB")
    figure(f"{name}: the first backup", whole_s, "s", ratio=whole_s / copy_s, of="a copy")
    figure(f"{name}: the next, after {new} rows", further_s, "s")
    figure(
        f"{name}: stored by the next",
        further.bytes_stored / 1e6,
        "MB",
        ratio=further.bytes_stored / further.bytes_total,
        of="all",
    )
    figure(f"{name}: the restore", restore_s, "s")
    figure(f"{name}: rows restored and verified", (rows + new) / restore_s, "/s")


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--new", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    machine(rows=options.rows, new=options.new)
    with tempfile.TemporaryDirectory() as name, running_postgres() as server:
        data, back = Path(name) / "data", Path(name) / "back"
        data.mkdir(0o700)
        file = Settings(data_dir=data)
        sqlite = SqliteStore(data / "ledger.db")
        measure("sqlite", sqlite, file, Settings(data_dir=back), options.rows, options.new)
        urls = [SecretStr(server.new_database()) for _ in range(2)]
        source, target = (
            Settings(data_dir=Path(name) / f"data-{number}", database_url=url)
            for number, url in enumerate(urls)
        )
        postgres = PostgresStore(urls[0].get_secret_value())
        measure("postgres", postgres, source, target, options.rows, options.new)
        server.drop_all()


if __name__ == "__main__":
    main()
