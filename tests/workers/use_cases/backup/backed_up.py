"""A ledger with everything that belongs to it, and a place for its backups."""

from pathlib import Path

from kernel.ledger.archive_segment import SEGMENT_ROWS
from tests.kernel.archives import archive_next
from tests.kernel.build import create, submit
from tests.workers.publication.published import LogWorld
from workers.environment.archive_files import FolderFiles
from workers.environment.ledger_access import archive_of
from workers.environment.settings import Settings
from workers.use_cases.backup.backup import make_backup
from workers.use_cases.backup.cipher import cipher_of
from workers.use_cases.backup.place import BackupPlace
from workers.use_cases.backup.restore import backup_named, restore_backup

EFFECTS = {"artifacts/SourceArtifact/a1": b"artifact", "events/materializations.jsonl": b"{}\n"}


class RecordWorld(LogWorld):
    """The world of a log whose rows are operations that verify."""

    def grow(self, count, name="row"):
        for number in range(count):
            assert submit(self.ledger, create(f"{name}-{number}", "Note")).ec_sequence_number


class Quiet:
    """Progress that nobody sees."""

    def __call__(self, text):
        del text


class BackedUp:
    """The world of a log, as a data folder; backups of it, and restores of those."""

    def __init__(self, world: RecordWorld, places: Path, key: Path | None = None):
        self.world = world
        self.places = places
        self.key = key
        self.place = self.place_with(key)

    def place_with(self, key):
        return BackupPlace(str(self.places / "backups"), cipher_of(key))

    def settings(self, folder=None, **changes):
        stated = {"checkpoint_key": self.world.key, "checkpoint_folder": self.world.public}
        return Settings(data_dir=folder or self.world.folder, **stated | changes)

    def backup(self, **options):
        return make_backup(self.settings(), self.place, Quiet(), **options)

    def restore(self, name=None, folder="restored", place=None, **changes):
        place = place or self.place
        _, manifest = backup_named(place, name)
        settings = self.settings(self.places / folder, **changes)
        options = {"accept_findings": settings.kernel_dev_mode}
        restore_backup(settings, place, manifest, Quiet(), **options)
        return settings

    def stored(self):
        """Return all files of the backups."""
        return sorted(path for path in (self.places / "backups").rglob("*") if path.is_file())


def with_everything(folder: Path) -> RecordWorld:
    """Make a ledger with a segment in the archive, and files of effects, that was published."""
    world = RecordWorld.made(folder)
    world.ledger.archive = archive_of(world.database)
    world.grow(SEGMENT_ROWS + 1)
    assert archive_next(world.ledger)
    for name, content in EFFECTS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / "share-links").mkdir()
    (folder / "share-links" / "l1.json").write_text('{"token":"a secret"}')
    folder.chmod(0o700)
    return world


def archived(folder: Path) -> dict[str, bytes | None]:
    files = FolderFiles(folder / "archive")
    return {name: files.get(name) for name in files.names()}
