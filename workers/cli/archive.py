"""`rotulus archive`: old rows of the log, and where they lie."""

import re
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import click

from kernel.log_archival import archive_status
from kernel.verify.archive import verify_archive
from workers.cli.common import as_json, clean_errors, gateway_url, print_document, read_settings
from workers.cli.gateway_call import ask_gateway
from workers.cli.reading import locked_ledger, read_record
from workers.environment.data_folder import DataFolder
from workers.environment.settings import Settings
from workers.environment.terminal_progress import Progress
from workers.use_cases.log_archiving import US_PER_DAY, archive_steps, give_space_back


@click.group()
def archive() -> None:
    """Move old rows of the log out of the database, and look after them there."""


class Age(click.ParamType[int]):
    """A number of days, such as 90d."""

    name = "days"

    def convert(
        self, value: str | int, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return the days."""
        days = value if isinstance(value, int) else re.fullmatch(r"(\d{1,5})d", value)
        if days is None:
            self.fail(f"{value} is not like 90d", param, ctx)
        return days if isinstance(days, int) else int(days[1])


@archive.command()
@as_json
def status(*, as_json: bool) -> None:
    """Say how many rows lie in the archive, in how many bytes, and what is due."""
    days = read_settings().kernel_retention_days
    known = read_record(archive_status)
    print_document({"retention_days": days, **asdict(known)}, as_json=as_json)


@archive.command()
@click.option(
    "--older-than",
    "days",
    type=Age(),
    help="Move rows older than so many days, such as 90d.  [ROTULUS_KERNEL_RETENTION_DAYS]",
)
@as_json
def run(days: int | None, *, as_json: bool) -> None:
    """Move old rows to the archive, collect envelopes whose grace is over, give the space back.

    A gateway that runs on the data folder does it, and goes on serving meanwhile; it archives by
    itself once ROTULUS_KERNEL_RETENTION_DAYS is set. Killed in the middle, the same command goes
    on.
    """
    settings = read_settings()
    days = settings.kernel_retention_days if days is None else days
    if days is None:
        raise click.UsageError("--older-than, or set ROTULUS_KERNEL_RETENTION_DAYS")
    with clean_errors(), Progress("archive") as progress:
        is_served = DataFolder(settings.data_dir).in_use()
        steps = _served_steps(settings, days) if is_served else _own_steps(settings, days)
        moved = collected = 0
        for rows_moved, envelopes_collected in steps:
            moved += rows_moved
            collected += envelopes_collected
            progress.show(f"{moved} rows moved, {collected} envelopes collected")
    print_document({"rows_moved": moved, "envelopes_collected": collected}, as_json=as_json)


def _served_steps(settings: Settings, days: int) -> Iterator[tuple[int, int]]:
    """Let the gateway take steps, a few in each call (decision workers/0261)."""
    url, is_complete = gateway_url(settings), False
    while not is_complete:
        done = ask_gateway(url, "/v1/archive/runs", {"older_than_days": days})
        is_complete = done["is_complete"]
        yield done["rows_moved"], done["envelopes_collected"]


def _own_steps(settings: Settings, days: int) -> Iterator[tuple[int, int]]:
    """Take steps where nothing else runs on the data folder."""
    with locked_ledger(settings) as ledger:
        for step in archive_steps(ledger, ledger.host.now_us() - days * US_PER_DAY):
            yield step.rows_moved, step.envelopes_collected
        for _ in give_space_back(ledger):
            yield 0, 0


@archive.command()
@as_json
def verify(*, as_json: bool) -> None:
    """Read every segment from the archive and hold it to what the ledger knows of it.

    `rotulus verify` does this too, and then verifies the rows in the segments with all others. Ends
    with 1 on any finding.
    """
    with Progress("archive") as progress:
        checked = read_record(
            lambda view: verify_archive(view, lambda rows: progress.show(f"{rows} rows")),
        )
    document: dict[str, Any] = {
        "verifies": not checked.findings,
        "segments": checked.segments,
        "rows_archived": checked.rows,
        "files_of_no_segment": checked.files_of_no_segment,
        "findings": [asdict(finding) for finding in checked.findings],
    }
    print_document(document, as_json=as_json)
    sys.exit(1 if checked.findings else 0)
