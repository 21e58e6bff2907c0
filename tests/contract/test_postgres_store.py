"""What a server adds to the port: its tables, locks, lost connections, and an unanswered COMMIT."""

import itertools
import os
import re
import threading
import time
from contextlib import ExitStack, closing, contextmanager, nullcontext
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

psycopg = pytest.importorskip("psycopg", reason="no PostgreSQL: the driver is not installed")

from kernel.audit.open_reviews import open_reviews  # noqa: E402 - after the driver
from kernel.ledger import schema  # noqa: E402 - likewise
from kernel.ledger.ad_hoc_query import QueryBounds  # noqa: E402 - likewise
from kernel.ledger.ledger import Ledger, LedgerView  # noqa: E402 - likewise
from kernel.ledger.postgres import connection as postgres_connection  # noqa: E402 - likewise
from kernel.ledger.postgres import schema as postgres_schema  # noqa: E402 - likewise
from kernel.ledger.postgres import store as postgres  # noqa: E402 - likewise
from kernel.ledger.postgres.connection import place_of  # noqa: E402 - likewise
from kernel.ledger.postgres.store import PostgresStore  # noqa: E402 - likewise
from kernel.ledger.store.keys import key_names  # noqa: E402 - likewise
from kernel.ledger.store.tables import DuplicateKey, TableQuery  # noqa: E402 - likewise
from kernel.records.reviews.evidence import STORES  # noqa: E402 - likewise
from kernel.values.errors import (  # noqa: E402 - likewise
    CommitOutcomeUnknown,
    LedgerSchemaDiffers,
    LedgerUnavailable,
    TextNotStorable,
)
from kernel.verify import verify  # noqa: E402 - likewise
from tests.chaos.proxy import Proxies  # noqa: E402 - likewise
from tests.connections import watch_postgres  # noqa: E402 - likewise
from tests.contract.nodes import add, names, node  # noqa: E402 - likewise
from tests.contract.test_ledger_store import MISSHAPEN, row_of  # noqa: E402 - likewise
from tests.kernel.build import FakeHost, abandoned, create, submit  # noqa: E402 - likewise


@pytest.fixture
def connections(monkeypatch):
    return watch_postgres(monkeypatch)


@pytest.fixture
def store(connections, postgres_url):
    store = PostgresStore(postgres_url)
    yield store
    store.close()


def raw(url, *statements):
    """Run statements past the store, as somebody with the database could."""
    with psycopg.connect(url, autocommit=True) as connection:
        cursors = [connection.execute(statement) for statement in statements]
        return [cursor.fetchall() if cursor.description else [] for cursor in cursors]


def numbered(sql):
    """A text with its places as PREPARE has them."""
    places = itertools.count(1)
    return re.sub("%s", lambda _: f"${next(places)}", sql)


@contextmanager
def holding(url, *statements):
    """A transaction of somebody else, open for as long as the block runs."""
    with psycopg.connect(url) as connection:
        for statement in statements:
            connection.execute(statement)
        yield connection
        connection.rollback()


def end_others(url):
    """End every other connection to the database, as a restart of the server would."""
    raw(
        url,
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )


# The tables


def test_integers_have_64_bits_text_is_ordered_by_bytes_and_nothing_counts_by_itself(postgres_url):
    [columns] = raw(
        postgres_url,
        "SELECT data_type, collation_name, column_default FROM information_schema.columns"
        " WHERE table_schema = current_schema()",
    )
    expected = {("bigint", None, None), ("character varying", "C", None), ("bytea", None, None)}
    assert set(columns) == expected
    assert len(columns) == sum(len(table.columns) for table in schema.metadata.sorted_tables)


@pytest.mark.spec("§17.4")
@pytest.mark.parametrize("table", schema.APPEND_ONLY_TABLES, ids=lambda table: table.name)
@pytest.mark.parametrize("change", ["UPDATE {} SET {} = {}", "DELETE FROM {}", "TRUNCATE {}"])
def test_history_refuses_change_even_past_the_store(store, postgres_url, table, change):
    column = table.columns.keys()[0]
    row = {
        column_.name: 1 if str(column_.type) == "INTEGER" else "completed"
        for column_ in table.columns
    }
    row |= {column_.name: b"1" for column_ in table.columns if str(column_.type) == "BLOB"}
    known = {"semantic_intent": "create", "store": "nodes"}
    row |= {name: value for name, value in known.items() if name in row}
    with store.transaction() as tables:
        tables.insert(table, row)
    with pytest.raises(psycopg.errors.RaiseException, match="append only"):
        raw(postgres_url, change.format(table.name, column, column))
    with store.view() as tables:
        assert tables.scan(TableQuery(table)) == [row]


