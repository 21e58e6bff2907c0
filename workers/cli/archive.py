"""Runs `rotulus archive`: old rows of the log, and where they lie."""

import re
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import click

from kernel.retention.log_archival import archive_status
from kernel.retention.thought_contents import count_archived_rounds
from kernel.retention.thought_records import cold_status
from kernel.verify.archive import verify_archive
from kernel.verify.reading import finding_document
from workers.cli.common import as_json, clean_errors, gateway_url, print_document, read_settings
from workers.cli.gateway_call import ask_gateway
from workers.cli.reading import lock_ledger, read_record
from workers.environment.data_folder import DataFolder
from workers.environment.ledger_access import ledger_place, printable_archive
from workers.environment.settings import Settings
from workers.environment.terminal_progress import Progress
from workers.use_cases.log_archiving import archive_steps, give_space_back, retention_policy

_COUNTED = (
    "rows_moved",
    "envelopes_collected",
    "contents_moved",
    "thoughts_moved",
    "operations_released",
    "answers_collected",
)


@click.group()
def archive() -> None:
    """Move what is old out of the database, and look after it there."""


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
    """Say how many rows and rounds lie in the archive, in how many bytes, and what is due."""
    settings = read_settings()
    policy = retention_policy(settings)
    known, rounds, cold = read_record(
        lambda view: (archive_status(view), count_archived_rounds(view), cold_status(view))
    )
    document = {
        "archive": printable_archive(ledger_place(settings)),
        "retention_days": policy.kernel_retention_days,
        "audit_horizon_days": policy.audit_horizon_days,
        "thought_rounds_kept": policy.thought_rounds_kept,
        "thought_rounds_warm": policy.thought_rounds_warm,
        **asdict(known),
        "rounds_archived": rounds,
        **asdict(cold),
    }
    print_document(document, as_json=as_json)


@archive.command()
@click.option(
    "--older-than",
    "days",
    type=Age(),
    help="Move rows older than so many days, such as 90d.  [ROTULUS_KERNEL_RETENTION_DAYS]",
)
@as_json
def run(days: int | None, *, as_json: bool) -> None:
    """Move old rows and contents to the archive, collect envelopes, give the space back.

    Contents of thoughts are old by their rounds (ROTULUS_THOUGHT_ROUNDS_KEPT), and so are their
    records and trees (ROTULUS_THOUGHT_ROUNDS_WARM). Envelopes are collected seven days after their
    rows, answers of retired models seven days after the last operation that names them is archived
    and past the audit's horizon (ROTULUS_AUDIT_HORIZON_DAYS).

    A gateway that runs on the data folder does it, and goes on serving meanwhile; with workers it
    archives by itself, every hour, unless ROTULUS_KERNEL_RETENTION_DAYS is 0. Killed in the middle,
    the same command goes on.
    """
    settings = read_settings()
    with clean_errors(), Progress("archive") as progress:
        is_served = DataFolder(settings.data_dir).in_use()
        steps = _gateway_steps(settings, days) if is_served else _own_steps(settings, days)
        done = dict.fromkeys(_COUNTED, 0)
        for step in steps:
            done = {name: count + step[name] for name, count in done.items()}
            progress.show(", ".join(f"{count} {name}" for name, count in done.items()))
    print_document(done, as_json=as_json)


def _gateway_steps(settings: Settings, days: int | None) -> Iterator[dict[str, int]]:
    """Let the gateway take steps, a few in each call (decision workers/0261)."""
    url, is_complete = gateway_url(settings), False
    while not is_complete:
        done = ask_gateway(url, "/v1/archive/runs", {"older_than_days": days})
        is_complete = done["is_complete"]
        yield done


def _own_steps(settings: Settings, days: int | None) -> Iterator[dict[str, int]]:
    """Take steps where nothing else runs on the data folder."""
    with lock_ledger(settings) as ledger:
        retention = retention_policy(settings).of(ledger, days=days)
        for step in archive_steps(ledger, retention):
            yield {name: getattr(step, name) for name in _COUNTED}
        for _ in give_space_back(ledger):
            yield dict.fromkeys(_COUNTED, 0)


@archive.command()
@as_json
def verify(*, as_json: bool) -> None:
    """Read all of the archive that the ledger knows of, and hold it to that.

    `rotulus verify` reads the segments too, and verifies the rows in them with all others; of the
    contents of thoughts it sees whether they are there. Ends with 1 on any finding.
    """
    with Progress("archive") as progress:
        checked = read_record(
            lambda view: verify_archive(view, lambda rows: progress.show(f"{rows} rows")),
        )
    document: dict[str, Any] = {
        "verifies": not checked.findings,
        "segments": checked.segments,
        "rows_archived": checked.rows,
        "contents_archived": checked.contents,
        "thought_segments": checked.thought_segments,
        "files_of_no_segment": checked.files_of_no_segment,
        "findings": [finding_document(finding) for finding in checked.findings],
    }
    print_document(document, as_json=as_json)
    sys.exit(1 if checked.findings else 0)
