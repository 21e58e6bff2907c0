"""A ledger with the tables of runs, on each database."""

import pytest

from kernel.landscape.recorder import Recorder
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.tables import Store
from tests.kernel.build import FakeHost


@pytest.fixture(params=["sqlite", "postgres"])
def ledger(request, tmp_path):
    fake = FakeHost()
    if request.param == "sqlite":
        store: Store = SqliteStore(tmp_path / "ledger.db")
    else:
        from kernel.ledger.postgres.store import PostgresStore  # noqa: PLC0415 - with its driver

        store = PostgresStore(request.getfixturevalue("postgres_url"))
    ledger = Ledger.create(store, fake.host)
    yield ledger
    ledger.close()


@pytest.fixture
def recorder(ledger):
    return Recorder(ledger)
