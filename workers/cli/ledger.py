"""Runs `rotulus ledger`: a ledger that went back, what is lost by it, and going on from it."""

from typing import Any

import click

from workers.cli.common import as_json, gateway_url, pass_settings, print_document, print_table
from workers.cli.erase import authority, reason
from workers.cli.gateway_call import ask_gateway
from workers.cli.places import with_places
from workers.cli.reading import read_record
from workers.environment.output import echo
from workers.environment.settings import Settings
from workers.views.lost_answers import losses_document

LOST_SHOWN_MAX = 1_000_000


@click.group()
def ledger() -> None:
    """Look at a ledger that went back, and go on from the one that is there."""


@ledger.command()
@as_json
def lost(*, as_json: bool) -> None:
    """List what is known to be lost; reads the ledger by itself."""
    document = read_record(lambda view: losses_document(view, after=0, limit=LOST_SHOWN_MAX))
    _print(dict(document), as_json=as_json)


@ledger.command()
@reason
@authority
@as_json
@pass_settings
def accept_head(settings: Settings, reason: str, authority: str, *, as_json: bool) -> None:
    """Go on from the ledger that is there, on the record, and list what is known to be lost.

    Every gateway begins anew from it. Put the right database in its place instead, where there is
    one.
    """
    body = {"reason": reason, "authority": authority}
    answer = ask_gateway(gateway_url(settings), "/v1/ledger/accept-head", body)
    whole = read_record(lambda view: losses_document(view, after=0, limit=LOST_SHOWN_MAX))
    _print({**whole, "changed": answer["changed"]}, as_json=as_json)


def _print(document: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_document(document, as_json=True)
        return
    for finding in document["findings"]:
        known, there = (finding[name]["ec_sequence_number"] for name in ("known", "found"))
        rest = "" if finding["is_all"] else "; what it wrote before that is not remembered"
        which = f"{finding['gateway']} knew {known} rows and found {there}"
        echo(f"{which} at {finding['found_at']}{rest}")
    if not document["findings"]:
        echo("Nobody has found that the ledger went back.")
        return
    rows = [
        (each["kind"], each["name"], each["sequence"], each.get("session_id", ""))
        for each in document["lost"]
    ]
    print_table(("lost", "name", "sequence", "session"), rows)
    if document["stands"]:
        accept = "`rotulus ledger accept-head --reason TEXT --authority NAME`"
        echo(with_places(f"Nobody has accepted it: {accept}"))