@pytest.mark.parametrize(("table", "changes"), MISSHAPEN)
def test_a_value_without_its_shape_is_not_stored(store, table, changes):
    with pytest.raises(psycopg.errors.CheckViolation), store.transaction() as tables:
        tables.insert(table, row_of(table) | changes)
    with store.view() as tables:
        assert tables.scan(TableQuery(table)) == []


def test_stores_that_create_the_tables_at_once_agree_on_one_ledger(postgres_empty_url, monkeypatch):
    # On a busy machine the first may need longer than the others wait for its lock.
    monkeypatch.setattr(postgres_connection, "LOCK_TIMEOUT_MS", 60_000)
    monkeypatch.setattr(postgres_connection, "REPLY_MAX_S", 62.0)
    ledgers, failures = [], []

    def found_ledger():
        try:
            ledgers.append(Ledger.create(PostgresStore(postgres_empty_url), FakeHost().host))
        except Exception as error:  # noqa: BLE001 - shown below
            failures.append(error)

    threads = [threading.Thread(target=found_ledger) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(ledgers) == 4
    with ledgers[0].view() as view:
        assert view.tables.count(TableQuery(schema.chain_head)) == view.tables.count(
            TableQuery(schema.policy_snapshots)
        )
        assert view.tables.count(TableQuery(schema.chain_head)) == 1
    for ledger in ledgers:
        ledger.close()


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(
    ("comment", "code"),
    [
        ("'rotulus ledger, schema 1'", "ledger_schema_older"),
        ("'rotulus ledger, schema 9999'", "ledger_schema_newer"),
        ("'our roll'", "ledger_schema_unknown"),
        ("NULL", "ledger_schema_unknown"),
    ],
)
def test_tables_of_another_version_are_refused(postgres_empty_url, comment, code, read_only):
    PostgresStore(postgres_empty_url).close()
    raw(postgres_empty_url, f"COMMENT ON TABLE chain_head IS {comment}")
    with pytest.raises(LedgerSchemaDiffers) as refused:
        PostgresStore(postgres_empty_url, read_only=read_only)
    assert refused.value.code == code


@pytest.mark.parametrize("founded", [False, True])
def test_a_writer_whose_tables_were_migrated_meanwhile_is_refused(store, postgres_url, founded):
    if founded:
        Ledger.create(store, FakeHost().host)
    add(store, "a")
    newer = f"rotulus ledger, schema {schema.SCHEMA_VERSION + 1}"
    raw(postgres_url, f"COMMENT ON TABLE chain_head IS '{newer}'")
    try:
        with pytest.raises(LedgerSchemaDiffers) as refused, store.transaction():
            pytest.fail("it was let write")
        assert refused.value.code == "ledger_schema_newer"
    finally:
        mine = f"rotulus ledger, schema {schema.SCHEMA_VERSION}"
        raw(postgres_url, f"COMMENT ON TABLE chain_head IS '{mine}'")
    add(store, "b")
    assert names(store) == ["a", "b"]


def test_a_database_in_another_encoding_is_refused_and_left_alone(postgres, postgres_empty_url):
    name = postgres_empty_url.split("/")[3].split("?")[0]
    raw(
        postgres.url,
        f"DROP DATABASE {name}",
        f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'",
    )
    with pytest.raises(LedgerUnavailable) as refused:
        PostgresStore(postgres_empty_url)
    assert refused.value.code == "ledger_encoding"
    assert raw(postgres_empty_url, "SELECT to_regclass('chain_head')") == [[(None,)]]


# The right to write


@pytest.mark.spec("K18")
def test_a_read_only_handle_reads_and_the_server_refuses_its_writes(store, postgres_url):
    add(store, "a")
    reader = PostgresStore(postgres_url, read_only=True)
    assert names(reader) == ["a"]
    with pytest.raises(LedgerUnavailable) as refused, reader.transaction():
        pass
    assert refused.value.code == "ledger_read_only"
    for write in (
        lambda tables: tables.insert(schema.nodes, node("b")),
        lambda tables: tables.update(schema.nodes, ("a",), {"record": b"x"}),
        lambda tables: tables.delete(schema.nodes, "a"),
    ):
        with (
            pytest.raises(psycopg.errors.ReadOnlySqlTransaction),
            reader.view() as tables,
        ):
            write(tables)
    assert names(reader) == names(store) == ["a"]
    reader.close()


@pytest.mark.spec("K18")
def test_a_role_that_may_only_select_is_enough_to_read(store, connections, postgres_url):
    add(store, "a")
    role = f"rotulus_reader_{os.getpid()}"
    raw(
        postgres_url,
        f"CREATE ROLE {role} LOGIN",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}",
    )
    try:
        joined = "&" if "?" in postgres_url else "?"
        reader = PostgresStore(f"{postgres_url}{joined}options=-c%20role%3D{role}", read_only=True)
        assert names(reader) == ["a"]
        with reader.view():
            user = connections.last.execute("SELECT current_user::text").fetchall()
        assert user == [(role,)]
        reader.close()
    finally:
        raw(postgres_url, f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def test_a_handle_that_may_only_read_creates_nothing(postgres_empty_url):
    with pytest.raises(LedgerUnavailable, match="no ledger at"):
        PostgresStore(postgres_empty_url, read_only=True)
    assert raw(postgres_empty_url, "SELECT to_regclass('chain_head')") == [[(None,)]]


# Durability and connections


def test_a_commit_waits_for_the_disk_whatever_the_servers_default_is(
    connections, postgres_empty_url
):
    name = postgres_empty_url.split("/")[3].split("?")[0]
    raw(postgres_empty_url, f"ALTER DATABASE {name} SET synchronous_commit = off")
    careful = PostgresStore(postgres_empty_url)
    with careful.transaction():
        [setting] = connections.last.execute("SHOW synchronous_commit").fetchall()
    assert setting == ("on",)
    careful.close()


def test_a_closed_store_opens_itself_again(store):
    add(store, "a")
    store.close()
    add(store, "b")
    assert names(store) == ["a", "b"]


def test_more_readers_than_are_kept_idle_may_read_at_once(postgres_url, connections):
    store = PostgresStore(postgres_url, connections=postgres.IDLE_READERS_MAX + 3)
    add(store, "a")
    views = [store.view() for _ in range(postgres.IDLE_READERS_MAX + 2)]
    assert [view.__enter__().count(TableQuery(schema.nodes)) for view in views] == [1] * len(views)
    for view in views:
        view.__exit__(None, None, None)
    assert len(connections.open) == postgres.IDLE_READERS_MAX + 1, "and the writer's"
    assert names(store) == ["a"]
    store.close()


def test_a_store_has_so_many_connections_and_not_one_more(monkeypatch, postgres_url):
    monkeypatch.setattr(postgres, "READER_WAIT_S", 0.05)
    store = PostgresStore(postgres_url, connections=4)
    add(store, "a")
    with ExitStack() as stack:
        for _ in range(3):
            assert stack.enter_context(store.view()).count(TableQuery(schema.nodes)) == 1
        with pytest.raises(LedgerUnavailable, match="3 snapshots are open"):
            names(store)
        add(store, "b")
        [[(connections,)]] = raw(
            postgres_url,
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name = 'rotulus'",
        )
        assert connections == 4
    assert names(store) == ["a", "b"]
    store.close()


@pytest.mark.parametrize(("read_only", "snapshots"), [(False, 7), (True, 8)])
def test_a_store_has_eight_connections_unless_told_otherwise(
    monkeypatch, postgres_url, read_only, snapshots
):
    monkeypatch.setattr(postgres, "READER_WAIT_S", 0.05)
    PostgresStore(postgres_url).close()
    store = PostgresStore(postgres_url, read_only=read_only)
    with ExitStack() as stack:
        for _ in range(snapshots):
            stack.enter_context(store.view())
        with pytest.raises(LedgerUnavailable, match=f"{snapshots} snapshots are open"):
            names(store)
    store.close()


@pytest.fixture
def limited(postgres, postgres_url):
    """A database on which every session would have limits that a service may set."""
    name = urlsplit(postgres_url).path.lstrip("/")
    limits = ("statement_timeout", "idle_in_transaction_session_timeout", "lock_timeout")
    for limit in limits:
        postgres.run(f"ALTER DATABASE {name} SET {limit} = '60ms'")
    yield postgres_url
    for limit in limits:
        postgres.run(f"ALTER DATABASE {name} RESET {limit}")


def test_a_role_that_owns_nothing_but_its_database_founds_a_ledger_and_verifies_it(postgres):
    url = postgres.new_database()
    name = urlsplit(url).path.lstrip("/")
    limits = ("NOSUPERUSER", "NOCREATEDB", "NOCREATEROLE", "NOREPLICATION", "CONNECTION LIMIT 3")
    postgres.run(f"CREATE ROLE customer LOGIN {' '.join(limits)}")
    postgres.run(f"ALTER DATABASE {name} OWNER TO customer")
    place = url.replace("//rotulus@", "//customer@")
    try:
        with closing(Ledger.create(PostgresStore(place, connections=3), FakeHost().host)) as ledger:
            submit(ledger, create("n", "Note"))
            with ledger.view() as view, ledger.view():
                verification = verify(view)
            assert verification.ok, verification.findings
            with pytest.raises(LedgerUnavailable, match="too many connections"):
                PostgresStore(place)
    finally:
        postgres.drop(url)
        postgres.run("DROP ROLE customer")


def test_what_bounds_a_wait_is_what_the_server_was_told(limited, connections):
    store = PostgresStore(limited)
    query = (
        "SELECT name, setting FROM pg_settings WHERE name = ANY(ARRAY['lock_timeout',"
        " 'idle_in_transaction_session_timeout', 'statement_timeout'])"
    )
    with store.transaction():
        writer = dict(connections.last.execute(query).fetchall())
    with store.view():
        reader = dict(connections.last.execute(query).fetchall())
    lock_ms = str(postgres_connection.LOCK_TIMEOUT_MS)
    look_ms = str(postgres.LOOK_EACH_MS)
    idle_ms = str(postgres_connection.IDLE_WRITER_MAX_MS)
    assert (writer["lock_timeout"], reader["lock_timeout"]) == (look_ms, lock_ms)
    assert writer["idle_in_transaction_session_timeout"] == idle_ms
    assert reader["idle_in_transaction_session_timeout"] == "0", "an export may take its time"
    assert (writer["statement_timeout"], reader["statement_timeout"]) == ("0", "0")
    store.close()


def add_in_turn(store, name):
    with store.turn() as turn:
        turn.hold([]).insert_many(schema.nodes, [node(name)])


@pytest.mark.parametrize("add", [add, add_in_turn])
def test_who_waits_for_the_head_while_the_tables_go_forward_is_refused(postgres_empty_url, add):
    waiting = PostgresStore(postgres_empty_url)
    Ledger.create(waiting, FakeHost().host)
    for number in range(8):  # so often that the statements are prepared
        add(waiting, f"n-{number}")
    refused = []

    def write():
        try:
            add(waiting, "late")
        except Exception as error:  # noqa: BLE001 - looked at below
            refused.append(error)

    newer = f"'rotulus ledger, schema {schema.SCHEMA_VERSION + 1}'"
    migrating = (
        "LOCK TABLE chain_head IN ACCESS EXCLUSIVE MODE",
        f"COMMENT ON TABLE chain_head IS {newer}",
    )
    blocked = (
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        " AND datname = current_database()"
    )
    with holding(postgres_empty_url, *migrating) as connection:
        writer = threading.Thread(target=write)
        writer.start()
        while raw(postgres_empty_url, blocked) != [[(1,)]]:
            assert writer.is_alive()
        connection.commit()
        writer.join()
    assert [getattr(refusal, "code", refusal) for refusal in refused] == ["ledger_schema_newer"]
    waiting.close()


def test_connections_that_were_lost_while_idle_are_replaced_and_nobody_notices(store, postgres_url):
    add(store, "a")
    assert names(store) == ["a"]
    end_others(postgres_url)
    add(store, "b")
    assert names(store) == ["a", "b"]


def test_a_connection_lost_in_a_transaction_undoes_it_and_the_next_one_works(store, postgres_url):
    def lose_it():
        with store.transaction() as tables:
            tables.insert(schema.nodes, node("a"))
            end_others(postgres_url)
            with tables.savepoint():
                tables.insert(schema.nodes, node("b"))

    with pytest.raises(LedgerUnavailable) as lost:
        lose_it()
    assert lost.value.code == "ledger_unavailable"
    add(store, "c")
    assert names(store) == ["c"]


def test_a_connection_lost_in_a_view_ends_it_and_the_next_one_works(store, postgres_url):
    add(store, "a")
    with store.view() as tables:
        end_others(postgres_url)
        with pytest.raises(LedgerUnavailable):
            tables.count(TableQuery(schema.nodes))
    assert names(store) == ["a"]


def test_a_connection_lost_among_rows_that_are_sent_together_undoes_them(store, postgres_url):
    add(store, "a")

    def write_meanwhile():
        with store.transaction() as tables, tables.together():
            tables.insert_many(schema.nodes, [node("b")])
            end_others(postgres_url)
            tables.insert_many(schema.nodes, [node("c")])

    with pytest.raises(LedgerUnavailable):
        write_meanwhile()
    add(store, "d")
    assert names(store) == ["a", "d"]


def test_what_is_sent_together_is_judged_when_the_block_ends(store):
    add(store, "a")
    sent = []

    def add_again():
        with store.transaction() as tables, tables.together():
            tables.insert_many(schema.nodes, [node("a")])
            sent.append("without a wait for the reply")

    with pytest.raises(DuplicateKey):
        add_again()
    assert sent
    add(store, "b")
    assert names(store) == ["a", "b"]


@pytest.mark.spec("K25")
def test_what_the_server_refuses_ahead_of_commit_is_known_to_be_undone(store):
    too_long = "".join(chr(number) for number in range(48, 9000))

    def add_too_long():
        with store.transaction() as tables, tables.together():
            tables.insert_many(schema.nodes, [node(too_long)])

    # The driver prepares what it has sent a few times.
    for number in range(8):
        with pytest.raises(TextNotStorable, match="index row"):
            add_too_long()
        add(store, f"a-{number}")
    assert len(names(store)) == 8


def test_a_server_that_is_not_there_makes_the_ledger_unavailable():
    with pytest.raises(LedgerUnavailable) as refused:
        PostgresStore("postgresql://user:much-secret@127.0.0.1:1/roll")
    assert "postgresql://127.0.0.1:1/roll" in str(refused.value)
    assert "much-secret" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:much-secret@h/d?nonsense",
        "much-secret",
        "postgresql://[much-secret",
        "postgresql://u:p@much-secret@h1,h2/d",
        "postgresql://u:5432/much-secret@h/d",
        "postgresql://u:much-secret/d",
        "postgresql://h1:5432,h2:much-secret/d",
    ],
)
def test_a_url_that_cannot_be_read_is_not_repeated(url):
    with pytest.raises(LedgerUnavailable) as refused:
        PostgresStore(url)
    assert refused.value.code == "database_url_invalid"
    assert "much-secret" not in str(refused.value)
    assert refused.value.__cause__ is refused.value.__context__ is None


