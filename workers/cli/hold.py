"""Runs `rotulus hold`: legal holds, against which nothing is erased (P6)."""

from urllib.parse import quote

import click

from workers.cli.common import as_json, gateway_url, pass_settings, print_document
from workers.cli.erase import authority, reason
from workers.cli.gateway_call import ask_gateway
from workers.cli.question_commands import Columns, as_rows, of_gateway, question_command
from workers.environment.settings import Settings
from workers.questions.operators import ListLegalHolds


@click.group()
def hold() -> None:
    """Set, lift and list legal holds; what is held is neither erased nor collected."""


_HOLDS: Columns = {
    "hold": "hold_id",
    "holds": "subject_kind",
    "which": "subject_id",
    "since": "set_at",
    "authority": "authority",
    "reason": "reason",
}

hold.add_command(question_command(ListLegalHolds, "list", as_rows("holds", _HOLDS), of_gateway))


@hold.command("set")
@click.argument("hold_id")
@click.option("--thoughts", "session_id", help="Hold the contents of a session of thoughts.")
@click.option("--payload", "commitment", help="Hold the payload of a commitment.")
@click.option("--everything", is_flag=True, help="Hold all payloads of the ledger.")
@reason
@authority
@as_json
@pass_settings
def set_hold(
    settings: Settings,
    hold_id: str,
    session_id: str | None,
    commitment: str | None,
    reason: str,
    authority: str,
    *,
    everything: bool,
    as_json: bool,
) -> None:
    """Set the hold HOLD_ID on the record."""
    subjects = [("thought_session", session_id), ("payload", commitment)]
    subjects += [("ledger", "" if everything else None)]
    named = [(kind, subject_id) for kind, subject_id in subjects if subject_id is not None]
    if len(named) != 1:
        raise click.UsageError("name --thoughts, or --payload, or --everything")
    [(kind, subject_id)] = named
    body = {"hold_id": hold_id, "subject_kind": kind, "subject_id": subject_id}
    body |= {"reason": reason, "authority": authority}
    answer = ask_gateway(gateway_url(settings), "/v1/legal-holds", body)
    print_document(answer, as_json=as_json)


@hold.command()
@click.argument("hold_id")
@reason
@authority
@as_json
@pass_settings
def lift(settings: Settings, hold_id: str, reason: str, authority: str, *, as_json: bool) -> None:
    """Lift the hold HOLD_ID, on the record."""
    path = f"/v1/legal-holds/{quote(hold_id, safe='')}/lift"
    body = {"reason": reason, "authority": authority}
    print_document(ask_gateway(gateway_url(settings), path, body), as_json=as_json)
