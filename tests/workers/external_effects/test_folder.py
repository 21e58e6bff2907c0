"""A file is written whole, once, and nowhere but below its folder."""

import errno
import os
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.external_effects import write_once_folder as folder_module
from workers.external_effects.errors import ExternalEffectError
from workers.external_effects.write_once_folder import (
    CONTENT_MAX_BYTES,
    DRAFTS,
    PARTS_MAX,
    OutsideFolder,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    root.mkdir()
    return root


@pytest.fixture
def outside(root: Path) -> OutsideFolder:
    return OutsideFolder(root)


def code_of(outside: OutsideFolder, *parts: str, content: bytes = b"x") -> tuple[str, bool]:
    with pytest.raises(ExternalEffectError) as caught:
        outside.write(parts, content)
    return caught.value.code, caught.value.transient


def test_a_file_is_there_with_its_content_and_for_its_owner_alone(outside, root):
    written = outside.write(("a", "b", "c.txt"), b"content")
    path = root / "a" / "b" / "c.txt"
    assert path.read_bytes() == b"content"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert path.stat().st_nlink == 1
    assert (written.path, written.size_bytes) == ("a/b/c.txt", 7)
    assert list((root / DRAFTS).iterdir()) == []


def test_the_same_content_again_is_one_file(outside, root):
    first = outside.write(("a",), b"content")
    inode = (root / "a").stat().st_ino
    assert outside.write(("a",), b"content") == first
    assert (root / "a").stat().st_ino == inode


def test_other_content_is_never_overwritten(outside, root):
    outside.write(("a",), b"content")
    assert code_of(outside, "a", content=b"other") == ("external_path_occupied", False)
    assert (root / "a").read_bytes() == b"content"
    assert list((root / DRAFTS).iterdir()) == []


@pytest.mark.parametrize("part", ["..", ".", "", "a/b", "/etc", "a\\b", "a\x00b"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_part_that_is_not_a_name_is_refused(outside, root, part, place):
    parts = ["x", "y", "z"]
    parts[place] = part
    assert code_of(outside, *parts) == ("external_path_unsafe", False)
    assert list(root.iterdir()) == []


@given(st.lists(st.text(max_size=8) | st.sampled_from(["..", ".", "/", "out"]), max_size=4))
def test_no_place_is_outside_of_the_folder(parts: list[str]):
    with tempfile.TemporaryDirectory() as place:
        root, elsewhere = Path(place, "data"), Path(place, "elsewhere")
        root.mkdir()
        elsewhere.mkdir()
        (root / "out").symlink_to(elsewhere)
        with suppress(ExternalEffectError):
            OutsideFolder(root).write(parts, b"content")
            assert root.joinpath(*parts).resolve().is_relative_to(root)
        assert list(elsewhere.iterdir()) == []
        assert sorted(path.name for path in Path(place).iterdir()) == ["data", "elsewhere"]


def test_a_link_in_the_place_of_a_folder_leads_nowhere(outside, root, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (root / "a").mkdir()
    (root / "a" / "out").symlink_to(elsewhere)
    (root / "first").symlink_to(elsewhere)
    assert code_of(outside, "a", "out", "f") == ("external_path_unsafe", False)
    assert code_of(outside, "first", "f") == ("external_path_unsafe", False)
    assert list(elsewhere.iterdir()) == []


def test_a_link_in_the_place_of_the_file_is_not_followed(outside, root, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"x")
    (root / "a").symlink_to(secret)
    (root / "dangling").symlink_to(tmp_path / "new")
    assert code_of(outside, "a") == ("external_path_occupied", False)
    assert code_of(outside, "dangling") == ("external_path_occupied", False)
    assert not (tmp_path / "new").exists()


def test_what_is_no_plain_file_occupies_its_name(outside, root):
    os.mkfifo(root / "pipe")
    (root / "folder").mkdir()
    for name in ("pipe", "folder"):
        assert code_of(outside, name) == ("external_path_occupied", False)


def test_a_file_in_the_place_of_a_folder_is_refused(outside):
    outside.write(("a",), b"content")
    assert code_of(outside, "a", "b") == ("external_path_unsafe", False)


def test_everything_has_a_limit(outside):
    assert code_of(outside, "n" * 300) == ("external_path_invalid", False)
    assert code_of(outside, *["d"] * PARTS_MAX, "f") == ("external_path_invalid", False)
    too_large = b"x" * (CONTENT_MAX_BYTES + 1)
    assert code_of(outside, "f", content=too_large) == ("external_content_too_large", False)
    assert outside.write(("f",), too_large[1:]).size_bytes == CONTENT_MAX_BYTES


def test_what_a_killed_process_left_half_written_is_replaced(outside, root, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(folder_module.os, "link", lambda *_, **__: os._exit)
        patched.setattr(folder_module.os, "unlink", lambda *_, **__: None)
        outside.write(("a",), b"content")
    [draft] = (root / DRAFTS).iterdir()
    draft.write_bytes(b"cont")
    outside.write(("a",), b"content")
    assert (root / "a").read_bytes() == b"content"
    assert list((root / DRAFTS).iterdir()) == []


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, "external_storage_full"),
        (errno.EDQUOT, "external_storage_full"),
        (errno.EIO, "external_storage_failed"),
        (errno.EACCES, "external_storage_failed"),
    ],
)
def test_what_may_pass_says_so_and_leaves_nothing(outside, root, monkeypatch, number, code):
    def fails(_: int) -> None:
        raise OSError(number, "as the test says")

    with monkeypatch.context() as patched:
        patched.setattr(folder_module.os, "fsync", fails)
        assert code_of(outside, "a") == (code, True)
    assert not (root / "a").exists()
    outside.write(("a",), b"content")


def test_a_file_and_its_folders_are_synced(outside, root, monkeypatch):
    synced = []

    def fsync(fd: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{fd}").readlink()))

    monkeypatch.setattr(folder_module.os, "fsync", fsync)
    outside.write(("a", "b"), b"content")
    assert {str(root), str(root / "a")} <= set(synced)
    assert any(DRAFTS in path for path in synced)
    assert synced[-1] == str(root / "a")