def test_a_place_is_named_without_its_user_and_password():
    assert place_of("postgresql://u:p@db.example:5433/roll") == "postgresql://db.example:5433/roll"
    assert place_of("postgresql:///roll") == "postgresql://localhost:5432/roll"
    several = "postgresql://u:p@h1:5433,h2,[::1]:5434/roll?target_session_attrs=primary"
    assert place_of(several) == "postgresql://h1:5433,h2:5432,[::1]:5434/roll"
    assert place_of("postgresql://u:p@h1,h2/roll?port=6") == "postgresql://h1:6,h2:6/roll"


# Several hosts

BOUNDS = QueryBounds(rows_max=10, bytes_max=1000, seconds_max=5)


@pytest.fixture
def url_of(postgres_url):
    """The URL of the tests' server behind a host where there is none, with one more parameter."""
    parts = urlsplit(postgres_url)
    host = parse_qs(parts.query).get("host", [parts.hostname])[0]
    ports = f"1,{parts.port or 5432}"
    user = f"{parts.netloc.rpartition('@')[0]}@".lstrip("@")

    def with_parameters(query):
        return f"postgresql://{user}{parts.path}?host=127.0.0.1,{host}&port={ports}{query}"

    return with_parameters


@pytest.mark.parametrize("attrs", ["read-write", "primary", "any", "prefer-standby", "standby"])
def test_every_connection_of_a_store_that_writes_is_to_the_primary(connections, url_of, attrs):
    url = url_of(f"&target_session_attrs={attrs}")
    store = PostgresStore(url)
    add(store, "a")
    assert names(store) == ["a"]
    answer = store.query("SELECT count(*) AS n FROM nodes", BOUNDS, time.monotonic)
    assert answer.rows == [[1]]
    assert {each.info.parameter_status("in_hot_standby") for each in connections.open} == {"off"}
    store.close()
    assert postgres_schema.migrate(url).revisions == ()


