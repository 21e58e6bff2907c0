"""The behaviour of the storage port, whatever is behind it."""

import itertools
import threading

import pytest
from sqlalchemy import Integer, LargeBinary, UniqueConstraint

from kernel.ledger import schema
from kernel.ledger.store.statements import GROUP_ROWS
from kernel.ledger.store.tables import DuplicateKey, TableQuery
from kernel.values.errors import TextNotStorable
from tests.kernel.build import abandoned

_numbers = itertools.count(1)

_BOUNDED = dict.fromkeys(("open", "collected", "settled", "waits"), 1)
"""Columns that not every value fits."""

_FIRST_STEP = {"prior_state": "", "state": "pending_intake"}
"""Of a pair, whose states follow one another."""


_STATED = {
    "binding_pairs": _FIRST_STEP,
    "landscape_calls": {"state_id": "state-1", "operation_id": None},
    "outbox": {"state": 1},
    "request_tags": {"state": 1},
}
"""What rows of a table have to state; a call has one parent, a request one of few states."""

MISSHAPEN = (
    (schema.kernel_event_log, {"rules_version": 0}),
    (schema.outbox, {"open": 2}),
)
"""Values that no store of a database takes, each in its column."""


@pytest.fixture(params=["memory", "sqlite", "buffered memory", "buffered sqlite", "postgres"])
def adapter(request):
    """Each store, and the buffer that a ledger puts before it."""
    return request.param


def row_of(table, **values):
    """A row that is unlike every other, but for the values given."""
    number = next(_numbers)
    row = {}
    for column in table.columns:
        if isinstance(column.type, Integer):
            row[column.name] = number
        elif isinstance(column.type, LargeBinary):
            row[column.name] = b"bytes %d" % number
        else:
            row[column.name] = f"{column.name}-{number}"
        if column.name in _BOUNDED:
            row[column.name] = _BOUNDED[column.name]
    return row | _STATED.get(table.name, {}) | values


def insert(tables, table, row):
    """Insert a row, behind what it refers to and what is not there."""
    for key in table.foreign_key_constraints:
        referred = {
            element.column.name: row[column]
            for column, element in zip(key.column_keys, key.elements, strict=True)
        }
        is_named = None not in referred.values()
        if is_named and not tables.scan(TableQuery(key.referred_table, referred, limit=1)):
            insert(tables, key.referred_table, row_of(key.referred_table, **referred))
    tables.insert(table, row)


def fill(store, table, *rows):
    with store.transaction() as tables:
        for row in rows:
            insert(tables, table, row)
    return list(rows)


def stored(store, table):
    with store.view() as tables:
        return tables.scan(TableQuery(table))


def unique_sets():
    """Every key and every unique set of columns in the schema."""
    for table in schema.metadata.sorted_tables:
        yield table, tuple(column.name for column in table.primary_key.columns)
        for constraint in table.constraints:
            if isinstance(constraint, UniqueConstraint):
                yield table, tuple(column.name for column in constraint.columns)


# Reading what was written


def test_some_columns_of_rows_are_read_page_by_page(store):
    table, names = schema.blobs, ("content", "blob_ref")
    rows = fill(store, table, *(row_of(table, blob_ref=name) for name in "dbca"))
    expected = sorted(((row["content"], row["blob_ref"]) for row in rows), key=lambda row: row[1])
    with store.view() as tables:
        assert tables.scan(TableQuery(table, columns=names, limit=3)) == expected[:3]
        assert tables.scan(TableQuery(table, columns=names, after="c", limit=3)) == expected[3:]
        assert tables.scan(TableQuery(table, columns=("blob_ref",), after="b", limit=1)) == [("c",)]
    with store.transaction() as tables:
        assert tables.scan(TableQuery(table, columns=names, limit=9)) == expected


def test_a_row_of_any_table_reads_back_with_the_values_and_types_it_was_written_with(store):
    for table in schema.metadata.sorted_tables:
        kept_rows = stored(store, table)
        nulls = {column.name: None for column in table.columns if column.nullable}
        row = row_of(table) | nulls | _STATED.get(table.name, {})
        fill(store, table, row)
        with store.view() as tables:
            key = [row[column.name] for column in table.primary_key.columns]
            assert tables.get(table, *key) == row
            rows = tables.scan(TableQuery(table))
            assert [each for each in rows if each not in kept_rows] == [row], table.name


