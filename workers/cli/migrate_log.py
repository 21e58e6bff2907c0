"""Runs `rotulus migrate-log`: take a log of version 1.5 onto the ledger, and migrate it."""

import sys
from pathlib import Path
from typing import Any

import click

from kernel.ledger.ledger import Ledger
from kernel.migration.job import LogMigration, migrate
from kernel.migration.lite_log import LiteLogInvalid, Taken, take_log
from kernel.migration.review_items import discard
from kernel.model.result import RejectedResult
from kernel.transaction.kernel import Kernel
from kernel.values.errors import KernelError
from workers.cli.common import as_json, clean_errors, command_error, print_document, read_settings
from workers.cli.places import with_places
from workers.environment.data_folder import DataFolder
from workers.environment.ledger_access import ledger_place, open_or_create_ledger
from workers.environment.output import say
from workers.environment.system_host import system_host
from workers.environment.terminal_progress import Progress


@click.command("migrate-log")
@click.argument("log", type=click.Path(path_type=Path, exists=True, dir_okay=False), required=False)
@click.option(
    "--discard",
    "discarded",
    multiple=True,
    metavar="RECEIPT",
    help="Settle a held operation without doing it; its receipt, from `audit migration-reviews`.",
)
@click.option("--reason", help="Why it is discarded; kept on the record.")
@as_json
def migrate_log(
    log: Path | None,
    discarded: tuple[str, ...],
    reason: str | None,
    *,
    as_json: bool,
) -> None:
    """Take a log of version 1.5 onto the ledger and supersede what can be superseded.

    LOG holds one lite envelope a line; without it, what was taken before is migrated on. Killed in
    the middle, the same command goes on. Nothing else may run on the ledger. Ends with 1 while
    anything is held or left: supply what is missing by an operation that names the receipt in
    `adjudicates_receipt_ids`, or discard it, and run the command again.
    """
    if bool(discarded) != bool(reason):
        raise click.UsageError("--discard and --reason go together")
    settings = read_settings()
    kernel = Kernel(idempotency_window_hours=settings.kernel_idempotency_window_hours)
    with clean_errors(), DataFolder(settings.data_dir).lock():
        ledger = open_or_create_ledger(ledger_place(settings), system_host())
        try:
            taken = _take(ledger, log)
            for receipt_id in discarded:
                _discard(kernel, ledger, receipt_id, str(reason))
            with Progress("migrate") as progress:
                migration = migrate(kernel, ledger, lambda rows: progress.show(f"{rows} lite rows"))
        finally:
            ledger.close()
    print_document(_document(taken, migration), as_json=as_json)
    if not migration.complete:
        say(with_places("not complete: see `rotulus audit migration-reviews`"))
    sys.exit(0 if migration.complete else 1)


def _take(ledger: Ledger, log: Path | None) -> Taken:
    if log is None:
        return Taken(0, 0)
    with log.open("rb") as file, Progress("take") as progress:
        try:
            return take_log(ledger, file, lambda lines: progress.show(f"{lines} lines"))
        except LiteLogInvalid as refused:
            raise command_error(refused.code, f"{refused} ({log})") from None


def _discard(kernel: Kernel, ledger: Ledger, receipt_id: str, reason: str) -> None:
    with ledger.transaction() as transaction:
        result = discard(kernel, transaction, receipt_id, reason)
    if isinstance(result, RejectedResult):
        raise KernelError(result.rejection.message, code=result.rejection.reason_code)


def _document(taken: Taken, migration: LogMigration) -> dict[str, Any]:
    names = ("migrated", "superseded", "settled", "held", "waiting", "left", "complete")
    stopped = migration.stopped_by
    return {
        "taken": taken.taken,
        "on_record_before": taken.on_record,
        **{name: getattr(migration, name) for name in names},
        "stopped_by": None if stopped is None else f"{stopped.reason_code}: {stopped.message}",
    }
