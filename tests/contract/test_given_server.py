"""A PostgreSQL that somebody names instead of the one that is started for a run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

psycopg = pytest.importorskip("psycopg", reason="no PostgreSQL: the driver is not installed")

from tests.postgres import URL_VARIABLE, NoPostgresError, own_postgres  # noqa: E402 - the driver
from tests.system.tree_run import wait_for  # noqa: E402 - likewise

ROOT = Path(__file__).parents[2]
CHOSEN = (
    "test_a_closed_store_opens_itself_again",
    "test_a_commit_waits_for_the_disk_whatever_the_servers_default_is",
    "test_a_role_that_may_only_select_is_enough_to_read",
)


@pytest.fixture
def counting_server():
    """A server that has counted every connection to it."""
    try:
        with own_postgres() as server:
            server.run("ALTER SYSTEM SET log_connections = on")
            server.run("SELECT pg_reload_conf()")
            yield server
    except NoPostgresError as error:
        pytest.skip(str(error))


def kept(server):
    """What a server holds beyond its own: databases and roles."""
    return server.run(
        "SELECT datname FROM pg_database UNION ALL SELECT rolname FROM pg_roles ORDER BY 1"
    )


@pytest.mark.slow
def test_tests_use_the_server_that_is_named_and_leave_nothing_in_it(counting_server):
    before = kept(counting_server)
    command = [sys.executable, "-m", "pytest", "tests/contract/test_postgres_store.py"]
    ended = subprocess.run(
        [*command, "-v", "-k", " or ".join(CHOSEN)],
        cwd=ROOT,
        env={**os.environ, URL_VARIABLE: counting_server.url},
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert ended.returncode == 0, ended.stdout
    assert f"{len(CHOSEN)} passed" in ended.stdout
    log = counting_server.log()
    # One for the shared tables, one that a test makes into what it needs.
    made = {line.partition("database=")[2].split()[0] for line in log if "database=rotulus" in line}
    assert len(made) == 2
    assert kept(counting_server) == before
    count = "SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'client%'"
    # A connection that was closed takes the server a moment.
    wait_for(
        "the end of every other connection", lambda: counting_server.run(count) == [(1,)], 20.0
    )
