"""A reader of a database without the right to the gateways' key reads everything else."""

import time
from collections.abc import Iterator
from urllib.parse import quote

import anyio
import pytest

from kernel.ledger import schema
from kernel.ledger.ad_hoc_query import QueryBounds, answer_query
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.ledger.shards import found_mail_key, ledger_id_of
from kernel.values.errors import LedgerUnavailable
from kernel.verify import verify
from tests.kernel import hostile_queries
from tests.kernel.build import accept, create
from workers.environment.ledger_mark import mark_of
from workers.environment.settings import Settings
from workers.environment.system_host import system_host

psycopg = pytest.importorskip("psycopg")
from kernel.ledger.postgres.store import PostgresStore  # noqa: E402 - needs the driver
from kernel.ledger.store.tables import TableQuery  # noqa: E402 - likewise

ROLE = "rotulus_test_reader"
RIGHTS = (
    f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {ROLE}",
    f"REVOKE SELECT ON mail_keys FROM {ROLE}",  # noqa: S608 - a name of ours
)
"""As deploy/README.md has them."""

BOUNDS = QueryBounds(rows_max=100, bytes_max=1 << 20, seconds_max=10.0)


@pytest.fixture
def reader_url(postgres_url) -> Iterator[str]:
    writer = Ledger.create(PostgresStore(postgres_url), system_host())
    accept(writer, create("n", "Note"))
    with writer.transaction() as transaction:
        found_mail_key(transaction)
    writer.close()
    with psycopg.connect(postgres_url, autocommit=True) as owner:
        owner.execute(f"DROP ROLE IF EXISTS {ROLE}")
        owner.execute(f"CREATE ROLE {ROLE} LOGIN PASSWORD 'x'")
        for statement in RIGHTS:
            owner.execute(statement)
        host = quote(owner.info.host, safe="")
        yield f"postgresql://{ROLE}:x@/{owner.info.dbname}?host={host}&port={owner.info.port}"
        owner.execute(f"DROP OWNED BY {ROLE}")
        owner.execute(f"DROP ROLE {ROLE}")


def key_of(url: str) -> bytes:
    with psycopg.connect(url) as owner:
        [(key,)] = owner.execute("SELECT key FROM mail_keys").fetchall()
        return bytes(key)


def test_a_reader_without_the_right_verifies_and_asks_and_never_has_the_key(
    reader_url, postgres_url
):
    key = key_of(postgres_url)
    ledger = Ledger(PostgresStore(reader_url, read_only=True), system_host())
    assert ledger.read(LedgerView.head).ec_sequence_number == 1
    with ledger.view() as view:
        assert verify(view).findings == ()
    ask = "SELECT node_id FROM nodes"
    assert answer_query(ledger.store, ask, BOUNDS, time.monotonic).rows == [["n"]]
    for look in (ledger_id_of, lambda view: view.tables.scan(TableQuery(schema.mail_keys))):
        with pytest.raises(LedgerUnavailable) as refused:
            ledger.read(look)
        assert refused.value.code == "ledger_right_missing"
    # Such a worker serves without the mark of its ledger, which gateways leave in Redis.
    assert anyio.run(mark_of(ledger, Settings())) is None
    ledger.close()
    # What the database lets the role do by itself, whatever our own checks would say of it.
    texts = [
        *hostile_queries.SECRETS,
        "SELECT * FROM mail_keys",
        "SELECT * FROM pg_stats WHERE tablename = 'mail_keys'",
        "SELECT pg_read_binary_file(pg_relation_filepath('mail_keys'))",
        "COPY mail_keys TO STDOUT",
        "SELECT query_to_xml('SELECT * FROM mail_keys', true, false, '')",
        "SELECT table_to_xml('mail_keys', true, false, '')",
    ]
    with psycopg.connect(reader_url, autocommit=True) as role:
        answers = [answer_of(role, text) for text in texts]
    assert not any(key.hex() in each or repr(key)[2:-1] in each for each in answers)


def answer_of(connection: "psycopg.Connection[tuple[object, ...]]", text: str) -> str:
    try:
        cursor = connection.execute(text)
        return repr(cursor.fetchall())
    except psycopg.Error as error:
        return str(error)
