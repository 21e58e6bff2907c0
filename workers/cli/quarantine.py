"""`rotulus quarantine`: rows of the log and other records that were found damaged (§17.5)."""

from collections.abc import Iterator
from urllib.parse import quote

import click

from workers.cli.common import as_json, gateway_url, pass_settings, print_document, print_table
from workers.cli.erase import authority, reason
from workers.cli.gateway_call import ask_gateway
from workers.cli.reading import read_record
from workers.environment.settings import Settings
from workers.views.quarantines import QuarantineDocument, quarantines_document


@click.group()
def quarantine() -> None:
    """List and lift what was found damaged; from rows of the log among it nothing is computed."""


@quarantine.command("list")
@as_json
def list_quarantines(*, as_json: bool) -> None:
    """List the quarantines that stand; reads the ledger by itself."""
    document = read_record(quarantines_document)
    if as_json:
        print_document(document, as_json=True)
        return
    rows = [
        (each["quarantine_id"], ", ".join(_named(each)), each["found_at"], each["finding"])
        for each in document["quarantines"]
    ]
    print_table(("quarantine", "rows", "since", "found"), rows)


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


def _named(standing: QuarantineDocument) -> Iterator[str]:
    for rows in standing["ranges"]:
        yield f"{rows['first_sequence']}-{rows['last_sequence']}"
    for record in standing["records"]:
        yield f"{record['table']} {record['key']}"
