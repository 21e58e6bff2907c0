"""Runs `rotulus backup`: a ledger in use, and what belongs to it, into a folder or a bucket."""

import click

from workers.cli.common import as_json, clean_errors, pass_settings, print_document
from workers.environment.output import say
from workers.environment.settings import Settings
from workers.environment.terminal_progress import Progress
from workers.use_cases.backup.backup import make_backup
from workers.use_cases.backup.cipher import cipher_of
from workers.use_cases.backup.place import BackupPlace


@click.command()
@click.option(
    "--output",
    metavar="PLACE",
    required=True,
    help="A folder, or s3://bucket/prefix; those of other ledgers have places of their own.",
)
@click.option(
    "--keep", type=click.IntRange(1, 10_000), help="Remove all but so many of the newest backups."
)
@as_json
@pass_settings
def backup(settings: Settings, output: str, keep: int | None, *, as_json: bool) -> None:
    """Back up the ledger, its archive, what is published and files of effects, beside what runs.

    Only what no earlier backup there has is stored. ROTULUS_BACKUP_KEY names the file of a key
    under which it is encrypted. Keys are not backed up, nor is Redis. `rotulus restore` restores.
    """
    with clean_errors(), Progress("backup") as progress:
        place = BackupPlace(output, cipher_of(settings.backup_key))
        report = make_backup(settings, place, progress.show, keep=keep)
        if report.problem_of_last:
            say(f"Warning: the backup before this one cannot be read: {report.problem_of_last}")
    manifest = report.manifest
    document = {
        "backup": report.name,
        "place": place.shown,
        "is_encrypted": place.is_encrypted,
        "head": f"{manifest.head.ec_sequence_number}:{manifest.head.row_hash}",
        "tree_head": f"{manifest.head.ec_sequence_number}:{manifest.head.tree_root}",
        "files": len(manifest.files),
        "bytes": report.bytes_total,
        "bytes_stored": report.bytes_stored,
        "pieces": report.pieces_total,
        "pieces_stored": report.pieces_stored,
        "backups_removed": report.backups_removed,
        "keys_to_keep_elsewhere": [key.setting for key in manifest.keys],
    }
    print_document(document, as_json=as_json)
