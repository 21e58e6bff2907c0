"""A server that is stopped without a word, and a process that stops while it holds the lock."""

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import anyio
import anyio.to_thread
import httpx
import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

psycopg = pytest.importorskip("psycopg", reason="no PostgreSQL: the driver is not installed")

from actors.sharding.shard_keeper import ShardKeeper  # noqa: E402 - after the driver
from kernel.ledger import schema  # noqa: E402 - likewise
from kernel.ledger.ledger import Ledger  # noqa: E402 - likewise
from kernel.ledger.postgres import connection as postgres_connection  # noqa: E402 - likewise
from kernel.ledger.postgres.store import PostgresStore  # noqa: E402 - likewise
from kernel.ledger.store.tables import TableQuery  # noqa: E402 - likewise
from kernel.values.errors import LedgerUnavailable  # noqa: E402 - likewise
from kernel.verify import verify  # noqa: E402 - likewise
from tests import loopback  # noqa: E402 - likewise
from tests.contract.nodes import add, names, node  # noqa: E402 - likewise
from tests.kernel.build import FakeHost, create, submit  # noqa: E402 - likewise
from tests.ports import free_port  # noqa: E402 - likewise
from tests.postgres import NoPostgresError, own_postgres  # noqa: E402 - likewise
from tests.system.reference import two_dockets  # noqa: E402 - likewise
from tests.system.tree_run import STAND_S, running, wait_for  # noqa: E402 - likewise
from workers.environment.ledger_verification import verify_file  # noqa: E402 - likewise
from workers.environment.settings import Settings  # noqa: E402 - likewise
from workers.gateway.process import serve_gateway  # noqa: E402 - likewise

ROOT = Path(__file__).parents[2]
RESTARTS = 2


@pytest.fixture(scope="module")
def server():
    """A server of these tests' own, whichever the others were given."""
    with ExitStack() as stack:
        try:
            yield stack.enter_context(own_postgres())
        except NoPostgresError as error:
            pytest.skip(str(error))


@pytest.fixture
def url(server):
    url = server.new_database()
    yield url
    server.drop(url)


@pytest.fixture
def store(url):
    store = PostgresStore(url)
    Ledger.create(store, FakeHost().host)
    for number in range(8):  # so often that its statements are prepared, and a reader is idle
        add(store, f"n-{number}")
        names(store)
    yield store
    store.close()


EIGHT = [f"n-{number}" for number in range(8)]


def restart(server):
    server.stop(signal.SIGQUIT)
    server.start()


def test_between_transactions_nobody_notices_a_restart(server, store):
    restart(server)
    add(store, "o")
    assert names(store) == [*EIGHT, "o"]
    restart(server)
    assert names(store) == [*EIGHT, "o"]


def test_a_transaction_and_a_snapshot_end_with_the_server_and_the_next_ones_work(server, store):
    def write():
        with store.transaction() as tables:
            tables.insert(schema.nodes, node("lost"))
            restart(server)
            tables.insert(schema.nodes, node("lost too"))

    def read():
        with store.view() as tables:
            assert tables.count(TableQuery(schema.nodes)) == len(EIGHT)
            restart(server)
            tables.count(TableQuery(schema.nodes))

    for act in (write, read):
        with pytest.raises(LedgerUnavailable) as failed:
            act()
        assert failed.value.code == "ledger_unavailable"
    add(store, "o")
    assert names(store) == [*EIGHT, "o"]


@pytest.mark.spec("K25")
def test_a_server_that_is_gone_before_commit_is_sent_has_committed_nothing(server, store):
    def commit():
        with store.transaction() as tables:
            tables.insert(schema.nodes, node("perhaps"))
            server.stop(signal.SIGQUIT)

    with pytest.raises(LedgerUnavailable):
        commit()
    for act in (names, lambda store: add(store, "o")):
        with pytest.raises(LedgerUnavailable):
            act(store)
    server.start()
    assert names(store) == EIGHT
    add(store, "perhaps")
    assert names(store) == [*EIGHT, "perhaps"]


@pytest.mark.anyio
async def test_a_gateway_that_starts_while_its_server_is_away_waits_for_it(server, url, tmp_path):
    settings = Settings(data_dir=tmp_path / "data", port=free_port(), database_url=url)
    async with anyio.create_task_group() as tasks, loopback.client() as client:
        server.stop(signal.SIGQUIT)
        try:
            with capture_logs() as lines, anyio.fail_after(30):
                tasks.start_soon(serve_gateway, settings, "redis://127.0.0.1:1")
                while "ledger_awaited" not in [line["event"] for line in lines]:
                    await anyio.sleep(0.02)
        finally:
            await anyio.to_thread.run_sync(server.start)
        with anyio.fail_after(30):
            while not (shards := await shards_at(client, settings.port)):
                await anyio.sleep(0.02)
        assert shards == {"owned": 64, "of": 64}
        tasks.cancel_scope.cancel()


