"""Runs `rotulus migrate`: brings a ledger's tables to the version of this program."""

from contextlib import ExitStack

import click

from workers.cli.common import (
    as_json,
    clean_errors,
    print_document,
    read_settings,
)
from workers.environment.data_folder import DataFolder
from workers.environment.ledger_access import file_of, ledger_place, migrate_ledger, printable_place
from workers.environment.output import echo, echo_text


@click.command()
@click.option(
    "--dry-run", "dry", is_flag=True, help="Print the revisions and their SQL; change nothing."
)
@as_json
def migrate(*, dry: bool, as_json: bool) -> None:
    """Bring the ledger's tables to the version of this program; there is no way back.

    All of it happens in one transaction. Stop what runs on the ledger first, and start it again
    with this program: a writer of an earlier version is refused afterwards.
    """
    settings = read_settings()
    place = ledger_place(settings)
    with clean_errors(), ExitStack() as stack:
        file = file_of(place)
        if file is not None and file.exists() and not dry:
            stack.enter_context(DataFolder(settings.data_dir).lock())
        migration = migrate_ledger(place, dry_run=dry)
    newest = migration.revisions[-1].version if migration.revisions else migration.found_version
    if dry and not as_json:
        for revision in migration.revisions:
            echo(f"-- {revision.version}: {revision.message}")
            for statement in revision.statements:
                echo_text(f"{statement};\n")
        echo(f"-- {printable_place(place)}: {migration.found_version} to {newest}, nothing changed")
        return
    document = {
        "ledger": printable_place(place),
        "found_version": migration.found_version,
        "version": migration.found_version if dry else newest,
        "newest_version": newest,
        "dry_run": dry,
        "revisions": [
            {"version": revision.version, "message": revision.message}
            | ({"statements": list(revision.statements)} if dry else {})
            for revision in migration.revisions
        ],
    }
    print_document(document, as_json=as_json)