def test_text_and_bytes_of_every_kind_read_back_as_they_were(store):
    row = row_of(schema.nodes, node_id="\x01 'é\U0001f600\" ;--", record=bytes(range(256)))
    fill(store, schema.nodes, row)
    with store.view() as tables:
        assert tables.get(schema.nodes, row["node_id"]) == row


def test_text_that_a_store_cannot_hold_is_refused_as_such_and_the_transaction_goes_on(store):
    row, other = row_of(schema.nodes, node_id="a\x00b"), row_of(schema.nodes, node_id="c")
    with store.transaction() as tables:
        try:
            tables.insert(schema.nodes, row)
            kept = [row, other]
        except TextNotStorable:
            kept = [other]
        tables.insert(schema.nodes, other)
    assert stored(store, schema.nodes) == kept
    there = row if row in kept else None
    with store.view() as tables:
        assert tables.get(schema.nodes, "a\x00b") == there
        assert tables.scan(TableQuery(schema.nodes, {"node_id": "a\x00b"})) == [row] * (
            there is row
        )
        assert tables.count(TableQuery(schema.nodes, {"node_id": "a\x00b"})) == (there is row)


@pytest.mark.parametrize(
    "changes",
    [{"receipt_id": "\ud800"}, {"receipt_kind": "a\ud800"}, {"expires_at_us": 2**70}],
)
def test_a_value_that_a_store_cannot_hold_is_refused_as_such(store, changes):
    row = row_of(schema.ephemeral_receipts, **changes)
    try:
        with store.transaction() as tables:
            tables.insert_many(schema.ephemeral_receipts, [row])
    except TextNotStorable:
        assert stored(store, schema.ephemeral_receipts) == []
    else:
        assert stored(store, schema.ephemeral_receipts) == [row]


def test_no_row_answers_to_a_name_that_is_no_text(store):
    with store.transaction() as tables:
        assert tables.get(schema.nodes, "\ud800") is None
        assert tables.scan(TableQuery(schema.nodes, {"node_id": "\ud800"})) == []
        tables.insert(schema.nodes, row_of(schema.nodes, node_id="a"))
    assert len(stored(store, schema.nodes)) == 1


def test_integers_of_64_bits_read_back_as_they_were(store):
    row = row_of(schema.ephemeral_receipts, expires_at_us=2**62)
    fill(store, schema.ephemeral_receipts, row)
    assert stored(store, schema.ephemeral_receipts) == [row]


def test_a_key_that_is_not_there_gives_none(store):
    with store.view() as tables:
        assert tables.get(schema.nodes, "nobody") is None
        assert tables.get(schema.applied_effects, 1, 2) is None


def test_a_row_handed_out_is_a_copy(store):
    row = row_of(schema.nodes)
    with store.transaction() as tables:
        handed_in = dict(row)
        tables.insert(schema.nodes, handed_in)
        handed_in["record"] = b"changed by its owner"
        tables.get(schema.nodes, row["node_id"])["record"] = b"changed by a reader"
        tables.scan(TableQuery(schema.nodes))[0]["record"] = b"changed by a reader"
        assert tables.get(schema.nodes, row["node_id"]) == row


# Selecting


@pytest.fixture
def log(store):
    rows = [
        row_of(
            schema.kernel_event_log,
            ec_sequence_number=number,
            semantic_intent="create" if number % 2 else "annotate",
            session_id=None if number < 4 else "s",
        )
        for number in (3, 1, 5, 2, 4, 6)
    ]
    fill(store, schema.kernel_event_log, *rows)
    return store


def sequences(store, **options):
    with store.view() as tables:
        rows = tables.scan(TableQuery(schema.kernel_event_log, **options))
    return [row["ec_sequence_number"] for row in rows]


