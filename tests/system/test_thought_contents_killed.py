"""Who is killed while thoughts and their contents move has each of them in one place at least."""

import shutil
from pathlib import Path

import anyio
import pytest

from kernel.ledger.archive import Archive
from kernel.ledger.sqlite.store import SqliteStore
from kernel.retention.archival import Retention
from kernel.retention.thought_contents import count_archived_rounds, read_content
from kernel.retention.thought_records import cold_status
from kernel.thoughts.reading import thought_rows
from kernel.verify import verify
from kernel.verify.archive import verify_archive
from tests.system.killed_at_steps import KILLED_EACH, host_of, killed_at_each_step, opened
from tests.workers.api.door import running_door
from tests.workers.api.test_thoughts import SESSION, closed, posted
from workers.environment.archive_files import FolderFiles
from workers.use_cases.log_archiving import archive_steps

RETENTION = Retention(rounds_kept=0, rounds_warm=0)
SAID = ["plan 1", "plan 2", "done \u00e9\U0001f600"]


def archive_folder(path: Path) -> Path:
    return path.with_suffix(".archive")


def archive_beside(path: Path) -> Archive:
    return Archive(FolderFiles(archive_folder(path)))


def archive_all(ledger):
    ledger.archive = archive_beside(ledger.store._inner._path)  # noqa: SLF001 - of the tests
    return moved_by(ledger)


def moved_by(ledger):
    steps = list(archive_steps(ledger, RETENTION))
    return sum(step.contents_moved for step in steps), sum(step.thoughts_moved for step in steps)


def said(view):
    rows = thought_rows(view, SESSION, after=0, limit=9)
    contents = [read_content(view, stated_in(row)).content for row in rows]
    return [content.decode() for content in contents]


def stated_in(row):
    marker = b'"content_commitment":"'
    return row["record_bytes"].partition(marker)[2][:64].decode()


@pytest.mark.spec("002 Retention tiers")
def test_who_is_killed_has_lost_nothing_and_goes_on(tmp_path):
    begun = tmp_path / "begun.db"

    async def begin():
        async with running_door(SqliteStore(begun), host=host_of(0)) as door:
            await closed(door)
            await posted(door, "rounds/seal")
            door.ledger.close()

    anyio.run(begin)
    moved = set()
    for step, path, _ in killed_at_each_step(begun, archive_all):
        is_walked = step % KILLED_EACH != 0
        standing = archive_folder(path.with_name("walked.db"))
        if is_walked and standing.exists():
            shutil.copytree(standing, archive_folder(path))
        ledger = opened(path, step + 1)
        ledger.archive = archive_beside(path)
        for left in (None, (0, 0)):
            with ledger.view() as view:
                assert said(view) == SAID
                assert left == (0, 0) or verify(view).ok
                assert not verify_archive(view, lambda _: None).findings
            done = moved_by(ledger)
            assert done == left or left is None
            moved.add(done)
        with ledger.view() as view:
            assert (count_archived_rounds(view), cold_status(view).rounds_cold) == (1, 1)
        ledger.close()
    assert moved == {(len(SAID), len(SAID)), (0, len(SAID)), (0, 0)}
