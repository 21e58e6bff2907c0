"""Opens the record for a command: to read beside others, or to write while nothing else runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import click

from kernel.ledger.ledger import Ledger, LedgerView
from workers.cli.common import clean_errors, read_settings
from workers.environment.data_folder import DataFolder
from workers.environment.ledger_access import ledger_place, open_record, open_store
from workers.environment.settings import Settings
from workers.environment.system_host import system_host

T = TypeVar("T")


def read_record(data_dir: Path | None, question: Callable[[LedgerView], T]) -> T:
    """Ask one snapshot of the record that the settings name, and return the answer."""
    place = ledger_place(read_settings(data_dir))
    with clean_errors(), open_record(place) as view:
        return question(view)


@contextmanager
def locked_ledger(settings: Settings) -> Iterator[Ledger]:
    """Open the ledger that the settings name to write, under the lock of their folder."""
    place = ledger_place(settings)
    if isinstance(place, Path) and not place.exists():
        raise click.ClickException(f"ledger_unavailable: no ledger at {place}")
    with clean_errors(), DataFolder(settings.data_dir).locked():
        ledger = Ledger(open_store(place), system_host())
        try:
            yield ledger
        finally:
            ledger.close()