SELECTIONS = (
    ({}, [1, 2, 3, 4, 5, 6]),
    ({"descending": True}, [6, 5, 4, 3, 2, 1]),
    ({"after": 2}, [3, 4, 5, 6]),
    ({"after": 0}, [1, 2, 3, 4, 5, 6]),
    ({"after": 6}, []),
    ({"after": 4, "descending": True}, [3, 2, 1]),
    ({"limit": 2}, [1, 2]),
    ({"limit": 0}, []),
    ({"limit": 9}, [1, 2, 3, 4, 5, 6]),
    ({"after": 1, "limit": 2}, [2, 3]),
    ({"after": 6, "limit": 2, "descending": True}, [5, 4]),
    ({"where": {}}, [1, 2, 3, 4, 5, 6]),
    ({"where": {"semantic_intent": "create"}}, [1, 3, 5]),
    ({"where": {"semantic_intent": "create"}, "after": 1}, [3, 5]),
    ({"where": {"semantic_intent": "create"}, "descending": True, "limit": 1}, [5]),
    ({"where": {"semantic_intent": "nothing"}}, []),
    ({"where": {"session_id": None}}, [1, 2, 3]),
    ({"where": {"session_id": "s", "semantic_intent": "annotate"}}, [4, 6]),
    ({"where": {"session_id": None, "semantic_intent": "create"}, "after": 1}, [3]),
    ({"where": {"ec_sequence_number": 4}}, [4]),
)


def test_a_scan_filters_orders_continues_and_limits(log):
    for options, expected in SELECTIONS:
        assert sequences(log, **options) == expected, options


def test_a_scan_orders_by_the_column_asked_for_and_continues_in_it(store):
    fill(
        store,
        schema.outbox,
        *(
            row_of(schema.outbox, request_id=name, request_sequence=n)
            for n, name in enumerate("cab")
        ),
    )
    with store.view() as tables:

        def names(**options):
            rows = tables.scan(TableQuery(schema.outbox, order_by="request_sequence", **options))
            return [row["request_id"] for row in rows]

        assert names() == ["c", "a", "b"]
        assert names(after=0) == ["a", "b"]
        assert names(after=2, descending=True) == ["a", "c"]
        assert [row["request_id"] for row in tables.scan(TableQuery(schema.outbox))] == [
            "a",
            "b",
            "c",
        ]


@pytest.mark.parametrize("times", [1, 7, 8, 9, 600])
def test_rows_with_any_of_many_values_are_found_once_each(store, times):
    named = [("a", "x"), ("b", "x"), ("c", "y"), ("d", None)]
    rows = [row_of(schema.edges, edge_id=edge_id, input_from=kind) for edge_id, kind in named]
    fill(store, schema.edges, *rows)
    with store.transaction() as tables:

        def edges_of(names, where):
            rows = tables.scan(TableQuery(schema.edges, where, any_of=("edge_id", names)))
            return sorted(row["edge_id"] for row in rows)

        names = [*"acd", *(f"no-{n}" for n in range(times)), "a"]
        assert edges_of(names, {}) == ["a", "c", "d"]
        assert edges_of(names, {"input_from": "x"}) == ["a"]
        assert edges_of(names, {"input_from": None}) == ["d"]
        assert edges_of([], {}) == []
        of_kinds = tables.scan(TableQuery(schema.edges, any_of=("input_from", ["x", "z"])))
        assert sorted(row["edge_id"] for row in of_kinds) == ["a", "b"]
        ids = TableQuery(schema.edges, any_of=("edge_id", names), columns=("edge_id",))
        assert sorted(tables.scan(ids)) == [("a",), ("c",), ("d",)]
        assert (tables.count(ids), tables.count(ids._replace(limit=2))) == (3, 2)


def test_text_is_ordered_by_code_point(store):
    names = ["\U0001f600", "é", "z", "Z", "a", "\uffff"]
    fill(store, schema.nodes, *(row_of(schema.nodes, node_id=name) for name in names))
    assert [row["node_id"] for row in stored(store, schema.nodes)] == sorted(names)


def test_without_an_order_rows_come_by_the_last_column_of_their_key(store):
    rows = [(2, 1), (1, 0), (1, 2)]
    fill(
        store,
        schema.applied_effects,
        *(row_of(schema.applied_effects, ec_sequence_number=s, ordinal=o) for s, o in rows),
    )
    places = [
        (row["ec_sequence_number"], row["ordinal"]) for row in stored(store, schema.applied_effects)
    ]
    assert places == [(1, 0), (2, 1), (1, 2)]


