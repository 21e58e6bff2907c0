"""Reads the record for a command; no other process needs to run."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from kernel.ledger.ledger import LedgerView
from workers.cli.common import clean_errors, read_settings
from workers.environment.ledger_access import ledger_place, open_record

T = TypeVar("T")


def read_record(data_dir: Path | None, question: Callable[[LedgerView], T]) -> T:
    """Ask one snapshot of the record that the settings name, and return the answer."""
    place = ledger_place(read_settings(data_dir))
    with clean_errors(), open_record(place) as view:
        return question(view)
