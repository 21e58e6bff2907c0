"""A ledger of each kind that a process has by itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.memory import MemoryStore
from tests.kernel.build import FakeHost


@pytest.fixture(params=["memory", "sqlite"])
def own_ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    """Found one in memory, and one in a file."""
    store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "ledger.db")
    ledger = Ledger.create(store, FakeHost().host)
    yield ledger
    ledger.close()
