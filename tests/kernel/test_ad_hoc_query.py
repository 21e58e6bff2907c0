"""One SELECT on the ledger's tables: what is refused, what it is bounded by, what it answers."""

import hashlib
import re
import sqlite3
import time
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.schema import CreateTable

from kernel.ledger import schema
from kernel.ledger.ad_hoc_query import (
    TABLES,
    QueryAnswer,
    QueryBounds,
    QueryRefused,
    answer_query,
    table_documents,
)
from kernel.ledger.sqlite import query as sqlite_query
from kernel.ledger.sqlite.query import query_records
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.memory import MemoryStore
from kernel.ledger.store.tables import TableQuery
from tests.kernel import hostile_queries
from tests.kernel.build import create, ledger_on, submit
from tests.kernel.made_queries import OPEN, SECRET, made_query

CANARY = "only-for-gateways"
NOT_ALLOWED = "a query may not use the table"
WORDS = "only-in-the-other-file"
SEEDS = st.lists(st.integers(0, 2**32), min_size=1, max_size=20)
BOUNDS = QueryBounds(rows_max=20, bytes_max=4000, seconds_max=0.3)


@pytest.fixture
def sqlite(tmp_path):
    path = tmp_path / "ledger" / "ledger.db"
    path.parent.mkdir()
    ledger, _ = ledger_on(SqliteStore(path))
    submit(ledger, create("n-1", "Note", title="first"))
    ledger.close()
    store = SqliteStore(path, read_only=True)
    yield store
    store.close()


@pytest.fixture
def postgres_store(postgres_url):
    from kernel.ledger.postgres.store import PostgresStore  # noqa: PLC0415 - needs the driver

    ledger, _ = ledger_on(PostgresStore(postgres_url))
    submit(ledger, create("n-1", "Note", title="first"))
    ledger.close()
    store = PostgresStore(postgres_url, read_only=True)
    yield store
    store.close()


@pytest.fixture(params=["sqlite", "postgres"])
def store(request):
    return request.getfixturevalue({"postgres": "postgres_store"}.get(request.param, request.param))


def ask(store, sql, bounds=BOUNDS):
    return answer_query(store, sql, bounds, time.monotonic)


def ask_without_the_text_check(store, sql):
    """Ask the adapter itself, so that what the plan opens is all that stands between."""
    return store.query(sql, BOUNDS, time.monotonic)


def answer_or_refusal(path, sql):
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        connection.isolation_level = None
        try:
            return sqlite_query.run_query(connection, sql, BOUNDS, time.monotonic)
        except QueryRefused as error:
            return str(error)


@pytest.fixture(scope="module")
def files_with_secrets(tmp_path_factory):
    """Three ledgers that differ in their secrets alone."""
    folder, paths = tmp_path_factory.mktemp("secrets"), []
    for count in range(3):
        paths.append(folder / f"{count}.db")
        with closing(sqlite3.connect(paths[-1])) as connection:
            for table in sorted(OPEN):
                connection.execute(str(CreateTable(schema.metadata.tables[table])))
            connection.execute("INSERT INTO pre_images VALUES ('name', 'key')")
            connection.execute("INSERT INTO shard_epochs VALUES (0, 1, 'name', 2)")
            for table in sorted(SECRET):
                connection.execute(f"CREATE TABLE {table} (name TEXT PRIMARY KEY, key BLOB)")
                for place in range(count):
                    row = (f"name{place}", f"{CANARY}{place}")
                    connection.execute(f"INSERT INTO {table} VALUES (?, ?)", row)  # noqa: S608
            connection.commit()
    return paths


@pytest.fixture
def postgres_with_a_secret(postgres_store, postgres_url):
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(postgres_url, autocommit=True) as owner:
        owner.execute("CREATE TABLE foreigners (name text, key bytea)")
        owner.execute("INSERT INTO foreigners VALUES ('mail', %s)", (CANARY.encode(),))
        yield postgres_store
        owner.execute("DROP TABLE foreigners")


def content_of(store):
    with store.view() as tables:
        from kernel.ledger.schema import metadata  # noqa: PLC0415 - near its use

        return {name: tables.scan(TableQuery(table)) for name, table in metadata.tables.items()}