def test_a_query_has_as_many_rows_as_are_counted(log):
    with log.view() as tables:
        for options, expected in SELECTIONS:
            query = TableQuery(schema.kernel_event_log, **options)
            assert tables.count(query) == len(expected), options


def test_rows_are_counted_in_groups_of_equal_values(log):
    with log.view() as tables:
        table = schema.kernel_event_log
        assert tables.count(TableQuery(table)) == 6
        assert tables.count(TableQuery(table, {"semantic_intent": "create"})) == 3
        assert tables.count(TableQuery(table, {"session_id": None})) == 3
        assert tables.count(TableQuery(table, {"session_id": "nobody"})) == 0
        by_intent = TableQuery(table, columns=("semantic_intent",), grouped=True)
        assert {*tables.scan(by_intent)} == {("create", 3), ("annotate", 3)}
        assert tables.count(by_intent) == 2
        both = TableQuery(table, columns=("session_id", "semantic_intent"), grouped=True)
        assert {*tables.scan(both)} == {
            (None, "create", 2),
            (None, "annotate", 1),
            ("s", "create", 1),
            ("s", "annotate", 2),
        }
        assert tables.count(both) == 4
        of_session = both._replace(where={"session_id": "s"})
        assert {*tables.scan(of_session)} == {("s", "create", 1), ("s", "annotate", 2)}
        assert tables.scan(TableQuery(schema.nodes, columns=("node_kind",), grouped=True)) == []


# Keys


def test_a_second_row_with_the_same_unique_values_is_refused_and_changes_nothing(store):
    for table, columns in unique_sets():
        [first] = fill(store, table, row_of(table))
        rows = stored(store, table)
        second = row_of(table) | {name: first[name] for name in columns}
        with store.transaction() as tables:
            with pytest.raises(DuplicateKey):
                tables.insert(table, second)
            assert tables.scan(TableQuery(table)) == rows, (table.name, columns)
            insert(tables, table, row_of(table))
        assert len(stored(store, table)) == len(rows) + 1, (table.name, columns)


def test_values_are_unique_together_not_one_by_one(store):
    together = [(table, columns) for table, columns in unique_sets() if len(columns) > 1]
    for table, columns in together:
        [first] = fill(store, table, row_of(table))
        rows = stored(store, table)
        for name in columns:
            same = {column: first[column] for column in columns if column != name}
            fill(store, table, row_of(table) | same)
        assert len(stored(store, table)) == len(rows) + len(columns), (table.name, columns)


@pytest.mark.parametrize("count", [1, GROUP_ROWS - 1, GROUP_ROWS, 2 * GROUP_ROWS + 3])
def test_rows_that_are_added_together_are_all_there(store, count):
    rows = [row_of(schema.kernel_event_log, session_id=None) for _ in range(count)]
    with store.transaction() as tables:
        tables.insert_many(schema.kernel_event_log, rows)
    assert stored(store, schema.kernel_event_log) == rows


@pytest.mark.parametrize("position", [0, GROUP_ROWS - 1, GROUP_ROWS, 2 * GROUP_ROWS + 2])
@pytest.mark.parametrize("column", ["node_id", "request_sequence"])
def test_one_of_many_rows_that_is_there_already_is_found_wherever_it_stands(
    store, column, position
):
    table = schema.nodes if column == "node_id" else schema.outbox
    [first] = fill(store, table, row_of(table))
    rows = [row_of(table) for _ in range(2 * GROUP_ROWS + 3)]
    rows[position][column] = first[column]
    with pytest.raises(DuplicateKey), store.transaction() as tables:
        tables.insert_many(table, rows)
    assert stored(store, table) == [first]


def test_of_two_like_rows_that_are_added_together_the_second_is_a_duplicate(store):
    rows = [row_of(schema.nodes) for _ in range(GROUP_ROWS)]
    rows[-1]["node_id"] = rows[0]["node_id"]
    with pytest.raises(DuplicateKey), store.transaction() as tables:
        tables.insert_many(schema.nodes, rows)
    assert stored(store, schema.nodes) == []


