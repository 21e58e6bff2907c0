"""The environment of a command, and the data folder that it works on."""

import os
from pathlib import Path

import pytest

from workers.environment.data_folder import DataFolder


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("ROTULUS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ROTULUS_DATA_DIR", str(tmp_path / "data"))


@pytest.fixture
def data_folder(tmp_path: Path) -> DataFolder:
    """A data folder without a ledger, and nothing that runs on it."""
    folder = DataFolder(tmp_path / "data")
    folder.make()
    return folder
