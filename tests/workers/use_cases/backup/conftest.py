"""A ledger with its archive, published, and a place for backups."""

import shutil

import anyio
import pytest

from tests.workers.use_cases.backup.backed_up import BackedUp, RecordWorld, with_everything
from workers.environment.checkpoint_key import verifiers_in
from workers.environment.ledger_access import archive_of


@pytest.fixture(scope="session")
def whole_folder(tmp_path_factory):
    """The files of a ledger, which no test changes."""
    world = with_everything(tmp_path_factory.mktemp("backup") / "data")
    anyio.run(world.publisher().publish)
    world.close()
    return world.folder


@pytest.fixture
def backed_up(whole_folder, tmp_path):
    shutil.copytree(whole_folder, tmp_path / "data")
    world = RecordWorld(tmp_path / "data").opened()
    world.ledger.archive = archive_of(world.database)
    world.vkeys = [verifier.vkey for verifier in verifiers_in(world.key)]
    yield BackedUp(world, tmp_path)
    world.close()


@pytest.fixture
def key_file(tmp_path):
    """The key of a backup."""
    file = tmp_path / "backup.key"
    file.write_text("5e" * 32 + "\n")
    return file