def test_what_is_written_together_is_there_when_the_block_has_ended(store):
    gone, replaced = fill(store, schema.nodes, row_of(schema.nodes), row_of(schema.nodes))
    replaced |= {"node_kind": "Replaced"}
    few = [row_of(schema.nodes) for _ in range(3)]
    many = [row_of(schema.kernel_event_log, session_id=None) for _ in range(5 * GROUP_ROWS)]
    with store.transaction() as tables:
        with tables.together():
            tables.delete(schema.nodes, gone["node_id"])
            tables.insert_many(schema.kernel_event_log, many)
            tables.put_many(schema.nodes, [replaced])
            tables.insert_many(schema.nodes, few)
        assert tables.get(schema.nodes, replaced["node_id"]) == replaced
    in_order = sorted([replaced, *few], key=lambda row: row["node_id"])
    assert stored(store, schema.nodes) == in_order
    assert stored(store, schema.kernel_event_log) == many


def write_together(store, write):
    """Write something, and a row of another table after it."""
    with store.transaction() as tables, tables.together():
        write(tables)
        tables.insert_many(schema.blobs, [row_of(schema.blobs)])


@pytest.mark.parametrize("count", [1, GROUP_ROWS, 5 * GROUP_ROWS])
def test_of_what_is_written_together_nothing_stays_where_a_row_is_there_already(store, count):
    [first] = fill(store, schema.nodes, row_of(schema.nodes))
    rows = [row_of(schema.nodes) for _ in range(count)]
    rows[-1]["node_id"] = first["node_id"]
    with pytest.raises(DuplicateKey):
        write_together(store, lambda tables: tables.insert_many(schema.nodes, rows))
    assert stored(store, schema.nodes) == [first]
    assert stored(store, schema.blobs) == []


def test_what_is_put_together_may_not_take_the_unique_value_of_another_row(store):
    request, other = fill(store, schema.outbox, row_of(schema.outbox), row_of(schema.outbox))
    taken = other | {"request_sequence": request["request_sequence"]}
    with pytest.raises(DuplicateKey):
        write_together(store, lambda tables: tables.put_many(schema.outbox, [taken]))
    assert {row["request_id"]: row for row in stored(store, schema.outbox)} == {
        row["request_id"]: row for row in (request, other)
    }
    assert stored(store, schema.blobs) == []


def test_put_and_update_may_not_take_the_unique_value_of_another_row(store):
    request, other = fill(store, schema.outbox, row_of(schema.outbox), row_of(schema.outbox))
    taken = {"request_sequence": request["request_sequence"]}
    with store.transaction() as tables:
        with pytest.raises(DuplicateKey):
            tables.put(schema.outbox, other | taken)
        with pytest.raises(DuplicateKey):
            tables.put(schema.outbox, row_of(schema.outbox) | taken)
        with pytest.raises(DuplicateKey):
            tables.update(schema.outbox, (other["request_id"],), taken)
    by_id = sorted([request, other], key=lambda row: row["request_id"])
    assert stored(store, schema.outbox) == by_id


def test_a_value_that_was_given_up_can_be_taken(store):
    [row] = fill(store, schema.outbox, row_of(schema.outbox))
    with store.transaction() as tables:
        tables.update(schema.outbox, (row["request_id"],), {"request_sequence": 10**6})
        other = row_of(schema.outbox, request_sequence=row["request_sequence"])
        tables.insert(schema.outbox, other)
        with pytest.raises(DuplicateKey):
            tables.insert(schema.outbox, row_of(schema.outbox, request_sequence=10**6))


def answer(number, *, archived, key="key"):
    return row_of(
        schema.idempotency_records,
        idempotency_key=key,
        ec_sequence_number=number,
        archived=number if archived else 0,
    )


@pytest.mark.spec("§2.5")
def test_a_key_has_one_live_answer_and_any_number_of_archived_ones(store):
    table = schema.idempotency_records
    fill(
        store, table, answer(1, archived=True), answer(2, archived=True), answer(3, archived=False)
    )
    with store.transaction() as tables:
        with pytest.raises(DuplicateKey):
            tables.insert(table, answer(4, archived=False))
        with pytest.raises(DuplicateKey):
            tables.update(table, (1,), {"archived": 0})
        tables.insert(table, answer(4, archived=True))
        tables.insert(table, answer(5, archived=False, key="another key"))
        tables.update(table, (1,), {"content_digest": "of an archived record"})
        with pytest.raises(DuplicateKey):
            tables.insert(table, answer(6, archived=False))
        tables.update(table, (3,), {"archived": 3})
        tables.insert(table, answer(6, archived=False))
    with store.view() as tables:
        names = ("idempotency_key", "archived")
        assert {*tables.scan(TableQuery(table, columns=names, grouped=True))} == {
            *(("key", archived, 1) for archived in (0, 1, 2, 3, 4)),
            ("another key", 0, 1),
        }


