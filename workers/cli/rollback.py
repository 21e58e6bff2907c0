"""Runs `rotulus rollback`: undo what is on the record, after a dry run that says how.

If a gateway runs on the data folder it is asked, because it is the one that writes. Otherwise the
ledger file is written here, under the folder's lock.
"""

import os
from typing import Any

import click
from pydantic import SecretStr

from actors.commit.units import commit_alone
from actors.orchestrator.orchestrator import Orchestrator
from kernel.transaction.kernel import Kernel
from kernel.values.canonical import MAX_SAFE_INTEGER
from workers.cli.common import as_json, clean_errors, pass_settings, print_document, running_gateway
from workers.cli.gateway_call import ask_gateway
from workers.cli.places import named_gateway
from workers.cli.reading import lock_ledger
from workers.environment.data_folder import DataFolder
from workers.environment.ledger_access import ledger_place, open_record
from workers.environment.output import echo, say
from workers.environment.settings import Settings
from workers.environment.system_host import system_host
from workers.use_cases.rollbacks import (
    SAID_CHARS_MAX,
    BuildAgain,
    UndoEpoch,
    Undoing,
    UndoOperation,
    build_again,
    confirmable,
    confirmations_of,
    dry_run,
    unit_of,
)

dry = click.option("--dry-run", "dry", is_flag=True, help="Say what would happen; change nothing.")
token = click.option("--token", help="A confirmation, from `rotulus rollback confirm`.")


def _check_said(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value is not None and not 0 < len(value) <= SAID_CHARS_MAX:
        raise click.BadParameter(f"1 to {SAID_CHARS_MAX} characters")
    return value


decided_by = click.option(
    "--by", "decided_by", callback=_check_said, help="Who has it undone, for the record."
)
reason = click.option("--reason", callback=_check_said, help="Why it is undone, for the record.")


@click.group()
def rollback() -> None:
    """Undo an operation or an epoch, or build the state again from the log."""


@rollback.command()
@click.argument("operation_id")
@decided_by
@reason
@dry
@as_json
@pass_settings
def operation(
    settings: Settings,
    operation_id: str,
    decided_by: str | None,
    reason: str | None,
    *,
    dry: bool,
    as_json: bool,
) -> None:
    """Undo one operation whose effects are all reversible (tier 1)."""
    undoing = UndoOperation(tier=1, operation_id=operation_id, decided_by=decided_by, reason=reason)
    _do(settings, undoing, dry=dry, as_json=as_json)


@rollback.command()
@click.argument("epoch_id")
@decided_by
@reason
@dry
@token
@as_json
@pass_settings
def epoch(
    settings: Settings,
    epoch_id: str,
    token: str | None,
    decided_by: str | None,
    reason: str | None,
    *,
    dry: bool,
    as_json: bool,
) -> None:
    """Undo an epoch, or one operation, as far as it goes (tier 2).

    What has happened outside persists and is named; then a user has to confirm. A large epoch goes
    back in pages; where this was stopped between them, the same command goes on.
    """
    undoing = UndoEpoch(
        tier=2,
        epoch_id=epoch_id,
        user_confirmation_token=token,
        decided_by=decided_by,
        reason=reason,
    )
    _do(settings, undoing, dry=dry, as_json=as_json)


@rollback.command()
@click.option(
    "--checkpoint",
    type=click.IntRange(0, MAX_SAFE_INTEGER),
    required=True,
    help="A sequence of the log.",
)
@dry
@token
@as_json
@pass_settings
def rebuild(
    settings: Settings, checkpoint: int, token: str | None, *, dry: bool, as_json: bool
) -> None:
    """Build the state again from the log and prove it equal (tier 3); nothing else may run.

    Records that differ are kept in the folder `rebuild-archives`. An architect has to confirm.
    """
    undoing = BuildAgain(
        tier=3, checkpoint_ec_sequence_number=checkpoint, architect_confirmation_token=token
    )
    _do(settings, undoing, dry=dry, as_json=as_json)


@rollback.command()
@click.argument("role", type=click.Choice(["user", "architect"]))
@click.option(
    "--tier", type=click.Choice(["2", "3"]), required=True, help="Of the dry run, 2 or 3."
)
@click.option("--scope", required=True, help="As the dry run names it.")
@click.option("--digest", required=True, help="As the dry run computed it.")
@pass_settings
def confirm(settings: Settings, role: Any, tier: str, scope: str, digest: str) -> None:
    """Print a token that confirms one dry run, once, for a quarter of an hour."""
    host = system_host()
    keys = _keys(settings)
    subject = confirmable({"tier": int(tier), "scope": scope, "digest": digest})
    with clean_errors():
        issued = keys.issue(role, subject, confirmation_id=host.new_id(), now_us=host.now_us())
    echo(issued)


def _keys(settings: Settings) -> Any:
    user: SecretStr | None = settings.user_confirmation_key
    with clean_errors():
        return confirmations_of(user, settings.architect_confirmation_key)


def _do(settings: Settings, undoing: Undoing, *, dry: bool, as_json: bool) -> None:
    kernel = Kernel(idempotency_window_hours=settings.kernel_idempotency_window_hours)
    with clean_errors():
        if dry and (url := named_gateway()):
            document = ask_gateway(url, "/v1/rollbacks/dry-run", undoing.model_dump())
        elif dry:
            with open_record(ledger_place(settings)) as view:
                document = dry_run(kernel, view, undoing)
        else:
            document = _carry_out(settings, kernel, undoing)
            while operations_left := document.get("operations_left"):
                say(f"page {document['page']}: {operations_left} operations are left")
                document = _carry_out(settings, kernel, undoing)
    print_document(document, as_json=as_json)


def _carry_out(settings: Settings, kernel: Kernel, undoing: Undoing) -> Any:
    """Undo what is asked for, or the next page of it; whoever stopped before it goes on here."""
    folder = DataFolder(settings.data_dir)
    url = running_gateway(settings)
    if url is not None and not isinstance(undoing, BuildAgain):
        return ask_gateway(url, "/v1/rollbacks", undoing.model_dump())

    def archive(content: bytes) -> None:
        archives = folder.path / "rebuild-archives"
        archives.mkdir(mode=0o700, exist_ok=True)
        path = archives / f"{ledger.host.new_id()}.json"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    with lock_ledger(settings) as ledger:
        if isinstance(undoing, BuildAgain):
            return build_again(kernel, ledger, undoing, _keys(settings), archive)
        unit = unit_of(undoing, _keys(settings))
        return commit_alone(unit, ledger, kernel, Orchestrator(ledger.host))
