"""Runs `rotulus access`: who may do what, now or at a sequence of the record."""

from collections.abc import Mapping
from typing import Any

import click

from kernel.records.access.actions import EVERYTHING, ROLES
from kernel.records.access.clearance import CLEARANCES
from workers.cli.common import (
    SEQUENCE,
    as_json,
    gateway_url,
    pass_settings,
    print_document,
    print_table,
)
from workers.cli.gateway_call import ask_gateway
from workers.cli.question_commands import of_gateway, question_command, question_of
from workers.environment.output import echo
from workers.environment.settings import Settings
from workers.questions.access import GetAccess

ROLE = click.option(
    "--role", "roles", multiple=True, type=click.Choice(ROLES), help="A role; may be repeated."
)
SCOPE = click.option(
    "--scope",
    default=EVERYTHING,
    show_default=True,
    help="Of what: * for everything, queue:NAME or session:ID.",
)
CLEARANCE = click.option(
    "--clearance",
    type=click.Choice(CLEARANCES),
    help="Up to which visibility class its holder reads; by default that of the role.",
)
reason = click.option("--reason", default="", help="Why; it is put on the record.")


@click.group()
def access() -> None:
    """Show who may do what, now or at a sequence of the record; give roles and end them."""


def _print_access(document: Any) -> None:
    names = ("principal", "role", "scope", "clearance")
    grants = [tuple(each[name] for name in names) for each in document["grants"]]
    print_table(("principal", "role", "of", "reads up to"), grants)
    keys = [(each["principal"], each["key_id"], each["expires_at"]) for each in document["keys"]]
    print_table(("principal", "key", "expires"), keys)
    denials = [
        (each["principal"] or "several", _counts_of(each["actions"]), each["last_denied_at"])
        for each in document["denials"]
    ]
    if denials:
        print_table(("principal", "was denied", "last"), denials)


def _counts_of(actions: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {action}" for action, count in actions.items())


access.add_command(question_command(GetAccess, "list", _print_access, of_gateway))


@access.command("at")
@click.argument("sequence", type=SEQUENCE)
@as_json
def stood_at(sequence: int, *, as_json: bool) -> None:
    """Show who could do what at a SEQUENCE of the record."""
    with of_gateway() as ask:
        document = ask(question_of(GetAccess, {"to_sequence": sequence}))
    print_document(document, as_json=True) if as_json else _print_access(document)


@access.command()
@as_json
@pass_settings
def caller(settings: Settings, *, as_json: bool) -> None:
    """Show whom the gateway takes this account for, by ROTULUS_KEY or ROTULUS_KEY_FILE."""
    answer = ask_gateway(gateway_url(settings), "/v1/access/caller")
    if as_json:
        print_document(answer, as_json=True)
    elif answer["access"] == "open":
        echo("access is open: whoever reaches the gateway may do everything")
    else:
        echo(answer["principal"] or "nobody: no key that stands was shown")
        rows = [(each["role"], each["scope"], each["clearance"]) for each in answer["roles"]]
        print_table(("role", "of", "reads up to"), rows)


def _change_command(name: str, path: str, text: str) -> click.Command:
    """Return the command that posts a principal and a role to a path."""

    @click.command(name, help=text)
    @click.argument("principal")
    @click.argument("role", type=click.Choice(ROLES))
    @SCOPE
    @CLEARANCE
    @reason
    @as_json
    @pass_settings
    def change(settings: Settings, /, *, as_json: bool, **stated: str | None) -> None:
        answer = ask_gateway(gateway_url(settings), f"/v1/access/{path}", stated)
        print_document(answer, as_json=as_json)

    return change


access.add_command(_change_command("grant", "grants", "Give PRINCIPAL a ROLE."))
access.add_command(
    _change_command(
        "withdraw",
        "grants/withdraw",
        "End a ROLE of PRINCIPAL; the last owner of everything stays.",
    )
)
