"""Runs `rotulus restore`: a backup to where nothing lies, verified before anything runs on it."""

import sys
from pathlib import Path
from typing import Any

import anyio
import click

from workers.cli.common import as_json, clean_errors, print_document, read_settings
from workers.environment.known_logs import policy_at
from workers.environment.ledger_access import ledger_place, printable_place
from workers.environment.settings import ENV_PREFIX, Settings
from workers.environment.terminal_progress import Progress
from workers.publication.continuity import REFUSED, Continuity, judge_continuity
from workers.publication.witnesses import WitnessClient
from workers.use_cases.backup.cipher import cipher_of
from workers.use_cases.backup.manifest import BackupManifest
from workers.use_cases.backup.place import BackupPlace
from workers.use_cases.backup.restore import backup_named, check_backup, restore_backup


@click.command()
@click.argument("place")
@click.option(
    "--to",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="The data folder to restore: empty, or not there. The database of ROTULUS_DATABASE_URL"
    " and the archive of ROTULUS_ARCHIVE_URL are filled where those are set.",
)
@click.option("--backup", "name", metavar="NAME", help="Of the backups there; else the newest.")
@click.option("--check", is_flag=True, help="Read and verify every byte; write nothing.")
@click.option(
    "--accept-findings", is_flag=True, help="Restore a record that does not verify as well."
)
@as_json
def restore(
    place: str,
    folder: Path | None,
    name: str | None,
    *,
    check: bool,
    accept_findings: bool,
    as_json: bool,
) -> None:
    """Restore a backup of PLACE, verify it, and say how it stands to what others have seen.

    Nothing is signed, and nothing is written where something lies. Ends with 1 where the backup is
    damaged, or where rows were signed, cosigned or answered that it has not: it says what to do.
    """
    if (folder is None) != check:
        raise click.UsageError("one of --to and --check is needed")
    settings = read_settings()
    if folder is not None:
        settings = settings.with_changes(data_dir=folder)
    with clean_errors(), Progress("restore") as progress:
        backups = BackupPlace(place, cipher_of(settings.backup_key))
        name, manifest = backup_named(backups, name)
        document, is_sound = _document(backups, name, manifest), True
        if check:
            damaged = check_backup(backups, manifest, progress.show)
            document |= {"verifies": not damaged, "damaged": damaged}
            is_sound = not damaged
        else:
            findings = restore_backup(
                settings, backups, manifest, progress.show, accept_findings=accept_findings
            )
            judged = anyio.run(_judge, settings)
            document |= {
                "ledger": printable_place(ledger_place(settings)),
                "findings": findings,
                "continuity": [f"{each.verdict}: {each.source}: {each.message}" for each in judged],
                "to_do": _to_do(settings, manifest, judged),
            }
            is_sound = not findings and not any(each.verdict in REFUSED for each in judged)
    print_document(document, as_json=as_json)
    sys.exit(0 if is_sound else 1)


async def _judge(settings: Settings) -> list[Continuity]:
    witnesses = WitnessClient(policy_at(settings.witness_policy))
    try:
        return await judge_continuity(settings, witnesses)
    finally:
        await witnesses.aclose()


def _document(backups: BackupPlace, name: str, manifest: BackupManifest) -> dict[str, Any]:
    head = manifest.head
    return {
        "backup": name,
        "place": backups.shown,
        "program_version": manifest.program_version,
        "head": f"{head.ec_sequence_number}:{head.row_hash}",
        "tree_head": f"{head.ec_sequence_number}:{head.tree_root}",
        "files": len(manifest.files),
        "bytes": sum(file.size_bytes for file in manifest.files),
    }


def _to_do(settings: Settings, manifest: BackupManifest, judged: list[Continuity]) -> list[str]:
    """Return what an operator has to do before the ledger is served, in this order."""
    steps = [
        f"set {key.setting}, of which the backup has the name alone"
        for key in manifest.keys
        if getattr(settings, key.setting.removeprefix(ENV_PREFIX).lower(), None) is None
    ]
    steps += dict.fromkeys(each.to_do for each in judged if each.to_do)
    steps.append("start it beside an empty Redis: what is open is sent there from the ledger")
    return steps
