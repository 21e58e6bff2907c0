"""A PostgreSQL with a standby: where the product connects, and what it says of the standby."""

from contextlib import closing

import anyio
import pytest
from structlog.testing import capture_logs

psycopg = pytest.importorskip("psycopg", reason="no PostgreSQL: the driver is not installed")

from kernel.ledger.ledger import Ledger  # noqa: E402 - likewise
from kernel.ledger.postgres.store import PostgresStore  # noqa: E402 - likewise
from kernel.values.errors import CommitOutcomeUnknown, LedgerUnavailable  # noqa: E402 - after the driver
from tests.connections import watch_postgres  # noqa: E402 - likewise
from tests.contract.nodes import add, names  # noqa: E402 - likewise
from tests.kernel.build import FakeHost  # noqa: E402 - likewise
from workers.environment.diagnosis import diagnose  # noqa: E402 - likewise
from workers.environment.settings import load_settings  # noqa: E402 - likewise
from workers.gateway.process import name_standbys  # noqa: E402 - likewise
from workers.worker.process import serve_worker  # noqa: E402 - likewise


@pytest.fixture
def url(replicated):
    replicated.settle()
    url = replicated.new_database()
    Ledger.create(PostgresStore(url), FakeHost().host).close()
    replicated.settle()
    return url


@pytest.fixture
def reader(replicated, url):
    """The URL of a role that may read the tables, and sees nothing of the server's standbys."""
    with psycopg.connect(url) as connection:
        connection.execute("CREATE ROLE reader LOGIN")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    yield url.replace("postgresql://rotulus@", "postgresql://reader@")
    replicated.settle()
    with psycopg.connect(url) as connection:
        connection.execute("DROP OWNED BY reader")
        connection.execute("DROP ROLE reader")


def said(url, tmp_path):
    """What the doctor says of standbys: how bad it is, and in which words."""
    settings = load_settings(database_url=url, data_dir=tmp_path)
    seen = [each for each in diagnose(settings) if each.subject == "standby"]
    return [each.state for each in seen], " | ".join(each.what + each.todo for each in seen)


def logged_at_the_start_of_a_gateway(url):
    with closing(PostgresStore(url)) as store, capture_logs() as lines:
        name_standbys(store)
    return [line["standby"] for line in lines if line["event"] == "standby_asynchronous"]


def test_the_doctor_and_a_gateway_name_a_standby_that_may_lack_what_was_answered(
    replicated, url, reader, tmp_path
):
    states, words = said(url, tmp_path)
    assert states == ["problem"]
    name = replicated.standby_name
    assert f"{name} is asynchronous, 0 bytes behind now: a failover to it loses" in words
    assert logged_at_the_start_of_a_gateway(url) == [name]
    states, words = said(reader, tmp_path)
    assert states == ["problem"]
    assert f"{name} is asynchronous: a failover to it loses" in words

    replicated.settle(synchronous=True)
    assert said(url, tmp_path)[0] == ["ok"]
    assert logged_at_the_start_of_a_gateway(url) == []
    states, words = said(reader, tmp_path)
    assert states == ["note"]
    assert "GRANT pg_read_all_stats TO reader" in words

    replicated.cut_off()
    states, words = said(url, tmp_path)
    assert states == ["problem"]
    assert "no standby of synchronous_standby_names (*) is there" in words


def test_a_store_that_writes_never_ends_at_a_standby_and_goes_on_at_the_new_primary(
    replicated, url, tmp_path
):
    at_standby = replicated.at_standby(url)
    with pytest.raises(LedgerUnavailable, match="hot standby"):
        PostgresStore(at_standby)
    with pytest.raises(LedgerUnavailable, match="hot standby"):
        PostgresStore(at_standby, read_only=True, primary=True)
    assert said(at_standby, tmp_path)[0] == ["note"]
    with closing(PostgresStore(url.replace("read-write", "any"))) as store:
        add(store, "a")
        replicated.settle(synchronous=True)
        with closing(PostgresStore(at_standby, read_only=True)) as reading:
            assert names(reading) == ["a"]
        add(store, "b")
        with store.view(), store.view():
            pass  # two readers that are idle at the failover
        replicated.fail_over()
        assert names(store) == ["a", "b"]
        add(store, "c")
        replicated.rejoin()
        assert names(store) == ["a", "b", "c"]


@pytest.mark.spec("K25")
def test_a_commit_that_waits_for_a_standby_is_unknown_until_a_primary_says_what_became_of_it(
    replicated, url, monkeypatch
):
    connections = watch_postgres(monkeypatch)
    with closing(PostgresStore(url)) as store:
        for name in ("on-record", "lost"):
            replicated.settle(synchronous=True)
            replicated.cut_off()
            for connection in connections.open:
                connection.reply_max_s = 0.5
            with pytest.raises(CommitOutcomeUnknown):
                add(store, name)
            if name == "on-record":
                replicated.settle()
            else:
                replicated.fail_over()
            assert names(store) == ["on-record"]
        add(store, "lost")
        replicated.rejoin()
        assert names(store) == ["lost", "on-record"]


@pytest.mark.anyio
async def test_a_worker_takes_no_work_from_what_a_standby_shows(replicated, url, tmp_path):
    place = replicated.at_standby(url)
    settings = load_settings(
        database_url=place, data_dir=tmp_path, worker_token="standby-" + "0" * 16
    )
    with capture_logs() as lines, anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve_worker, settings, "redis://127.0.0.1:1")
            while "ledger_awaited" not in [line["event"] for line in lines]:
                await anyio.sleep(0.02)
            tasks.cancel_scope.cancel()
    [code] = {line["code"] for line in lines if line["event"] == "ledger_awaited"}
    assert code == "ledger_unavailable"
