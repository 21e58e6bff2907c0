"""Runs `rotulus implications`: how far detectors have read, and letting go on what is halted."""

from urllib.parse import quote

import click

from workers.cli.common import (
    as_json,
    gateway_url,
    pass_settings,
    print_document,
    print_table,
)
from workers.cli.gateway_call import ask_gateway
from workers.cli.places import rotulus_command
from workers.cli.question_commands import of_gateway
from workers.environment.output import echo
from workers.environment.settings import Settings
from workers.questions.operators import GetImplications


@click.group(invoke_without_command=True)
@as_json
@click.pass_context
def implications(context: click.Context, *, as_json: bool) -> None:
    """Show the detectors of implications and what is halted; resume it."""
    if context.invoked_subcommand is not None:
        return
    with of_gateway() as ask:
        state = ask(GetImplications())
    if as_json:
        print_document(state, as_json=True)
        return
    names = ("detector", "implication_epoch", "through_sequence")
    rows = [[run[name] for name in names] for run in state["detectors"]]
    print_table(("detector", "run", "read up to"), rows)
    for halt in state["halts"]:
        loop = f"{halt['operation_kind']} on {halt['target_ref']}"
        what = loop if halt["operation_kind"] else f"detector {halt['detector']}"
        why = halt["error_code"] or halt["reason_code"]
        echo(f"halted at {halt['halted_at']}: {what}  {why}")
        echo(f"  {rotulus_command('implications', 'resume', operands=[halt['halt_id']])}")


@implications.command()
@click.argument("halt_id")
@click.option("--reason", default="", help="Why; it is put on the record.")
@pass_settings
def resume(settings: Settings, halt_id: str, reason: str) -> None:
    """Let the loop or the detector halted as HALT_ID go on."""
    path = f"/v1/implications/halts/{quote(halt_id, safe='')}/resume"
    ask_gateway(gateway_url(settings), path, {"reason": reason})
    echo(f"{halt_id} goes on")
