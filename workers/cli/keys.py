"""Runs `rotulus keys`: makes keys, lists, revokes and rotates them."""

from typing import Any
from urllib.parse import quote

import click

from kernel.records.access.records import KEY_DAYS_MAX
from workers.cli.access import CLEARANCE, ROLE, SCOPE, reason
from workers.cli.common import as_json, gateway_url, pass_settings, print_document
from workers.cli.gateway_call import ask_gateway
from workers.cli.question_commands import Columns, as_rows, of_gateway, question_command
from workers.environment.output import echo, say
from workers.environment.settings import Settings
from workers.questions.access import GetAccess

days = click.option(
    "--days",
    type=click.IntRange(1, KEY_DAYS_MAX),
    default=90,
    show_default=True,
    help="How long the key stands.",
)


@click.group()
def keys() -> None:
    """Make the keys by which principals prove who they are; list, revoke and rotate them."""


_KEYS: Columns = {
    "key": "key_id",
    "principal": "principal",
    "created": "created_at",
    "expires": "expires_at",
    "opened by": "opened_by",
}

keys.add_command(question_command(GetAccess, "list", as_rows("keys", _KEYS), of_gateway))


@keys.command()
@click.argument("principal")
@ROLE
@SCOPE
@CLEARANCE
@days
@reason
@as_json
@pass_settings
def create(
    settings: Settings,
    principal: str,
    roles: tuple[str, ...],
    scope: str,
    clearance: str | None,
    days: int,
    reason: str,
    *,
    as_json: bool,
) -> None:
    """Make a key of PRINCIPAL, such as person:ada or service:ci, and print it this once."""
    granted = [{"role": role, "scope": scope, "clearance": clearance} for role in roles]
    body = {"principal": principal, "roles": granted, "days": days, "reason": reason}
    _print_key(ask_gateway(gateway_url(settings), "/v1/access/keys", body), as_json=as_json)


@keys.command()
@click.argument("key_id")
@days
@reason
@as_json
@pass_settings
def rotate(settings: Settings, key_id: str, days: int, reason: str, *, as_json: bool) -> None:
    """Make a key in the place of KEY_ID, which ends at once; print it this once."""
    path = f"/v1/access/keys/{quote(key_id, safe='')}/rotate"
    answer = ask_gateway(gateway_url(settings), path, {"days": days, "reason": reason})
    _print_key(answer, as_json=as_json)


@keys.command()
@click.argument("key_id")
@reason
@as_json
@pass_settings
def revoke(settings: Settings, key_id: str, reason: str, *, as_json: bool) -> None:
    """End KEY_ID, and the logins of browsers that it opened, within five seconds everywhere."""
    path = f"/v1/access/keys/{quote(key_id, safe='')}/revoke"
    answer = ask_gateway(gateway_url(settings), path, {"reason": reason})
    print_document(answer if as_json else {"revoked": len(answer["revoked"])}, as_json=as_json)


def _print_key(made: Any, *, as_json: bool) -> None:
    if as_json:
        print_document(made, as_json=True)
        return
    # Standard output has the key alone, so that a file of it is a key file.
    say(f"{made['principal']}, until {made['expires_at']}; nobody is shown the key again:")
    echo(made["key"])