def test_an_undone_archiving_leaves_the_live_answer_alone(store):
    table = schema.idempotency_records
    fill(store, table, answer(1, archived=False))
    with abandoned(store.transaction()) as tables:
        tables.update(table, (1,), {"archived": 1})
        tables.insert(table, answer(2, archived=False))
    with store.transaction() as tables, pytest.raises(DuplicateKey):
        tables.insert(table, answer(2, archived=False))


# Changing


def test_put_adds_a_row_or_replaces_the_one_with_its_key(store):
    row = row_of(schema.nodes)
    later = row | {"node_kind": "later", "record": b"later"}
    other = row_of(schema.nodes)
    with store.transaction() as tables:
        for version in (row, later, other):
            tables.put(schema.nodes, version)
        assert tables.scan(TableQuery(schema.nodes, {"node_kind": "later"})) == [later]
        assert tables.scan(TableQuery(schema.nodes, {"node_kind": row["node_kind"]})) == []
    assert stored(store, schema.nodes) == sorted([later, other], key=lambda node: node["node_id"])


def test_put_replaces_by_the_whole_of_a_key_of_several_columns(store):
    table = schema.belief_snapshots
    row, other = row_of(table, session_id="s"), row_of(table, session_id="s")
    with store.transaction() as tables:
        tables.put(table, row)
        tables.put(table, other)
        tables.put(table, row | {"snapshot_bytes": b"changed"})
    assert stored(store, table) == [row | {"snapshot_bytes": b"changed"}, other]


def test_update_sets_the_columns_of_one_row(store):
    edge, other = row_of(schema.edges), row_of(schema.edges)
    fill(store, schema.edges, edge, other)
    changes = {"input_from": None, "target_node_id": "t"}
    with store.transaction() as tables:
        tables.update(schema.edges, (edge["edge_id"],), changes)
        assert tables.get(schema.edges, edge["edge_id"]) == edge | changes
        assert tables.get(schema.edges, other["edge_id"]) == other
        assert tables.scan(TableQuery(schema.edges, {"target_node_id": "t"})) == [edge | changes]
        assert (
            tables.scan(TableQuery(schema.edges, {"target_node_id": edge["target_node_id"]})) == []
        )


def test_delete_before_removes_the_rows_below_the_bound_and_says_how_many(store):
    table = schema.ephemeral_receipts
    rows = fill(store, table, *(row_of(table, expires_at_us=n) for n in (10, 20, 20, 30)))
    with store.transaction() as tables:
        assert tables.delete_before(table, "expires_at_us", 10) == 0
        assert tables.delete_before(table, "expires_at_us", 21) == 3
        assert tables.delete_before(table, "expires_at_us", 21) == 0
    assert stored(store, table) == [rows[3]]


# Transactions


def test_an_exception_undoes_the_whole_transaction(store):
    kept, gone = row_of(schema.nodes), row_of(schema.nodes)
    receipt = row_of(schema.ephemeral_receipts)
    fill(store, schema.nodes, kept)
    fill(store, schema.ephemeral_receipts, receipt)
    with abandoned(store.transaction()) as tables:
        tables.insert(schema.nodes, gone)
        tables.put(schema.nodes, kept | {"record": b"changed"})
        tables.update(schema.nodes, (kept["node_id"],), {"node_kind": "changed"})
        tables.delete_before(schema.ephemeral_receipts, "expires_at_us", 10**9)
    assert stored(store, schema.nodes) == [kept]
    assert stored(store, schema.ephemeral_receipts) == [receipt]
    fill(store, schema.nodes, gone)
    with store.view() as tables:
        assert tables.scan(TableQuery(schema.nodes, {"node_kind": gone["node_kind"]})) == [gone]


