"""Runs `rotulus queues bulk`: something is done to all requests that fit, counted first."""

import sys
from typing import Any

import anyio
import click

from kernel.work.bulk_operations import DECIDED_AS
from workers.cli.common import (
    ROW,
    as_json,
    gateway_url,
    print_document,
    print_table,
    read_settings,
    run,
)
from workers.cli.gateway_call import ask_gateway, decider, patient_client
from workers.cli.question_commands import (
    as_document,
    as_rows,
    of_gateway,
    parameters_of,
    question_command,
    question_of,
)
from workers.environment.output import echo
from workers.environment.terminal_progress import Progress
from workers.questions.bulk_operations import GetBulkOperation, ListBulkOperations
from workers.questions.requests import ListRequests

LOOK_EVERY_S = 0.2

_NO_FILTER = frozenset({"state", "after", "limit"})


@click.group()
def bulk() -> None:
    """Cancel, requeue, dismiss or give another priority to all requests that fit; or look at it."""


def _begin(verb: str, *, yes: bool, wait: bool, as_json: bool, **stated: Any) -> None:
    said = {name: stated.pop(name, None) for name in ("reason", "decided_by", "priority_to")}
    if as_json and not yes:
        raise click.UsageError("a program that reads --json says --yes")
    question_of(ListRequests, stated)
    filters = {name: value for name, value in stated.items() if value is not None}
    body: dict[str, Any] = {"verb": verb, "filter": filters}
    counted = _post("/v1/bulk-operations:preview", body)
    if not yes:
        _show(counted, verb)
        if counted["count"] == 0:
            return
        click.confirm(f"{verb} them?", abort=True, err=True)
    body |= {"reason": said["reason"], "decided_by": decider(said["decided_by"])}
    body["upper_sequence"] = counted["upper_sequence"]
    if said["priority_to"] is not None:
        body["priority"] = said["priority_to"]
    operation = _post("/v1/bulk-operations", body)
    if wait:
        operation = _wait_for(operation)
    print_document(operation, as_json=as_json)
    sys.exit(0 if operation["state"] != "stopped" else 1)


def _show(counted: Any, verb: str) -> None:
    beyond = "" if counted["complete"] else " or more"
    echo(f"{verb}: {counted['count']}{beyond} requests fit")
    names = ("enqueued_at", "queue", "state", "item_key", "request_id")
    rows = [[sample[name] for name in names] for sample in counted["samples"]]
    if rows:
        print_table(names, rows)


def _wait_for(operation: Any) -> Any:
    path = f"/v1/bulk-operations/{operation['bulk_number']}"

    async def wait() -> Any:
        stands = operation
        async with patient_client(gateway_url(read_settings())) as client:
            with Progress("bulk") as progress:
                while stands["state"] == "running":
                    done = stands["done"] + stands["refused"]
                    progress.count(done, max(done, stands["counted"]), "requests")
                    await anyio.sleep(LOOK_EVERY_S)
                    stands = await client.get(path)
        return stands

    return run(wait)


def _verb_command(verb: str, does: str) -> click.Command:
    def begin(**options: Any) -> None:
        _begin(verb, **options)

    command = click.command(verb, help=does)(as_json(begin))
    parameters = [each for each in parameters_of(ListRequests) if each.name not in _NO_FILTER]
    of_verb = click.Option(["--to", "priority_to"], required=True, help="The other priority.")
    command.params[:0] = [
        *map(_as_option, parameters),
        *([of_verb] if verb == "prioritize" else []),
        click.Option(["--reason"], required=True, help="Why; it is put on the record."),
        click.Option(["--by", "decided_by"], default="", help="Who decides; else the account."),
        click.Option(["--yes"], is_flag=True, help="Do not count and ask first."),
        click.Option(["--wait/--no-wait"], default=True, help="Wait until it has ended."),
    ]
    return command


def _as_option(parameter: click.Parameter) -> click.Parameter:
    if isinstance(parameter, click.Option):
        return parameter
    return click.Option([f"--{parameter.name}"], type=parameter.type, help="The queue.")


_DOES = {
    "cancel": "Take back all open requests that fit.",
    "requeue": "Ask anew for all dead letters that fit and are not settled.",
    "dismiss": "Settle all dead letters that fit without asking for them anew.",
    "prioritize": "Give all open requests of a queue that fit another priority.",
}
for _verb in DECIDED_AS:
    bulk.add_command(_verb_command(_verb, _DOES[_verb]))


_COLUMNS = {
    name: name
    for name in ("bulk_number", "begun_at", "verb", "state", "counted", "done", "refused")
}
bulk.add_command(
    question_command(ListBulkOperations, "list", as_rows("bulk_operations", _COLUMNS), of_gateway)
)
bulk.add_command(question_command(GetBulkOperation, "show", as_document, of_gateway))


@bulk.command()
@click.argument("bulk_number", type=ROW)
@click.option("--by", "decided_by", default="", help="Who stops it; else the account.")
@as_json
def stop(bulk_number: int, *, decided_by: str, as_json: bool) -> None:
    """End the bulk operation BULK_NUMBER where it is; what it has done stays."""
    body = {"decided_by": decider(decided_by)}
    print_document(_post(f"/v1/bulk-operations/{bulk_number}/stop", body), as_json=as_json)


def _post(path: str, body: Any) -> Any:
    return ask_gateway(gateway_url(read_settings()), path, body=body)
