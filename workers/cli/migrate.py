"""Runs `rotulus migrate`: brings a ledger's tables to the version of this program."""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from kernel.ledger.migration_plan import RowsLook, tables_gone_over
from workers.cli.common import (
    as_json,
    clean_errors,
    print_document,
    read_settings,
)
from workers.environment.data_folder import DataFolder
from workers.environment.ledger_access import (
    LedgerPlace,
    file_of,
    ledger_place,
    look_at_rows,
    migrate_ledger,
    printable_place,
)
from workers.environment.output import echo, echo_text

if TYPE_CHECKING:
    from kernel.ledger.migrations import Revision, SchemaMigration


@click.command()
@click.option(
    "--dry-run", "dry", is_flag=True, help="Print the revisions and their SQL; change nothing."
)
@click.option(
    "--plan",
    is_flag=True,
    help="Print which programs work on the ledger after each revision and how many rows it goes"
    " over; change nothing.",
)
@as_json
def migrate(*, dry: bool, plan: bool, as_json: bool) -> None:
    """Bring the ledger's tables to the version of this program; there is no way back.

    All of it happens in one transaction, for which writers wait. Programs from before go on where
    the plan names them; else stop what runs on the ledger first, and start it again with this
    program: a writer that the new tables are not for is refused afterwards.
    """
    settings = read_settings()
    place = ledger_place(settings)
    with clean_errors(), ExitStack() as stack:
        file = file_of(place)
        if file is not None and file.exists() and not (dry or plan):
            stack.enter_context(DataFolder(settings.data_dir).lock())
        migration = migrate_ledger(place, dry_run=dry or plan)
        if plan:
            print_document(_plan(place, migration), as_json=as_json)
            return
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


def _plan(place: LedgerPlace, migration: "SchemaMigration") -> dict[str, Any]:
    database = "postgresql" if file_of(place) is None else "sqlite"
    tables = {
        revision.version: [*tables_gone_over(revision.statements, database)]
        for revision in migration.revisions
    }
    looks = look_at_rows(place, {name for names in tables.values() for name in names})
    before = migration.found_version
    newest = migration.revisions[-1] if migration.revisions else None
    return {
        "ledger": printable_place(place),
        "found_version": before,
        "newest_version": before if newest is None else newest.version,
        "programs_from": before if newest is None else newest.programs_from,
        "programs_of_found_version_go_on": newest is None or newest.programs_from <= before,
        "writers_wait_s_about": round(sum(_seconds(names, looks) for names in tables.values()), 1),
        "revisions": [
            _step_of_plan(revision, tables[revision.version], looks)
            for revision in migration.revisions
        ],
    }


def _step_of_plan(
    revision: "Revision", tables: list[str], looks: Mapping[str, RowsLook]
) -> dict[str, Any]:
    return {
        "version": revision.version,
        "message": revision.message,
        "programs_from": revision.programs_from,
        "statements": len(revision.statements),
        "rows": {name: looks[name].rows for name in dict.fromkeys(tables) if name in looks},
        "goes_over_rows": len(tables),
        "seconds_about": round(_seconds(tables, looks), 1),
    }


def _seconds(tables: list[str], looks: Mapping[str, RowsLook]) -> float:
    return sum(looks[name].seconds for name in tables if name in looks)
