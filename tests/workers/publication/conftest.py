"""A log that is published and witnessed."""

import pytest

from tests.workers.publication.published import LogWorld


@pytest.fixture
def world(tmp_path):
    """A log of three rows, with a key that signs it and a witness of it."""
    world = LogWorld.made(tmp_path / "world")
    world.grow(3)
    yield world
    world.close()
