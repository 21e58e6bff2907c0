"""Runs `rotulus quarantine`: rows of the log and other records that were found damaged (§17.5)."""

from collections.abc import Iterator
from urllib.parse import quote

import click

from workers.cli.common import as_json, gateway_url, pass_settings, print_document
from workers.cli.erase import authority, reason
from workers.cli.gateway_call import ask_gateway
from workers.cli.question_commands import Columns, as_rows, question_command
from workers.environment.settings import Settings
from workers.questions.operators import ListQuarantines
from workers.views.quarantines import QuarantineDocument


@click.group()
def quarantine() -> None:
    """List and lift what was found damaged; from rows of the log among it nothing is computed."""


def _record_names(standing: QuarantineDocument) -> Iterator[str]:
    for rows in standing["ranges"]:
        yield f"{rows['first_sequence']}-{rows['last_sequence']}"
    for record in standing["records"]:
        yield f"{record['table']} {record['key']}"


_QUARANTINES: Columns = {
    "quarantine": "quarantine_id",
    "rows": lambda row: ", ".join(_record_names(row)),
    "since": "found_at",
    "found": "finding",
}

quarantine.add_command(
    question_command(ListQuarantines, "list", as_rows("quarantines", _QUARANTINES))
)


@quarantine.command()
@click.argument("quarantine_id")
@reason
@authority
@as_json
@pass_settings
def lift(
    settings: Settings, quarantine_id: str, reason: str, authority: str, *, as_json: bool
) -> None:
    """Lift the quarantine QUARANTINE_ID, on the record; it is read again as it stands."""
    path = f"/v1/quarantines/{quote(quarantine_id, safe='')}/lift"
    body = {"reason": reason, "authority": authority}
    print_document(ask_gateway(gateway_url(settings), path, body), as_json=as_json)
