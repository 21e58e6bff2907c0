"""Opens the record for a command: to read beside others, or to write while nothing else runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import anyio

from kernel.ledger.damage import Damage, damage_of
from kernel.ledger.ledger import Ledger
from kernel.records.access.readable_view import OF_EVERYTHING, ReadableView, readable_view
from kernel.verify.checked_reading import checking_view
from workers.cli.common import clean_errors, command_error, read_settings, running_gateway
from workers.client.typed.damage_reports import report_damage
from workers.client.typed.gateway import GatewayClient
from workers.environment.data_folder import DataFolder
from workers.environment.ledger_access import (
    file_of,
    ledger_place,
    open_ledger,
    open_or_create_ledger,
    open_record,
)
from workers.environment.output import say
from workers.environment.settings import Settings
from workers.environment.system_host import system_host

T = TypeVar("T")


def read_record(question: Callable[[ReadableView], T]) -> T:
    """Ask one snapshot of the record that the settings name, and return the answer."""
    with read_view() as view:
        return question(view)


@contextmanager
def read_view() -> Iterator[ReadableView]:
    """Open a snapshot of the record that the settings name; say where its archive was read."""
    with clean_errors(), open_checked(read_settings()) as view:
        yield view
        if view.archive.reads:
            say("some of this was read from the archive")


@contextmanager
def open_checked(settings: Settings) -> Iterator[ReadableView]:
    """Open a snapshot whose rows are held against themselves, and tell a gateway of damage (L3).

    Whoever may open the ledger's file or database reads everything: its permissions are the guard.

    Raises:
        RowDamaged: inside, of a row that is not what it says of itself.
    """
    try:
        with open_record(ledger_place(settings)) as view:
            yield readable_view(checking_view(view), OF_EVERYTHING)
    except Exception as error:
        damage, url = damage_of(error), running_gateway(settings)
        if damage is not None and url is not None:
            anyio.run(_report, url, damage)
        raise


async def _report(url: str, damage: Damage) -> None:
    async with GatewayClient(url, give_up_after_s=0) as gateway:
        await report_damage(gateway, [damage])


@contextmanager
def lock_ledger(settings: Settings, *, may_be_new: bool = False) -> Iterator[Ledger]:
    """Open the ledger that the settings name to write, under the lock of their folder.

    Where there is none, one is made if it may be new.
    """
    place = ledger_place(settings)
    file = file_of(place)
    if file is not None and not file.exists() and not may_be_new:
        raise command_error("ledger_unavailable", f"no ledger at {file}")
    with clean_errors(), DataFolder(settings.data_dir).lock():
        ledger = open_or_create_ledger(place, system_host()) if may_be_new else open_ledger(place)
        try:
            yield ledger
        finally:
            ledger.close()
