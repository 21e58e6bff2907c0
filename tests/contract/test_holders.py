"""Who holds the head is named, and ended where record and lease table agree that it is dead."""

import os
import subprocess
import sys

import pytest

from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.shards import create_shards, shards_of, take_shards
from kernel.ledger.sqlite import store as sqlite
from kernel.ledger.sqlite.store import SqliteStore
from kernel.values.errors import LedgerUnavailable
from tests.contract.nodes import add, names, node
from tests.contract.test_sqlite_store import HOLDER
from tests.kernel.build import FakeHost


@pytest.fixture
def stores(postgres_url, monkeypatch):
    """The stores of two gateways, and a ledger on which the first owns a shard."""
    postgres = pytest.importorskip("kernel.ledger.postgres.store")
    monkeypatch.setattr("kernel.ledger.postgres.connection.LOCK_TIMEOUT_MS", 1000)
    opened = [postgres.PostgresStore(postgres_url) for _ in range(2)]
    with Ledger.create(opened[0], FakeHost().host).transaction() as transaction:
        create_shards(transaction, 2)
        take_shards(transaction, "a", shards_of(transaction)[:1])
    yield opened
    for store in opened:
        store.close()


def write_while_held(holder, waiting):
    """Let one store write while the other is in the middle of a transaction."""
    with holder.transaction() as tables:
        tables.insert(schema.nodes, node("of-the-holder"))
        add(waiting, "of-who-waited")
        tables.insert(schema.nodes, node("of-the-holder-too"))


def test_a_holder_that_is_dead_is_ended_and_writes_nothing(stores):
    holder, waiting = stores
    asked_about = []
    holder.share("a", lambda _: False)
    waiting.share("b", lambda name: not asked_about.append(name))
    with pytest.raises(LedgerUnavailable):
        write_while_held(holder, waiting)
    assert asked_about == ["a"]
    assert names(waiting) == ["of-who-waited"]
    add(holder, "of-the-holder")
    assert names(waiting) == ["of-the-holder", "of-who-waited"]


HOLDERS = {
    "alive": ("a", False),
    "no owner of a shard": ("c", True),
    "itself": ("b", True),
    "no gateway": (None, True),
}


@pytest.mark.parametrize("who", HOLDERS)
def test_any_other_holder_is_waited_for_and_named(stores, who):
    holder, waiting = stores
    name, is_dead = HOLDERS[who]
    if name is not None:
        holder.share(name, lambda _: False)
    waiting.share("b", lambda _: is_dead)
    with pytest.raises(LedgerUnavailable) as refused:
        write_while_held(holder, waiting)
    shown = "rotulus" if name is None else f"rotulus/{name}"
    assert f"the head is held by {shown} (process " in str(refused.value)
    assert "ended" not in str(refused.value)
    assert names(waiting) == []


def test_who_misses_its_turn_ends_a_dead_process_that_has_it(stores, monkeypatch):
    monkeypatch.setattr("kernel.ledger.postgres.store.TURN_WAIT_MS", 20)
    holder, waiting = stores
    holder.share("a", lambda _: False)
    waiting.share("b", lambda _: True)

    def compute_beside_a_dead_one():
        with holder.turn() as turn:
            with waiting.turn():
                pass
            turn.hold([(schema.shard_epochs, {"shard": 1, "epoch": 1})])

    with pytest.raises(LedgerUnavailable):
        compute_beside_a_dead_one()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="locks are found in /proc")
def test_who_waits_for_a_file_says_who_holds_it_and_for_how_long(monkeypatch, tmp_path):
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_S", 0.5)
    path = tmp_path / "ledger.db"
    store = SqliteStore(path)
    add(store, "a")
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout.readline() == b"locked\n"
        messages = []
        for _ in range(2):
            with pytest.raises(LedgerUnavailable) as refused:
                add(store, "b")
            messages.append(str(refused.value))
        holder.communicate(b"")
    assert holder.pid != os.getpid()
    for message, seconds in zip(messages, ("0.5", "1.0"), strict=True):
        assert f"held by process {holder.pid} (running) for {seconds} s or more" in message
    add(store, "c")
    assert names(store) == ["a", "c"]
    store.close()
