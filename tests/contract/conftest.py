"""Each adapter of the storage port, under one name."""

import shutil
from contextlib import contextmanager

import pytest

from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.buffer import BufferedTables, write
from kernel.ledger.store.memory import MemoryStore


class BufferedStore:
    """A store behind the buffer that a ledger puts in front of it."""

    def __init__(self, store):
        self._store = store
        self.view = store.view
        self.engine = store.engine
        self.close = store.close

    @contextmanager
    def transaction(self):
        with self._store.transaction() as tables:
            buffer = BufferedTables(tables)
            yield buffer
            write(buffer.changes(), tables)


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


STORES = ("memory", "sqlite", "postgres")
"""A ledger puts a buffer before each itself; the port's own suite has buffers beside them."""


@pytest.fixture(params=STORES)
def adapter(request):
    return request.param


@pytest.fixture(scope="session")
def empty_file(tmp_path_factory):
    """A file with the tables and no ledger in it, for whoever copies it."""
    path = tmp_path_factory.mktemp("tables") / "ledger.db"
    SqliteStore(path).close()
    return path


@contextmanager
def place_of(adapter, folder, request, new_url):
    """Where a store of an adapter lives, for the time of a block."""
    buffered = "buffered" in adapter
    if adapter == "postgres":
        postgres_store = pytest.importorskip("kernel.ledger.postgres.store").PostgresStore
        url = new_url()
        place = Place(lambda: postgres_store(url))
    elif "sqlite" in adapter:
        path = shutil.copy(request.getfixturevalue("empty_file"), folder / "ledger.db")
        place = Place(lambda: SqliteStore(path), buffered=buffered)
    else:
        memory = MemoryStore()
        place = Place(lambda: memory, buffered=buffered)
    try:
        yield place
    finally:
        for store in place.opened:
            store.close()


@pytest.fixture
def place(adapter, request, tmp_path):
    with place_of(
        adapter, tmp_path, request, lambda: request.getfixturevalue("postgres_url")
    ) as place:
        yield place


@pytest.fixture
def store(place):
    return place.open()


@pytest.fixture(scope="module", params=STORES)
def kept_store(request, tmp_path_factory):
    """A store for all tests of a module that leave alone what others have written."""

    def new_url():
        return request.getfixturevalue("postgres").new_database()

    folder = tmp_path_factory.mktemp("kept")
    with place_of(request.param, folder, request, new_url) as place:
        yield place.open()