@pytest.mark.spec("K18")
@pytest.mark.parametrize("attrs", ["", "&target_session_attrs=read-write"])
def test_a_handle_that_may_only_read_finds_the_host_that_may_be_written(store, url_of, attrs):
    add(store, "a")
    reader = PostgresStore(url_of(attrs), read_only=True)
    assert names(reader) == ["a"]
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction), reader.view() as tables:
        tables.insert(schema.nodes, node("b"))
    answer = reader.query("SELECT count(*) AS n FROM nodes", BOUNDS, time.monotonic)
    assert answer.rows == [[1]]
    reader.close()
    assert postgres_schema.migrate(url_of(attrs), dry_run=True).revisions == ()


def test_no_host_that_is_there_is_said_with_every_host_and_without_a_secret():
    with pytest.raises(LedgerUnavailable) as refused:
        PostgresStore("postgresql://user:much-secret@127.0.0.1:1,127.0.0.1:2/roll")
    assert "postgresql://127.0.0.1:1,127.0.0.1:2/roll" in str(refused.value)
    assert "much-secret" not in str(refused.value)


def test_a_url_may_wait_shorter_for_each_host_and_not_longer():
    assert [
        postgres_connection.connect_timeout_s({"connect_timeout": stated})
        for stated in ("2", "60", "soon", None)
    ] == [2, 5, 5, 5]