def test_the_corpus_has_as_many_statements_as_it_should():
    assert len(set(hostile_queries.statements("x"))) >= 200


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sum(v) AS n FROM (SELECT 1e308 AS v UNION ALL SELECT 1e308) AS t",
        f"SELECT {'9' * 400} AS n",
        "SELECT -1e400 AS n, 12 AS m",
    ],
)
def test_a_number_beyond_every_float_is_a_text(store, sql):
    [[number, *others]] = ask(store, sql).rows
    assert isinstance(number, str)
    assert number.lstrip("-")[:3] in ("inf", "200", "999", "100")
    assert others in ([], [12])


def test_integers_whose_sum_no_integer_can_be_are_a_float_or_an_error_of_the_query(store):
    sql = "SELECT sum(v) AS n FROM (SELECT 9223372036854775807 AS v UNION ALL SELECT 1) AS t"
    if isinstance(store, SqliteStore):
        with pytest.raises(QueryRefused, match="integer overflow") as refused:
            ask(store, sql)
        assert refused.value.code == "query_failed"
    else:
        assert ask(store, sql).rows == [[2**63]]


def test_no_statement_of_the_corpus_writes_or_reads_another_file(store, tmp_path):
    other = tmp_path / "secret.txt"
    other.write_text(WORDS)
    before = content_of(store)
    files = {path: path.stat().st_size for path in tmp_path.rglob("*.db")}
    for sql in hostile_queries.statements(str(other)):
        with pytest.raises(QueryRefused) as refused:
            ask(store, sql)
        assert WORDS not in str(refused.value), sql
        assert refused.value.code in ("query_refused", "query_failed"), sql
    assert content_of(store) == before
    assert other.read_text() == WORDS
    assert {path: path.stat().st_size for path in tmp_path.rglob("*.db")} == files
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["secret.txt"]


def test_no_statement_of_the_corpus_is_carried_out_on_records_of_a_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    other = tmp_path / "secret.txt"
    other.write_text(WORDS)
    table = schema.metadata.tables["landscape_tokens"]
    rows = [dict.fromkeys(map(str, table.columns.keys()), "x")]
    for sql in hostile_queries.statements(str(other)):
        with pytest.raises(QueryRefused) as refused:
            query_records({table: rows}, sql, BOUNDS, time.monotonic)
        assert refused.value.code in ("query_refused", "query_failed"), sql
    assert [path.name for path in tmp_path.iterdir()] == ["secret.txt"]
    assert other.read_text() == WORDS


@pytest.mark.parametrize("sql", hostile_queries.ENDLESS)
def test_what_has_no_end_is_ended(store, sql):
    with pytest.raises(QueryRefused) as refused:
        ask(store, sql)
    assert refused.value.code == "query_timed_out"
    assert ask(store, "SELECT 1 AS x").rows == [[1]]


def test_a_value_that_doubles_without_end_is_refused(store):
    doubling = (
        "WITH RECURSIVE t(x) AS (SELECT 'xxxxxxxxxxxxxxxx' UNION ALL SELECT x || x FROM t)"
        " SELECT max(x) AS x FROM t"
    )
    with pytest.raises(QueryRefused) as refused:
        ask(store, doubling)
    assert refused.value.code in ("query_timed_out", "query_failed")


@pytest.mark.parametrize("sql", hostile_queries.LARGE)
def test_an_answer_is_bounded_in_rows_and_bytes(store, sql):
    answer = ask(store, sql)
    assert answer.cut_by in ("rows_max", "bytes_max")
    assert 0 < len(answer.rows) <= BOUNDS.rows_max
    assert sum(len(str(value)) for row in answer.rows for value in row) <= BOUNDS.bytes_max


@pytest.mark.parametrize(
    ("sql", "columns", "rows"),
    [
        ("SELECT count(*) AS n FROM nodes", ("n",), [[1]]),
        ("select node_id from nodes where node_kind = 'Note';", ("node_id",), [["n-1"]]),
        ("-- why\nSELECT node_id FROM nodes -- all", ("node_id",), [["n-1"]]),
        ("SELECT 'it''s; -- no comment' AS x", ("x",), [["it's; -- no comment"]]),
        ("SELECT node_id AS created_at FROM nodes", ("created_at",), [["n-1"]]),
        ("SELECT 'DROP TABLE nodes' AS updated_at", ("updated_at",), [["DROP TABLE nodes"]]),
        ("SELECT 1.5 AS x, NULL AS y", ("x", "y"), [[1.5, None]]),
        ("SELECT node_id FROM nodes WHERE node_id IN ('a', 'b')", ("node_id",), []),
        ("SELECT n.node_id AS x FROM (SELECT node_id FROM nodes) AS n", ("x",), [["n-1"]]),
        ("WITH t(a, b) AS (VALUES (1, 2)) SELECT a, b FROM t", ("a", "b"), [[1, 2]]),
        ("SELECT upper(substr(node_id, 1, 1)) AS x FROM nodes", ("x",), [["N"]]),
        ("SELECT row_number() OVER (ORDER BY node_id) AS x FROM nodes", ("x",), [[1]]),
        ('SELECT "node_id" FROM "nodes"', ("node_id",), [["n-1"]]),
    ],
)
def test_a_question_is_answered(store, sql, columns, rows):
    answer = ask(store, sql)
    assert (answer.columns, answer.rows, answer.cut_by) == (columns, rows, None)


