"""A reader of a database without the right to one table reads everything else."""

import time
from collections.abc import Iterator
from urllib.parse import quote

import anyio
import pytest

from kernel.ledger.ad_hoc_query import QueryBounds, answer_query
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.ledger.shards import create_ledger_id, ledger_id_of
from kernel.values.errors import LedgerUnavailable
from kernel.verify import verify
from tests.kernel.build import accept, create
from workers.environment.ledger_mark import mark_of
from workers.environment.settings import Settings
from workers.environment.system_host import system_host

psycopg = pytest.importorskip("psycopg")
from kernel.ledger.postgres.store import PostgresStore  # noqa: E402 - needs the driver

ROLE = "rotulus_test_reader"
RIGHTS = (
    f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {ROLE}",
    f"REVOKE SELECT ON ledger_ids FROM {ROLE}",  # noqa: S608 - a name of ours
)

BOUNDS = QueryBounds(rows_max=100, bytes_max=1 << 20, seconds_max=10.0)


@pytest.fixture
def reader_url(postgres_url) -> Iterator[str]:
    writer = Ledger.create(PostgresStore(postgres_url), system_host())
    accept(writer, create("n", "Note"))
    with writer.transaction() as transaction:
        create_ledger_id(transaction)
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


def test_a_reader_without_a_right_verifies_and_asks_and_is_told_which_read_was_refused(reader_url):
    ledger = Ledger(PostgresStore(reader_url, read_only=True), system_host())
    assert ledger.read(LedgerView.head).ec_sequence_number == 1
    with ledger.view() as view:
        assert verify(view).findings == ()
    ask = "SELECT node_id FROM nodes"
    assert answer_query(ledger.store, ask, BOUNDS, time.monotonic).rows == [["n"]]
    with pytest.raises(LedgerUnavailable) as refused:
        ledger.read(ledger_id_of)
    assert refused.value.code == "ledger_right_missing"
    # Such a worker serves without the mark of its ledger, which gateways leave in Redis.
    assert anyio.run(mark_of(ledger, Settings())) is None
    ledger.close()
