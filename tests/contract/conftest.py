"""Each adapter of the storage port, under one name."""

from contextlib import contextmanager

import pytest

from kernel.ledger.buffer import BufferedTables
from kernel.ledger.memory import MemoryStore
from kernel.ledger.sqlite import SqliteStore


class BufferedStore:
    """A store behind the buffer that a ledger puts in front of it."""

    def __init__(self, store):
        self._store = store
        self.view = store.view
        self.close = store.close

    @contextmanager
    def transaction(self):
        with self._store.transaction() as tables:
            buffer = BufferedTables(tables)
            yield buffer
            buffer.flush()


class Place:
    """Where a store lives, so that it can be closed and opened again."""

    def __init__(self, open_store, *, buffered=False):
        self._open = open_store
        self._buffered = buffered
        self.opened = []

    def open(self):
        store = self._open()
        self.opened.append(store)
        return BufferedStore(store) if self._buffered else store


@pytest.fixture(params=["memory", "sqlite", "buffered memory", "buffered sqlite", "postgres"])
def adapter(request):
    return request.param


@pytest.fixture
def place(adapter, request, tmp_path):
    if adapter == "postgres":
        postgres_store = pytest.importorskip("kernel.ledger.postgres").PostgresStore
        url = request.getfixturevalue("postgres_url")
        place = Place(lambda: postgres_store(url))
    elif "sqlite" in adapter:
        place = Place(lambda: SqliteStore(tmp_path / "ledger.db"), buffered="buffered" in adapter)
    else:
        memory = MemoryStore()
        place = Place(lambda: memory, buffered="buffered" in adapter)
    yield place
    for store in place.opened:
        store.close()


@pytest.fixture
def store(place):
    return place.open()