# Locks

LOCKS = {
    "unfounded": "SELECT pg_advisory_xact_lock('chain_head'::regclass::oid::bigint)",
    "founded": "SELECT FROM chain_head FOR UPDATE",
}


@pytest.mark.parametrize("state", LOCKS)
def test_a_lock_that_another_process_keeps_makes_the_ledger_unavailable(
    monkeypatch, postgres_url, state
):
    monkeypatch.setattr(postgres_connection, "LOCK_TIMEOUT_MS", 50)
    store = PostgresStore(postgres_url)
    if state == "founded":
        Ledger.create(store, FakeHost().host)
    add(store, "a")
    entered = False
    with holding(postgres_url, LOCKS[state]):
        with pytest.raises(LedgerUnavailable) as refused, store.transaction():
            entered = True
        assert names(store) == ["a"], "a reader does not wait for the writer"
    assert not entered
    assert refused.value.code == "ledger_unavailable"
    add(store, "b")
    assert names(store) == ["a", "b"]
    store.close()


def test_a_writer_that_stops_in_the_middle_does_not_hold_the_others_up_for_ever(
    monkeypatch, postgres_url
):
    monkeypatch.setattr(postgres_connection, "IDLE_WRITER_MAX_MS", 50)
    stopped = PostgresStore(postgres_url)
    monkeypatch.undo()
    other = PostgresStore(postgres_url)

    def stop_in_the_middle():
        with stopped.transaction() as tables:
            tables.insert(schema.nodes, node("a"))
            add(other, "b")  # waits until the server has ended the one that stopped
            tables.insert(schema.nodes, node("c"))

    with pytest.raises(LedgerUnavailable):
        stop_in_the_middle()
    assert names(other) == names(stopped) == ["b"]
    stopped.close()
    other.close()


