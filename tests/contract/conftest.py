"""Each adapter of the storage port, under one name."""

import pytest

from kernel.ledger.memory import MemoryStore
from kernel.ledger.sqlite import SqliteStore


class Place:
    """Where a store lives, so that it can be closed and opened again."""

    def __init__(self, adapter, folder):
        self._path = folder / "ledger.db"
        self._memory = MemoryStore() if adapter == "memory" else None
        self.opened = []

    def open(self):
        store = self._memory or SqliteStore(self._path)
        self.opened.append(store)
        return store


@pytest.fixture(params=["memory", "sqlite"])
def place(request, tmp_path):
    place = Place(request.param, tmp_path)
    yield place
    for store in place.opened:
        store.close()


@pytest.fixture
def store(place):
    return place.open()
