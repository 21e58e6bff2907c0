"""Fixtures that tests of several folders ask for; those of one folder are in its `conftest.py`."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from kernel.ledger.ledger import Ledger
from tests.kernel.build import memory_ledger


@pytest.fixture
def ledger() -> Ledger:
    """A new ledger in memory; a module whose ledger holds more has one of its own."""
    return memory_ledger()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Any]:
    """One server for the run; a test that needs it is skipped only where none can be had."""
    pytest.importorskip("psycopg", reason="no PostgreSQL: the driver is not installed")
    from tests.postgres import NoPostgresError, running_postgres  # noqa: PLC0415 - needs it

    with ExitStack() as stack:
        try:
            server = stack.enter_context(running_postgres())
        except NoPostgresError as error:
            pytest.skip(str(error))
        yield server


@pytest.fixture(scope="session")
def postgres_shared(postgres: Any) -> str:
    """A database with the ledger's tables, emptied after each test that uses it."""
    from kernel.ledger.postgres.store import PostgresStore  # noqa: PLC0415 - needs the driver

    url: str = postgres.new_database()
    PostgresStore(url).close()
    return url


@pytest.fixture
def postgres_url(postgres: Any, postgres_shared: str) -> Iterator[str]:
    """The tables without a ledger in them, for one test; what it does to the rows is undone."""
    yield postgres_shared
    postgres.empty(postgres_shared)


@pytest.fixture
def postgres_empty_url(postgres: Any) -> Iterator[str]:
    """A database without any tables, for one test; slower than emptied tables."""
    url = postgres.new_database()
    yield url
    postgres.drop(url)
