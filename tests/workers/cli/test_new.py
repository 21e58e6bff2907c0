"""Names and folders that `rotulus new` refuses; `tests/system` uses a project that it writes."""

from pathlib import Path

import pytest

from tests.workers.cli.command import rotulus


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the command is called, with nothing in it."""
    folder = tmp_path / "projects"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("name", ["my-jobs", "class", "1st", "a/b", "rotulus", "", "x" * 61])
def test_a_name_of_no_module_is_refused(folder: Path, name: str):
    result = rotulus("new", name)
    assert result.exit_code == 1
    assert "project_name_invalid" in result.stderr
    assert not [*folder.iterdir()]


def test_a_folder_that_is_not_empty_is_left_alone(folder: Path):
    (folder / "mine").mkdir()
    assert rotulus("new", "mine").exit_code == 0, "an empty one is taken"
    before = {path.name: path.read_bytes() for path in (folder / "mine").iterdir()}
    result = rotulus("new", "mine")
    assert result.exit_code == 1
    assert "project_folder_used" in result.stderr
    assert {path.name: path.read_bytes() for path in (folder / "mine").iterdir()} == before