# A server that is not heard of any more


@contextmanager
def silent_way(url):
    """A proxy in front of the database, and the URL that leads through it."""
    parts = urlsplit(url)
    folder = parse_qs(parts.query).get("host")
    with Proxies() as proxies:
        if folder:
            proxy = proxies.to_socket(lambda: Path(f"{folder[0]}/.s.PGSQL.{parts.port or 5432}"))
        else:
            proxy = proxies.to_port(parts.port or 5432)
        user = parts.netloc.rpartition("@")[0]
        place = f"{user}@127.0.0.1:{proxy.port}{parts.path}"
        yield proxy, f"postgresql://{place}?sslmode=disable&gssencmode=disable"


@pytest.mark.spec("K25")
@pytest.mark.parametrize(
    ("statement", "error"),
    [("BEGIN", None), ("INSERT", LedgerUnavailable), ("COMMIT", CommitOutcomeUnknown)],
)
def test_a_reply_that_does_not_come_ends_the_wait_and_the_next_transaction_works(
    connections, postgres_url, statement, error
):
    with silent_way(postgres_url) as (proxy, url):
        store = PostgresStore(url)
        add(store, "a")

        def lose_it(sql):
            if sql.startswith(statement):
                connections.before = lambda _: None
                # Not those that are opened later, which are answered.
                for connection in connections.open:
                    connection.reply_max_s = 0.5
                proxy.lose()

        connections.before = lose_it
        with pytest.raises(error) if error else nullcontext():
            add(store, "b")
        add(store, "c")
        assert names(store) == (["a", "c"] if error else ["a", "b", "c"])
        store.close()


