"""A PgBouncer before PostgreSQL: what it keeps of a session, and how it is refused otherwise."""

import shutil
import subprocess
import tempfile
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

psycopg = pytest.importorskip("psycopg", reason="no PostgreSQL: the driver is not installed")

from kernel.ledger.postgres.store import PostgresStore  # noqa: E402 - likewise
from kernel.values.errors import LedgerUnavailable  # noqa: E402 - likewise
from tests.connections import watch_postgres  # noqa: E402 - likewise
from tests.contract.nodes import add, names  # noqa: E402 - likewise
from tests.ports import free_port  # noqa: E402 - likewise
from tests.postgres import OWNER  # noqa: E402 - likewise
from tests.system.tree_run import wait_for  # noqa: E402 - likewise

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("pgbouncer") is None, reason="not here: pgbouncer"),
]
IGNORING = "ignore_startup_parameters = options"
START_S = 20.0


@contextmanager
def pooled(url, *settings):
    """Put a PgBouncer with settings before a database; yield the URL through it."""
    parts, port = urlsplit(url), free_port()
    server = parse_qs(parts.query).get("host", [parts.hostname])[0]
    folder = Path(tempfile.mkdtemp(prefix="rotulus-pgbouncer-"))
    folder.chmod(0o755)
    (folder / "users").write_text('"rotulus" ""\n')
    lines = [
        "[databases]",
        f"* = host={server}" + (f" port={parts.port}" if parts.port else ""),
        "[pgbouncer]",
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =",
        f"auth_type = trust\nauth_file = {folder / 'users'}",
        *settings,
    ]
    (folder / "pgbouncer.ini").write_text("\n".join(lines) + "\n")
    command = ["pgbouncer", "-u", OWNER, str(folder / "pgbouncer.ini")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    through = f"postgresql://rotulus@127.0.0.1:{port}{parts.path}?sslmode=disable"
    try:
        wait_for("pgbouncer", lambda: _answers(through), START_S)
        yield through
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder)


def _answers(url):
    with suppress(psycopg.OperationalError), psycopg.connect(url):
        return True
    return False


def test_a_store_works_through_a_pooler_that_keeps_sessions(postgres_url, monkeypatch):
    connections = watch_postgres(monkeypatch)
    with pooled(postgres_url, "pool_mode = session", IGNORING) as url:
        for _ in range(2):  # the second time in sessions that the pooler kept
            with closing(PostgresStore(url)) as store:
                add(store, f"n-{len(names(store))}")
                with store.view(), store.view():
                    bounds = connections.last.execute(
                        "SELECT current_setting('lock_timeout'),"
                        " current_setting('default_transaction_read_only')"
                    )
                    assert bounds.fetchone() == ("3s", "on")
        with closing(PostgresStore(url, read_only=True)) as store:
            assert names(store) == ["n-0", "n-1"]


SHARING = (
    ("pool_mode = transaction",),
    ("pool_mode = transaction", "server_round_robin = 1"),
    ("pool_mode = transaction", "default_pool_size = 1"),
    ("pool_mode = statement",),
)


@pytest.mark.parametrize("settings", SHARING, ids=" ".join)
@pytest.mark.parametrize("read_only", [False, True])
def test_a_pooler_that_shares_sessions_is_refused_by_name(postgres_url, settings, read_only):
    with pooled(postgres_url, *settings, IGNORING) as url:
        with pytest.raises(LedgerUnavailable, match="pool_mode = session") as refused:
            PostgresStore(url, read_only=read_only)
        assert refused.value.code == "ledger_sessions_shared"
        with psycopg.connect(url, autocommit=True) as other:  # in the session that was looked at
            assert other.execute("SHOW default_transaction_read_only").fetchone() == ("off",)


def test_a_pooler_that_refuses_settings_is_named_with_what_to_set(postgres_url):
    with (
        pooled(postgres_url, "pool_mode = session") as url,
        pytest.raises(LedgerUnavailable, match=IGNORING) as refused,
    ):
        PostgresStore(url)
    assert refused.value.code == "ledger_pooler_refuses"
