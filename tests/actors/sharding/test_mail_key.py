"""The key of the gateways' mail is the same for all that live, and lies nowhere at rest."""

import secrets
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.sharding.mail_key import KeyChanges, MailKey
from kernel.ledger.ledger import Ledger
from kernel.ledger.schema import metadata
from kernel.ledger.shards import GatewayKey
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.tables import TableQuery
from tests.actors.ports import Hub
from tests.actors.shared import Clock, SharedGateway
from tests.kernel.build import FakeHost

pytestmark = pytest.mark.spec("kernel/0660")


@dataclass
class Record:
    """The keys on the record, and who lives."""

    keys: dict[str, GatewayKey] = field(default_factory=dict)
    living: set[str] = field(default_factory=set)
    settled: bool = True

    def start(self, name: str) -> "Process":
        self.living.add(name)
        return Process(self, name)


class Process:
    """One gateway process."""

    def __init__(self, record: Record, name: str) -> None:
        self.record, self.name = record, name
        self.in_use: list[tuple[bytes, int]] = []
        self.mail_key = MailKey(
            name, lambda key, number: self.in_use.append((key, number)), secrets.token_bytes
        )

    @property
    def key(self) -> bytes | None:
        return self.in_use[-1][0] if self.in_use else None

    def turn(self) -> KeyChanges:
        record, table = self.record, self.table()
        self.mail_key.take(record.keys)
        changes = self.mail_key.changes(record.keys, table)
        record.keys |= {key.gateway: key for key in changes.keys}
        for gone in changes.gone:
            del record.keys[gone]
        self.mail_key.take(record.keys)
        return changes

    def table(self) -> Any:
        return SimpleNamespace(gateways=frozenset(self.record.living), settled=self.record.settled)


def turns(processes: Collection[Process], rounds: int = 3) -> None:
    for _ in range(rounds):
        for process in processes:
            process.turn()


def test_one_alone_has_a_key_at_its_first_turn_and_keeps_it():
    a = Record(settled=False).start("a")
    a.turn()
    assert len(a.key or b"") == 32
    assert not a.turn()
    assert len(a.in_use) == 1


def test_who_joins_is_given_the_key_of_those_who_live():
    record = Record()
    a = record.start("a")
    a.turn()
    b, c = record.start("b"), record.start("c")
    b.turn()
    c.turn()
    assert b.key is None
    assert c.key is None
    turns([a, b, c])
    assert a.key == b.key == c.key
    assert len(a.in_use) == 1


def test_a_process_that_comes_back_under_its_name_is_given_the_key_anew():
    record = Record()
    a, b = record.start("a"), record.start("b")
    turns([a, b])
    again = record.start("b")
    turns([again, a])
    assert again.key == a.key


def test_when_nobody_who_has_it_lives_there_is_a_later_key():
    record = Record()
    a, b = record.start("a"), record.start("b")
    turns([a, b])
    record.living.clear()
    c, d = record.start("c"), record.start("d")
    turns([c, d])
    assert c.key == d.key != a.key
    assert c.in_use[-1][1] == 2
    assert set(record.keys) == {"c", "d"}, "the keys of the dead are forgotten"
    # One that was only taken for dead has the later key too.
    record.living.add("a")
    turns([a, c])
    assert a.in_use[-1] == c.in_use[-1]


def test_while_it_is_not_settled_who_lives_nobody_makes_a_later_key_and_nobody_is_forgotten():
    record = Record()
    a = record.start("a")
    a.turn()
    record.living, record.settled = set(), False
    b = record.start("b")
    turns([b])
    assert b.key is None
    assert "a" in record.keys
    record.living.add("a")
    turns([a, b])
    assert b.key == a.key


def test_what_was_changed_on_the_record_is_no_key_and_is_mended():
    record = Record()
    a, b = record.start("a"), record.start("b")
    turns([a, b])
    record.keys["b"] = replace(record.keys["b"], sealed_key=b"x" * 80, key_number=1)
    fresh = Process(record, "b")
    turns([fresh, a, b])
    assert fresh.key in (None, a.key)
    record.keys["a"] = replace(record.keys["a"], public_key=b"z" * 32)
    turns([a, b])
    assert a.key == b.key


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["start", "die", "turn"]))))
def test_after_some_turns_all_that_live_have_one_key(steps):
    record, processes = Record(), dict[str, Process]()
    for name, step in steps:
        if step == "start":
            processes[name] = record.start(name)
        elif step == "die" and name in processes:
            del processes[name]
            record.living.discard(name)
        elif name in processes:
            processes[name].turn()
    turns(list(processes.values()))
    assert len({process.key for process in processes.values()} | {None}) == 1 + bool(processes)
    assert all(not process.turn() for process in processes.values()), "then nothing is written"


@pytest.mark.anyio
async def test_no_row_of_a_ledger_has_the_key_of_its_gateways_mail(tmp_path: Path):
    store = SqliteStore(tmp_path / "ledger.db")
    ledger = Ledger.create(store, FakeHost().host)
    hub = Hub(Clock())
    a, b = SharedGateway(ledger, hub, "a"), SharedGateway(ledger, hub, "b")
    async with a.running(), b.running():
        for gateway in (a, b, a, b):
            await gateway.turn()
    [key] = a.mail_keys
    assert b.mail_keys == a.mail_keys
    with store.view() as tables:
        rows = [row for table in metadata.sorted_tables for row in tables.scan(TableQuery(table))]
    values = b"\n".join(
        value if isinstance(value, bytes) else str(value).encode()
        for row in rows
        for value in row.values()
    )
    assert key not in values
    assert key.hex().encode() not in values