def test_a_silence_is_waited_for_once_however_many_connections_it_took(monkeypatch, postgres_url):
    silent, opened = [], []

    class Watched(postgres_connection.Connection):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            opened.append(self)

        def wait(self, *arguments, **options):
            try:
                return super().wait(*arguments, **options)
            except psycopg.OperationalError as error:
                silent.append(str(error))
                raise

    monkeypatch.setattr(postgres_connection, "Connection", Watched)
    with silent_way(postgres_url) as (proxy, url):
        store = PostgresStore(url)
        add(store, "a")
        with store.view(), store.view(), store.view():
            pass
        for connection in opened:
            connection.reply_max_s = 0.5
        proxy.lose()
        assert names(store) == ["a"]
        add(store, "b")
        assert names(store) == ["a", "b"]
        store.close()
    assert silent == ["the server has not replied in time"]


# A COMMIT that fails


NO_ANSWER = psycopg.OperationalError("server closed the connection unexpectedly")


@pytest.mark.spec("K25")
@pytest.mark.parametrize("after_the_fact", [False, True])
def test_a_failed_commit_has_an_unknown_outcome_and_the_next_transaction_works(
    store, connections, after_the_fact
):
    add(store, "a")
    connections.last.fail_on("COMMIT", NO_ANSWER, after_the_fact=after_the_fact)
    with pytest.raises(CommitOutcomeUnknown) as failed:
        add(store, "b")
    assert failed.value.code == "commit_outcome_unknown"
    there = ["a", "b"] if after_the_fact else ["a"]
    assert names(store) == there
    with store.transaction() as tables:
        assert [row["node_id"] for row in tables.scan(TableQuery(schema.nodes))] == there
        tables.insert(schema.nodes, node("c"))
    assert names(store) == [*there, "c"]


@pytest.mark.spec("K25")
def test_after_a_failed_commit_nothing_is_read_while_the_server_may_still_be_committing(
    monkeypatch, connections, postgres_url
):
    monkeypatch.setattr(postgres_connection, "LOCK_TIMEOUT_MS", 50)
    store = PostgresStore(postgres_url)
    Ledger.create(store, FakeHost().host)
    add(store, "before")
    connections.last.fail_on("COMMIT", NO_ANSWER, after_the_fact=False)
    with pytest.raises(CommitOutcomeUnknown):
        add(store, "a")
    with holding(postgres_url, LOCKS["founded"]) as late:
        with pytest.raises(LedgerUnavailable):
            names(store)
        late.execute(
            "INSERT INTO nodes (node_id, node_kind, overlay_in_force, updated_at, record)"
            " VALUES ('a', 'Note', 0, '2', '')"
        )
        late.commit()
    assert names(store) == ["a", "before"]
    store.close()


def test_a_transaction_in_which_an_error_was_swallowed_is_not_called_committed(store):
    def swallow():
        with store.transaction() as tables:
            tables.insert(schema.nodes, node("a"))
            with pytest.raises(psycopg.errors.NotNullViolation):
                tables.insert(schema.nodes, node("b") | {"node_kind": None})

    with pytest.raises(LedgerUnavailable) as failed:
        swallow()
    assert failed.value.code == "ledger_rolled_back"
    add(store, "c")
    assert names(store) == ["c"]


def test_an_error_that_ended_the_transaction_reaches_the_caller_and_the_next_one_works(
    store, connections
):
    with abandoned(store.transaction()) as tables:
        tables.insert(schema.nodes, node("a"))
        connections.last.execute("ROLLBACK")
    add(store, "b")
    assert names(store) == ["b"]


def test_whether_there_are_overlays_is_asked_of_an_index_however_few_there_are(
    store, connections, postgres_url
):
    """Each operation asks. Where no node has one, a planner expects to find it at the first."""
    with store.transaction() as tables:
        tables.insert_many(schema.nodes, [node(f"n-{number}") for number in range(3000)])
    raw(postgres_url, "ANALYZE nodes")
    with store.view() as tables:
        connections.statements.clear()
        assert not LedgerView(tables).has_overlays()
        text = numbered(connections.statements[0][0])
    *_, plan = raw(
        postgres_url,
        "SET plan_cache_mode = force_generic_plan",
        f"PREPARE asked (int, text, int) AS {text}",
        "EXPLAIN EXECUTE asked (1, '', 1)",
    )
    assert any("nodes_by_overlay" in line for (line,) in plan), plan


