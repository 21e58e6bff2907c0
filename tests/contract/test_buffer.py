"""The buffer in front of a store: it agrees with the plain tables, and fails loudly at its end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.ledger import schema
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.buffer import BufferedTables, write
from kernel.ledger.store.memory import MemoryStore
from kernel.ledger.store.tables import DuplicateKey, TableQuery
from tests.contract.test_ledger_store import fill, row_of, stored
from tests.kernel.build import abandoned

SMALL = st.integers(0, 3)
FEW = st.integers(0, 1)


def request(key, sequence, queue):
    return row_of(
        schema.outbox,
        request_id=f"r{key}",
        request_sequence=sequence,
        queue=f"q{queue}",
        **dict.fromkeys(("item_key", "priority"), "x"),
        **dict.fromkeys(("cause_sequence", "open", "enqueued_at_us"), 1),
        request_bytes=b"{}",
    )


def answer(key, sequence, archived):
    return row_of(
        schema.idempotency_records,
        idempotency_key=f"k{key}",
        ec_sequence_number=sequence + 1,
        archived=archived * (sequence + 1),
        **dict.fromkeys(("content_digest", "emitted_receipts"), "x"),
        expires_at_us=1,
        row_hash=b"h",
    )


ROWS = st.one_of(
    st.tuples(st.just(schema.outbox), st.builds(request, SMALL, SMALL, FEW)),
    st.tuples(st.just(schema.idempotency_records), st.builds(answer, FEW, SMALL, FEW)),
)
SELECTED = {
    schema.outbox: ("request_sequence", "queue"),
    schema.idempotency_records: ("ec_sequence_number", "idempotency_key"),
}
STEPS = st.one_of(
    st.tuples(st.sampled_from(["insert", "put", "update", "delete"]), ROWS),
    st.tuples(st.just("delete_before"), SMALL),
    st.tuples(st.just("read_ahead"), st.lists(SMALL, max_size=3)),
)
PLANS = st.recursive(
    st.lists(STEPS, min_size=2, max_size=8),
    lambda plans: st.lists(
        STEPS | st.tuples(st.just("savepoint"), plans, st.booleans()), min_size=1
    ),
    max_leaves=6,
)


def key_of(table, row):
    return tuple(row[column.name] for column in table.primary_key.columns)


def read(tables, table, row):
    """Ask for everything that one row can be found by."""
    order, column = SELECTED[table]
    where = {column: row[column]}
    # Rows that are equal in the order may come in any, so only their place in it is compared.
    pages = [
        [
            stored_row[order]
            for stored_row in tables.scan(TableQuery(table, wanted, order_by=order, **options))
        ]
        for wanted in ({}, where)
        for options in (
            {"limit": 1},
            {"limit": 2, "descending": True},
            {"after": row[order], "descending": True},
            {"after": row[order] - 1, "limit": 2},
        )
    ]
    pages += [
        tables.scan(TableQuery(table, columns=(order,), order_by=order, **options))
        for options in ({"limit": 2}, {"after": row[order] - 1, "limit": 9})
    ]
    rows = sorted(map(repr, tables.scan(TableQuery(table, where))))
    groups = TableQuery(table, where, columns=(column, order), grouped=True)
    counts = [
        tables.count(TableQuery(table, where)),
        tables.count(TableQuery(table, where, limit=1)),
    ]
    counts += [tables.count(groups), sorted(tables.scan(groups))]
    any_of = (column, [row[column], row[column]])
    counts += [sorted(tables.scan(TableQuery(table, any_of=any_of, columns=(column, order))))]
    return tables.get(table, *key_of(table, row)), pages, rows, counts


def change(tables, name, table, row):
    key = key_of(table, row)
    if name == "delete":
        tables.delete(table, *key)
    elif name != "update":
        getattr(tables, name)(table, row)
    elif tables.get(table, *key) is not None:
        fixed = {column.name for column in table.primary_key.columns}
        tables.update(table, key, {column: row[column] for column in row if column not in fixed})


def read_ahead(tables, numbers):
    """Read what the steps to come will ask for, where that can be done at all."""
    if not isinstance(tables, BufferedTables):
        return
    keys = [f"r{number}" for number in numbers]
    tables.read_ahead(schema.outbox, "request_id", [*keys, "\x00", "\ud800"])
    tables.read_ahead(schema.outbox, "queue", [f"q{number}" for number in numbers])
    tables.read_ahead(schema.idempotency_records, "idempotency_key", ["k0"])


def step(tables, name, what):
    if name == "read_ahead":
        return read_ahead(tables, what)
    if name == "delete_before":
        return tables.delete_before(schema.outbox, "request_sequence", what)
    duplicate = False
    try:
        change(tables, name, *what)
    except DuplicateKey:
        duplicate = True
    return duplicate, read(tables, *what)


def run(tables, plan):
    """Follow a plan and return everything that it saw."""
    seen = []
    for name, what, *kept in plan:
        if name != "savepoint":
            seen.append(step(tables, name, what))
            continue
        with tables.savepoint() if all(kept) else abandoned(tables.savepoint()):
            seen.append(run(tables, what))
    return seen


def everything(store):
    return {table.name: sorted(map(repr, stored(store, table))) for table in SELECTED}


@given(PLANS, PLANS)
def test_a_buffer_over_tables_cannot_be_told_from_the_tables(first, second):
    plain, behind = MemoryStore(), MemoryStore()
    for store in (plain, behind):
        fill(store, schema.outbox, *(request(n, n, n % 2) for n in range(3)))
        fill(store, schema.idempotency_records, answer(0, 0, 1), answer(0, 1, 0), answer(1, 2, 0))
    for plan in (first, second):
        with plain.transaction() as tables:
            expected = run(tables, plan)
        with behind.transaction() as tables:
            buffer = BufferedTables(tables)
            assert run(buffer, plan) == expected
            write(buffer.changes(), tables)
        assert everything(behind) == everything(plain)


@pytest.fixture(params=["memory", "sqlite"])
def behind(request, tmp_path):
    store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "ledger.db")
    yield store
    store.close()


@pytest.mark.parametrize("table", schema.APPEND_ONLY_TABLES, ids=lambda table: table.name)
def test_an_appended_row_that_is_there_already_fails_the_whole_transaction(behind, table):
    [first] = fill(behind, table, row_of(table))

    def append():
        with behind.transaction() as tables:
            buffer = BufferedTables(tables)
            buffer.put(schema.nodes, row_of(schema.nodes))
            buffer.append(table, row_of(table))
            buffer.append(table, first)
            write(buffer.changes(), tables)

    with pytest.raises(DuplicateKey, match=table.name):
        append()
    assert stored(behind, table) == [first]
    assert stored(behind, schema.nodes) == []


def test_a_row_appended_twice_in_one_transaction_is_refused_at_once(behind):
    row = row_of(schema.receipts)
    with behind.transaction() as tables:
        buffer = BufferedTables(tables)
        buffer.append(schema.receipts, row)
        with pytest.raises(DuplicateKey):
            buffer.append(schema.receipts, row)
        write(buffer.changes(), tables)
    assert stored(behind, schema.receipts) == [row]


def test_nothing_reaches_the_store_before_the_flush(behind):
    row = row_of(schema.nodes)
    with behind.transaction() as tables:
        buffer = BufferedTables(tables)
        buffer.put(schema.nodes, row)
        with abandoned(buffer.savepoint()):
            buffer.put(schema.nodes, row_of(schema.nodes))
        assert tables.scan(TableQuery(schema.nodes)) == []
        assert buffer.scan(TableQuery(schema.nodes)) == [row]
        write(buffer.changes(), tables)
        assert tables.scan(TableQuery(schema.nodes)) == [row]


class Deaf:
    """Tables that answer no question about a single key or value."""

    def __init__(self, tables):
        self._tables = tables

    def scan(self, query):
        assert query.any_of is not None
        return self._tables.scan(query)


def test_what_was_read_ahead_is_not_asked_of_the_store_again(behind):
    node = row_of(schema.nodes, node_id="a")
    edge = row_of(schema.edges, edge_id="e", source_node_id="a", input_from="x")
    fill(behind, schema.nodes, node)
    fill(behind, schema.edges, edge)
    with behind.transaction() as tables:
        buffer = BufferedTables(Deaf(tables))
        buffer.read_ahead(schema.nodes, "node_id", ["a", "b"])
        buffer.read_ahead(schema.edges, "source_node_id", ["a", "b"], {"input_from": "x"})
        assert buffer.get(schema.nodes, "a") == node
        assert buffer.get(schema.nodes, "b") is None
        for node_id, expected in (("a", [edge]), ("b", [])):
            where = {"input_from": "x", "source_node_id": node_id}
            assert buffer.scan(TableQuery(schema.edges, where)) == expected


def test_rows_may_exchange_their_unique_values(behind):
    fill(behind, schema.outbox, request(0, 0, 0), request(1, 1, 0))
    with behind.transaction() as tables:
        buffer = BufferedTables(tables)
        for key, sequence in (("r0", 9), ("r1", 0), ("r0", 1)):
            buffer.update(schema.outbox, (key,), {"request_sequence": sequence})
        write(buffer.changes(), tables)
    assert stored(behind, schema.outbox) == [request(0, 1, 0), request(1, 0, 0)]


def test_a_row_that_comes_back_may_leave_its_unique_values_to_another(behind):
    fill(behind, schema.outbox, request(0, 9, 0), request(1, 0, 0))
    with behind.transaction() as tables:
        buffer = BufferedTables(tables)
        buffer.delete(schema.outbox, "r1")
        buffer.insert(schema.outbox, request(1, 1, 0))
        buffer.put(schema.outbox, request(0, 0, 0))
        write(buffer.changes(), tables)
    assert stored(behind, schema.outbox) == [request(0, 0, 0), request(1, 1, 0)]
