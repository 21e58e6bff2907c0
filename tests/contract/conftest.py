"""Each adapter of the storage port, under one name."""

import pytest

from kernel.ledger.memory import MemoryStore
from kernel.ledger.sqlite import SqliteStore


class Place:
    """Where a store lives, so that it can be closed and opened again."""

    def __init__(self, open_store):
        self._open = open_store
        self.opened = []

    def open(self):
        store = self._open()
        self.opened.append(store)
        return store


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def adapter(request):
    return request.param


@pytest.fixture
def place(adapter, request, tmp_path):
    if adapter == "postgres":
        postgres_store = pytest.importorskip("kernel.ledger.postgres").PostgresStore
        url = request.getfixturevalue("postgres_url")
        place = Place(lambda: postgres_store(url))
    elif adapter == "sqlite":
        place = Place(lambda: SqliteStore(tmp_path / "ledger.db"))
    else:
        memory = MemoryStore()
        place = Place(lambda: memory)
    yield place
    for store in place.opened:
        store.close()


@pytest.fixture
def store(place):
    return place.open()