def test_a_savepoint_undoes_what_is_inside_and_keeps_the_rest(store):
    before, inside, after = (row_of(schema.nodes, node_id=name) for name in "abc")
    with store.transaction() as tables:
        tables.insert(schema.nodes, before)
        with abandoned(tables.savepoint()):
            tables.insert(schema.nodes, inside)
            tables.update(schema.nodes, ("a",), {"record": b"changed"})
        assert tables.get(schema.nodes, "b") is None
        tables.insert(schema.nodes, after)
    assert stored(store, schema.nodes) == [before, after]


def test_a_savepoint_that_ends_well_is_kept(store):
    row = row_of(schema.nodes)
    with store.transaction() as tables, tables.savepoint():
        tables.insert(schema.nodes, row)
    assert stored(store, schema.nodes) == [row]


def test_savepoints_nest_and_the_outer_one_undoes_the_inner(store):
    rows = {name: row_of(schema.nodes, node_id=name) for name in "abcd"}
    with store.transaction() as tables:
        with abandoned(tables.savepoint()):
            tables.insert(schema.nodes, rows["a"])
            with tables.savepoint():
                tables.insert(schema.nodes, rows["b"])
        with tables.savepoint():
            tables.insert(schema.nodes, rows["c"])
            with abandoned(tables.savepoint()):
                tables.insert(schema.nodes, rows["d"])
    assert stored(store, schema.nodes) == [rows["c"]]


def test_a_duplicate_inside_a_savepoint_can_be_undone_and_worked_on(store):
    [first] = fill(store, schema.nodes, row_of(schema.nodes, node_id="a"))
    second = row_of(schema.nodes, node_id="b")
    with store.transaction() as tables:
        with abandoned(tables.savepoint()):
            tables.insert(schema.nodes, second)
            with pytest.raises(DuplicateKey):
                tables.insert(schema.nodes, first)
        tables.insert(schema.nodes, second)
    assert stored(store, schema.nodes) == [first, second]


def in_thread(action):
    results = []
    thread = threading.Thread(target=lambda: results.append(action()))
    thread.start()
    return thread, results


def test_a_view_shows_one_moment_however_long_it_is_open(store):
    [first] = fill(store, schema.nodes, row_of(schema.nodes))
    with store.view() as tables:
        assert tables.count(TableQuery(schema.nodes)) == 1
        writer, _ = in_thread(lambda: fill(store, schema.nodes, row_of(schema.nodes)))
        writer.join(0.05)  # a store may hold the writer off until the view is closed
        assert tables.scan(TableQuery(schema.nodes)) == [first]
    writer.join()
    assert len(stored(store, schema.nodes)) == 2


def test_nobody_sees_what_is_not_committed(store):
    with abandoned(store.transaction()) as tables:
        tables.insert(schema.nodes, row_of(schema.nodes))
        reader, results = in_thread(lambda: stored(store, schema.nodes))
        reader.join(0.05)  # a store may hold the reader off until the transaction has ended
    reader.join()
    assert results == [[]]


def test_writers_take_turns(store):
    fill(store, schema.policy_snapshots, row_of(schema.policy_snapshots, generation=0))
    key = stored(store, schema.policy_snapshots)[0]["policy_generation_id"]

    def raise_it():
        for _ in range(20):
            with store.transaction() as tables:
                now = tables.get(schema.policy_snapshots, key)["generation"]
                tables.update(schema.policy_snapshots, (key,), {"generation": now + 1})

    threads = [in_thread(raise_it)[0] for _ in range(3)]
    for thread in threads:
        thread.join()
    assert stored(store, schema.policy_snapshots)[0]["generation"] == 60


def test_a_store_that_was_closed_and_opened_again_has_everything(place):
    store = place.open()
    rows = fill(store, schema.nodes, row_of(schema.nodes), row_of(schema.nodes))
    with store.view() as tables:
        tables.count(TableQuery(schema.nodes))
    store.close()
    again = place.open()
    assert stored(again, schema.nodes) == sorted(rows, key=lambda row: row["node_id"])
    with again.transaction() as tables, pytest.raises(DuplicateKey):
        tables.insert(schema.nodes, rows[0])


def test_a_store_says_what_keeps_it(store):
    engine = store.engine()
    assert engine.pop("version").startswith(("memory", "SQLite 3.", "PostgreSQL "))
    assert all(isinstance(value, str) for value in engine.values())
