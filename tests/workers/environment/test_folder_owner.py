"""A folder is its first ledger's; the gateway of a second one is refused, with both names."""

from collections.abc import Callable
from pathlib import Path

import pytest

from queues.redis.watch import LedgerMark
from workers.environment.folder_owner import (
    ARCHIVE_OWNER,
    EFFECT_FOLDERS,
    EFFECTS_OWNER,
    FolderOfAnotherLedgerError,
    claim_effects,
    claim_folders,
)
from workers.environment.settings import Settings

A, B = LedgerMark("a" * 32, "/data/a on host-1"), LedgerMark("b" * 32, "/data/b on host-2")


def _shared_archive(folder: Path) -> Settings:
    return Settings(data_dir=folder / "data", archive_url=f"file://{folder}/shared%20archive")


def _archive_beside(folder: Path) -> Settings:
    (folder / "archive").mkdir()
    return Settings(data_dir=folder)


def _effects(name: str) -> Callable[[Path], Settings]:
    def in_folder(folder: Path) -> Settings:
        (folder / name).mkdir()
        return Settings(data_dir=folder)

    return in_folder


PLACES = {
    "archive of the settings": (_shared_archive, f"shared archive/{ARCHIVE_OWNER}"),
    "archive beside the file": (_archive_beside, f"archive/{ARCHIVE_OWNER}"),
    **{name: (_effects(name), EFFECTS_OWNER) for name in EFFECT_FOLDERS},
}


@pytest.mark.parametrize("place", PLACES)
def test_who_comes_second_is_refused_with_both_names_and_what_to_do(place: str, tmp_path: Path):
    settings_of, file_name = PLACES[place]
    settings, file = settings_of(tmp_path), tmp_path / file_name
    claim_folders(settings, A)
    claim_folders(settings, LedgerMark(A.id, "/moved/elsewhere on host-3"))
    with pytest.raises(FolderOfAnotherLedgerError) as refused:
        claim_folders(settings, B)
    said = str(refused.value)
    assert refused.value.code == "folder_of_another_ledger"
    assert all(part in said for mark in (A, B) for part in (mark.id[:12], mark.name))
    assert str(file) in said
    file.unlink()
    claim_folders(settings, B)


def test_a_folder_in_which_nothing_lies_is_nobodys(tmp_path: Path):
    claim_folders(Settings(data_dir=tmp_path), A)
    assert [*tmp_path.iterdir()] == []
    claim_folders(Settings(data_dir=tmp_path), B)


def test_the_first_effect_claims_the_folder(tmp_path: Path):
    claim_effects(tmp_path, A)
    with pytest.raises(FolderOfAnotherLedgerError):
        claim_effects(tmp_path, B)
    (tmp_path / EFFECT_FOLDERS[0]).mkdir()
    with pytest.raises(FolderOfAnotherLedgerError):
        claim_folders(Settings(data_dir=tmp_path), B)


def test_a_folder_that_cannot_be_written_is_left_to_who_uses_it(tmp_path: Path):
    (tmp_path / "file").write_text("")
    claim_folders(Settings(data_dir=tmp_path, archive_url=f"file://{tmp_path}/file/archive"), A)