def test_an_epoch_is_found_by_its_own_index_however_many_there_were(
    store, connections, postgres_url
):
    with store.transaction() as tables:
        rows = [
            row_of(
                schema.kernel_event_log,
                commit_epoch_id=f"epoch-{number // 3}",
                semantic_intent=("epoch_open", "create", "epoch_close")[number % 3],
            )
            for number in range(3000)
        ]
        tables.insert_many(schema.kernel_event_log, rows)
    raw(postgres_url, "ANALYZE kernel_event_log")
    with store.view() as tables:
        connections.statements.clear()
        LedgerView(tables).epoch_marker("e", "epoch_close")
        LedgerView(tables).epoch_rows("e", limit=9)
        marker, rows = (numbered(sql) for sql, _ in connections.statements)
    *_, plan_of_marker, plan_of_rows = raw(
        postgres_url,
        "SET plan_cache_mode = force_generic_plan",
        f"PREPARE marker (text, text, int) AS {marker}",
        f"PREPARE rows (text, int) AS {rows}",
        "EXPLAIN EXECUTE marker ('e', 'epoch_close', 1)",
        "EXPLAIN EXECUTE rows ('e', 9)",
    )
    assert any("kernel_event_log_by_epoch_intent" in line for (line,) in plan_of_marker)
    assert any("kernel_event_log_by_epoch" in line for (line,) in plan_of_rows), plan_of_rows


@pytest.mark.spec("§13.6")
@pytest.mark.parametrize("kind", STORES)
def test_evidence_that_waits_is_found_by_its_own_index_however_much_was_decided(
    store, connections, postgres_url, kind
):
    table = STORES[kind].table
    with store.transaction() as tables:
        rows = [
            row_of(table, is_open=None if number % 100 else 1)
            | {key_names(table)[0]: f"e-{number:04}"}
            for number in range(3000)
        ]
        tables.insert_many(table, rows)
    raw(postgres_url, f"ANALYZE {table.name}")
    with store.view() as tables:
        connections.statements.clear()
        open_reviews(LedgerView(tables), kind, after="f")
        text = numbered(connections.statements[0][0])
    *_, plan = raw(
        postgres_url,
        "SET plan_cache_mode = force_generic_plan",
        f"PREPARE asked (int, text, int) AS {text}",
        "EXPLAIN EXECUTE asked (1, 'e-1000', 200)",
    )
    assert any(f"{table.name}_open" in line for (line,) in plan), plan
    assert not any("Filter" in line or "Sort" in line for (line,) in plan), plan


def test_what_an_operation_informed_is_found_by_its_name_alone(store, connections, postgres_url):
    with store.transaction() as tables:
        rows = [
            {"parent_operation_id": f"op-{number // 3}", "ec_sequence_number": number}
            for number in range(3000)
        ]
        tables.insert_many(schema.causal_parents, rows)
    raw(postgres_url, "ANALYZE causal_parents")
    with store.view() as tables:
        connections.statements.clear()
        LedgerView(tables).sequences_caused_by("op", after=7, limit=9)
        text = numbered(connections.statements[0][0])
    *_, plan = raw(
        postgres_url,
        "SET plan_cache_mode = force_generic_plan",
        f"PREPARE asked (text, int, int) AS {text}",
        "EXPLAIN EXECUTE asked ('op', 7, 9)",
    )
    assert any("causal_parents_pkey" in line for (line,) in plan), plan
    assert not any("Filter" in line for (line,) in plan), plan


def test_a_server_says_what_time_it_is(postgres_url):
    with closing(PostgresStore(postgres_url)) as store:
        before_us = time.time_ns() // 1000
        told_us = store.server_time_us()
        assert before_us - 1_000_000 <= told_us <= time.time_ns() // 1000 + 1_000_000
        assert store.server_time_us() > told_us


def test_what_is_undone_takes_no_statement_from_what_is_written_afterwards(store):
    for number in range(8):  # so often that a driver would prepare what it runs
        with store.transaction() as tables:
            if number == 7:
                with abandoned(tables.savepoint()):
                    tables.insert(schema.nodes, node("undone"))
            tables.scan(TableQuery(schema.nodes))
            with tables.together():
                tables.insert_many(schema.nodes, [node(f"n-{number}")])
    assert names(store) == [f"n-{number}" for number in range(8)]
