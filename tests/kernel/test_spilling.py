"""What is computed again is held in memory up to a bound, and in a file from there on."""

import pytest

from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.store.memory import MemoryStore
from kernel.ledger.store.spilling import SpillingStore
from kernel.ledger.store.tables import TableQuery
from kernel.rollback.rebuild import plan_rebuild
from kernel.transaction.kernel import Kernel
from kernel.verify import verify
from tests.contract.nodes import node
from tests.kernel.build import FakeHost, abandoned, create, memory_ledger, submit
from tests.kernel.honest import write_honestly

ROWS_MAX = 5


class WatchedSpillingStore(SpillingStore):
    """A place for little, which tells how much was in memory between transactions."""

    most_rows = 0
    made: "list[WatchedSpillingStore]" = []  # noqa: RUF012 - of the test that patches it in

    def __init__(self):
        super().__init__(rows_in_memory_max=ROWS_MAX)
        self.made.append(self)

    def transaction(self):
        self.most_rows = max(self.most_rows, self.rows_in_memory)
        return super().transaction()


@pytest.fixture
def watched(monkeypatch):
    monkeypatch.setattr("kernel.verify.fold.SpillingStore", WatchedSpillingStore)
    monkeypatch.setattr(WatchedSpillingStore, "made", [])
    return WatchedSpillingStore.made


@pytest.fixture(scope="module")
def honest():
    host = FakeHost()
    ledger = Ledger.create(MemoryStore(), host.host)
    write_honestly(ledger, host)
    return ledger


def test_rows_move_into_the_file_when_there_are_too_many_of_them():
    store = SpillingStore(rows_in_memory_max=2)
    for number in range(5):
        with store.transaction() as tables:
            tables.insert(schema.nodes, node(f"n-{number}"))
        assert store.rows_in_memory == (number + 1 if number < 2 else 0)
    with store.view() as tables:
        assert [row["node_id"] for row in tables.scan(TableQuery(schema.nodes))] == [
            f"n-{number}" for number in range(5)
        ]
    store.close()


def test_rows_move_into_the_file_when_they_are_too_large():
    store = SpillingStore(bytes_in_memory_max=1000)
    with store.transaction() as tables:
        tables.insert(schema.nodes, node("n") | {"record": b"x" * 2000})
    assert store.rows_in_memory == 0
    with store.view() as tables:
        assert tables.get(schema.nodes, "n")["record"] == b"x" * 2000
    store.close()


@pytest.mark.parametrize("rows_max", [0, 100])
def test_what_a_transaction_wrote_is_gone_when_it_fails(rows_max):
    store = SpillingStore(rows_in_memory_max=rows_max)
    with store.transaction() as tables:
        tables.insert(schema.nodes, node("kept"))
    with abandoned(store.transaction()) as tables:
        tables.insert(schema.nodes, node("gone"))
    with store.view() as tables:
        assert [row["node_id"] for row in tables.scan(TableQuery(schema.nodes))] == ["kept"]
    store.close()


def test_verification_holds_no_more_than_its_bound_and_finds_the_same(honest, watched):
    with honest.view() as view:
        verification = verify(view)
    [store] = watched
    assert verification.ok
    assert 0 < store.most_rows <= ROWS_MAX
    assert store.rows_in_memory == 0


def test_a_record_that_differs_is_found_in_a_file_too(watched):
    ledger = memory_ledger()
    submit(ledger, *(create(f"n-{number}", "Note") for number in range(ROWS_MAX)))
    with ledger.transaction() as transaction:
        row = transaction.tables.get(schema.nodes, "n-3")
        transaction.tables.put(schema.nodes, row | {"updated_at": "never"})
        transaction.tables.delete(schema.nodes, "n-4")
    with ledger.view() as view:
        findings = {(finding.table, finding.key, finding.rule) for finding in verify(view).findings}
    assert {("nodes", "n-3", "state_differs"), ("nodes", "n-4", "missing")} <= findings
    assert watched


@pytest.mark.spec("§5.4")
def test_building_again_holds_no_more_than_its_bound_and_gives_the_same(honest, watched):
    with honest.view() as view:
        plan = plan_rebuild(Kernel(), view, 0)
    [store] = watched
    assert plan.differences == ()
    assert 0 < store.most_rows <= ROWS_MAX
