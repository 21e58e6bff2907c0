"""A folder of an archive that somebody else has filled: what is no file is not read."""

import os

import pytest

from kernel.ledger.archive import Archive, ArchiveUnavailable
from kernel.ledger.archive_segment import RAW_BYTES_MAX
from workers.environment.archive_files import FolderFiles

pytestmark = pytest.mark.may_block

NAME = "ab" * 32


def sparse(path):
    with path.open("wb") as file:
        file.truncate(RAW_BYTES_MAX + 1)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("put", "code"),
    [
        (os.mkfifo, "archive_segment_damaged"),
        (sparse, "archive_segment_damaged"),
        (os.mkdir, "archive_unavailable"),
        (lambda path: path.symlink_to("/dev/zero"), "archive_unavailable"),
        (lambda path: path.symlink_to("nowhere"), "archive_unavailable"),
        (lambda path: path.write_bytes(b"x"), "archive_segment_damaged"),
    ],
    ids=("pipe", "without end", "folder", "link to a device", "link to nothing", "another file"),
)
def test_what_lies_where_a_segment_should_is_refused_and_not_waited_for(tmp_path, put, code):
    files = FolderFiles(tmp_path / "archive")
    files.put(NAME, b"a segment")
    assert files.get(NAME) == b"a segment"
    files.delete(NAME)
    assert files.get(NAME) is None
    put(next(tmp_path.glob("archive/ab")) / f"{NAME}.jsonl.gz")
    with pytest.raises(ArchiveUnavailable) as refused:
        Archive(files).segment(NAME)
    assert refused.value.code == code
