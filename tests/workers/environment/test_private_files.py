"""Two writers of one file at once: each writes a draft of its own, and the file is whole."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from workers.cli.export import writing_to as export_to
from workers.environment.archive_files import FolderFiles
from workers.environment.checkpoint_folder import write_whole
from workers.environment.private_files import draft_of

pytestmark = pytest.mark.may_block

NAME = "ab" * 32


def export(path: Path, content: bytes) -> None:
    with export_to(str(path)) as write:
        write(content)


WRITERS = {
    "a segment of the archive": lambda folder: FolderFiles(folder).put(NAME, b"x" * 9),
    "a file that is whole": lambda folder: write_whole(folder / "checkpoint", b"x" * 9, 0o600),
    "an export": lambda folder: export(folder / "export.jsonl", b"x" * 9),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_two_that_write_one_file_at_once_both_succeed(tmp_path, monkeypatch, write):
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o700)
    both_have_written, waited = threading.Barrier(2), threading.local()
    sync = os.fsync

    def fsync(handle: int) -> None:
        if not hasattr(waited, "once"):
            waited.once = True
            both_have_written.wait(20)
        sync(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(write, folder) for _ in range(2)]:
            done.result()
    files = [path for path in folder.rglob("*") if path.is_file() and "verifiers" not in str(path)]
    assert [path.read_bytes() for path in files] == [b"x" * 9], "no draft is left"


def test_a_draft_is_of_one_thread_of_one_process():
    path = Path("folder/file")
    with ThreadPoolExecutor(1) as other:
        names = {draft_of(path), other.submit(draft_of, path).result()}
    assert len(names) == 2
    assert all(str(os.getpid()) in name.name and name.parent == path.parent for name in names)