async def test_a_gateway_that_loses_its_server_while_it_takes_its_shards_waits_for_it(
    url, tmp_path, monkeypatch
):
    """The server may fall silent between the opening of the ledger and the first shard."""
    settings = Settings(data_dir=tmp_path / "data", port=free_port(), database_url=url)
    initialize, refusals = ShardKeeper.initialize_ledger, [LedgerUnavailable("no answer")] * 3

    async def initialize_at_last(keeper):
        if refusals:
            raise refusals.pop()
        return await initialize(keeper)

    monkeypatch.setattr(ShardKeeper, "initialize_ledger", initialize_at_last)
    async with anyio.create_task_group() as tasks, httpx.AsyncClient() as client:
        tasks.start_soon(serve_gateway, settings, "redis://127.0.0.1:1")
        with anyio.fail_after(60):
            while await shards_at(client, settings.port) != {"owned": 64, "of": 64}:
                await anyio.sleep(0.05)
        tasks.cancel_scope.cancel()
    assert refusals == []


async def shards_at(client, port):
    """What a gateway says of its shards, None while it does not listen."""
    try:
        return (await client.get(f"http://127.0.0.1:{port}/readyz")).json()["shards"]
    except httpx.ConnectError:
        return None


@pytest.mark.spec("K25")
@pytest.mark.timeout(120)
def test_the_main_job_goes_on_over_restarts_of_the_server_in_the_same_gateway(
    server, url, tmp_path
):
    """Requests fail while the server is away and are sent again; no process is started anew.

    Nor does the tree leave a file of a ledger, or name the database's password.
    """

    def rows():
        with psycopg.connect(url) as connection:
            return connection.execute("SELECT count(*) FROM kernel_event_log").fetchone()[0]

    environment = {"ROTULUS_DATABASE_URL": url}
    file = tmp_path / "dockets.jsonl"
    file.write_bytes(two_dockets())
    arguments = ("demo", str(file), "--exit", "--json")
    with running(tmp_path / "data", *arguments, env=environment) as run:
        run.wait_until_up()
        for number in range(RESTARTS):
            wait_for("rows", lambda number=number: rows() > 30 * (number + 1), STAND_S, 0.05)
            restart(server)
        assert run.process.poll() is None, "it had finished before the last restart"
        assert run.finish() == 0, run.stderr
        report = run.report()
    assert report["failures"] == []
    verification = verify_file(SecretStr(url), lambda _done, _total: None)
    assert verification.ok, verification.findings
    # The last row may be the seal of the run that ended with the gateway.
    assert 0 <= verification.rows - report["record"]["rows"] <= 1
    assert verification.requests_open == 0
    assert "child_died" not in run.stderr
    assert report["record"]["verifies"]
    assert not run.ledger_path.exists()
    assert url not in run.stderr + run.stdout


@pytest.mark.spec("K25")
def test_a_stopped_process_that_holds_the_head_lets_the_others_go_on(url, monkeypatch):
    command = [sys.executable, "-m", "tests.system.stopping_process", url, "3000"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as stopped:
        try:
            assert stopped.stdout.readline() == "holding\n"
            os.kill(stopped.pid, signal.SIGSTOP)

            monkeypatch.setattr(postgres_connection, "LOCK_TIMEOUT_MS", 200)
            hurried = PostgresStore(url)
            with pytest.raises(LedgerUnavailable) as refused:
                add(hurried, "hurried")
            assert refused.value.code == "ledger_unavailable"
            hurried.close()
            monkeypatch.undo()

            ledger = Ledger(PostgresStore(url), FakeHost().host)
            assert submit(ledger, create("of-the-other", "Note")).ec_sequence_number == 1
            os.kill(stopped.pid, signal.SIGCONT)
            answer, _ = stopped.communicate("go on\n", timeout=30)
        finally:
            stopped.kill()
    # It found no connection; nothing of it was written, and it may ask again.
    assert answer.splitlines() == ["ledger_unavailable", "2 False"]
    with ledger.view() as view:
        verification = verify(view)
        assert view.tables.count(TableQuery(schema.nodes)) == 2
    assert verification.ok, verification.findings
    assert verification.rows == 2
    ledger.close()