def test_every_table_can_be_asked_for_every_column(store):
    for document in table_documents():
        names = ", ".join(f'"{name}"' for name in document["columns"])
        answer = ask(store, f"SELECT {names} FROM {document['table']}")  # noqa: S608 - a table's
        assert answer.columns == tuple(document["columns"])
    assert {document["table"] for document in table_documents()} == TABLES


@pytest.mark.parametrize("sql", hostile_queries.HIDDEN_FROM_OTHER_LEXERS)
def test_postgres_is_read_as_it_reads_itself(postgres_store, sql):
    with pytest.raises(QueryRefused) as refused:
        ask(postgres_store, sql)
    assert refused.value.code == "query_refused"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT key FROM foreigners",
        "SELECT m.key FROM nodes AS n LEFT JOIN foreigners AS m ON m.name = n.node_id",
        "SELECT count(*) AS n FROM nodes WHERE EXISTS (SELECT 1 FROM foreigners WHERE key > '')",
        "WITH t AS (SELECT key AS k FROM foreigners) SELECT max(k) AS k FROM t",
        "SELECT (SELECT name FROM foreigners) AS name",
        "SELECT m AS whole FROM foreigners AS m",
        *hostile_queries.SECRETS,
    ],
)
def test_a_table_that_is_not_the_ledgers_is_in_no_answer(store, sql):
    with pytest.raises(QueryRefused):
        ask(store, sql)
    with pytest.raises(QueryRefused):
        ask_without_the_text_check(store, sql)


@pytest.mark.parametrize(
    "sql",
    [
        "/* a */ SELECT 1 AS x",
        "/***/ -- b\n/* * / ** */SELECT 1 AS x",
        "-- /*\n\t values (1)",
        "/**//**/with t as (select 1 as x) select x from t",
    ],
)
def test_comments_may_stand_before_a_query_on_sqlite(sqlite, sql):
    assert ask(sqlite, sql).rows == [[1]]


@pytest.mark.parametrize(
    "sql", ["/**/" * 4000, "/*" * 9000, "--" * 9000, "(" * 19_000, "\n" * 19_000]
)
def test_a_text_that_never_begins_is_refused(store, sql):
    with pytest.raises(QueryRefused):
        ask(store, sql)


def doubled(levels, name="a{}", body="SELECT 1 AS x FROM {0} AS p, {0} AS q"):
    names = [name.format(level) for level in range(levels)]
    parts = [f"{here} AS ({body.format(before)})" for before, here in pairwise(names)]
    first = f"{names[0]} AS (SELECT 1 AS x)"
    return f"WITH {', '.join([first, *parts])} SELECT count(*) AS n FROM {names[-1]}"  # noqa: S608


@pytest.mark.parametrize(
    "sql",
    [
        doubled(40),
        doubled(40, name='"A {}"'),
        doubled(40, name="[a{}]"),
        doubled(40, body="SELECT 1 AS x FROM {0} UNION ALL SELECT 2 FROM {0}"),
        doubled(40, body="SELECT x FROM {0} WHERE x IN {0} OR x IN (SELECT x FROM {0})"),
        doubled(40).replace(" AS (", "(x) AS NOT MATERIALIZED /* ( */ ("),
        doubled(40).replace(" AS (", "(x) AS -- (\n("),
        doubled(40, name="'a{}'"),
        re.sub(
            r'FROM "a""(\d+)" AS p, "a""(\d+)"', r'FROM [a"\1] AS p, `a"\2`', doubled(40, '"a""{}"')
        ),
        doubled(40).replace(" AS (SELECT 1", '("(") AS (SELECT 1'),
    ],
)
def test_names_of_with_that_double_each_other_are_not_compiled(sqlite, sql):
    """SQLite compiles a name as often as it is read, and nothing interrupts it."""
    with pytest.raises(QueryRefused, match="WITH"):
        ask(sqlite, sql)


def test_names_of_with_may_be_read_several_times(sqlite):
    assert ask(sqlite, doubled(10)).rows == [[1]]
    columns = ", ".join(f"a.x AS c{place}" for place in range(60))
    text = f"WITH a AS (SELECT 1 AS x), b AS (SELECT 2 AS y) SELECT {columns} FROM a, b"  # noqa: S608
    assert len(ask(sqlite, text).columns) == 60


def test_a_view_does_not_hide_a_table_of_secrets(tmp_path):
    """The text does not name it, and SQLite asks its authorizer for nothing of it."""
    with closing(sqlite3.connect(tmp_path / "v.db", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE foreigners (name, key)")
        connection.execute("CREATE VIEW nodes AS SELECT count(*) AS n FROM foreigners")
        with pytest.raises(QueryRefused, match="foreigners"):
            sqlite_query.run_query(connection, "SELECT * FROM nodes", BOUNDS, time.monotonic)


def test_only_the_two_virtual_tables_of_json_are_opened():
    """The instruction that opens one names it by its address alone, so others differ in that."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        pages = sqlite_query.PageCheck(connection)
        pages.check(connection, "SELECT * FROM json_each('[]'), json_tree('[]')")
        for table in ("pragma_table_list", "pragma_database_list", "pragma_table_info('nodes')"):
            with pytest.raises(QueryRefused, match="VOpen"):
                pages.check(connection, f"SELECT * FROM {table}")  # noqa: S608


@given(SEEDS)
def test_what_is_answered_is_the_same_whatever_the_secret_is(files_with_secrets, seeds):
    """Neither the key nor how many keys there are changes an answer, with the plan check alone."""
    for seed in seeds:
        sql = made_query(SECRET | OPEN, seed)
        answers = [answer_or_refusal(path, sql) for path in files_with_secrets]
        assert all(answer == answers[0] for answer in answers), sql
        assert CANARY not in str(answers), sql
        assert CANARY.encode().hex() not in str(answers), sql


@given(SEEDS)
def test_what_reads_no_secret_is_not_refused(files_with_secrets, seeds):
    for seed in seeds:
        sql = made_query(OPEN, seed)
        assert NOT_ALLOWED not in str(answer_or_refusal(files_with_secrets[0], sql)), sql


def test_of_the_queries_that_are_made_some_are_answered_and_some_are_refused(files_with_secrets):
    """Most have no such column; what is left must be both, or the two tests above say nothing."""
    queries = [made_query(SECRET | OPEN, seed) for seed in range(600)]
    came_to = [answer_or_refusal(files_with_secrets[1], sql) for sql in queries]
    assert sum(NOT_ALLOWED in str(answer) for answer in came_to) > 60
    assert sum(isinstance(answer, QueryAnswer) for answer in came_to) > 30


def test_postgres_never_answers_with_the_secret(postgres_with_a_secret):
    for seed in range(200):
        sql = made_query(SECRET | OPEN, seed)
        try:
            answer = str(ask_without_the_text_check(postgres_with_a_secret, sql))
        except QueryRefused as error:
            answer = str(error)
        assert CANARY not in answer, sql
        assert CANARY.encode().hex() not in answer, sql


def test_long_values_are_shown_by_their_beginning(sqlite):
    [[text]] = ask(
        sqlite,
        "WITH t(x) AS (SELECT hex('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa')) "
        "SELECT x||x||x||x||x||x||x||x||x||x||x||x||x||x||x||x||x||x||x||x||x||x||x"
        "||x||x||x||x||x||x||x||x||x||x||x||x||x||x||x||x AS y FROM t",
    ).rows
    assert text.endswith("… (2496 characters)")
    [[shown]] = ask(sqlite, "SELECT x'ff00ff' AS x").rows
    assert shown == "ff00ff"


def test_a_file_is_as_it_was_byte_by_byte(sqlite, tmp_path: Path):
    path = tmp_path / "ledger" / "ledger.db"
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    for sql in hostile_queries.statements("/etc/hostname"):
        with pytest.raises(QueryRefused):
            ask(sqlite, sql)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before


def test_a_ledger_in_memory_has_no_sql():
    with pytest.raises(QueryRefused):
        ask(MemoryStore(), "SELECT 1 AS x")
