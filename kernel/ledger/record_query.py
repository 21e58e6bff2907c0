"""Runs one SELECT on records that no database has: they are put into one in memory for it.

The database is SQLite's, whatever the ledger's is, and what the statement may do is what it may do
on a file (`kernel/ledger/sqlite/query.py`).
"""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

from sqlalchemy import Table
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateTable

from kernel.ledger.ad_hoc_query import QueryAnswer, QueryBounds, check_text
from kernel.ledger.sqlite.query import run_query
from kernel.ledger.store.keys import column_names, values_getter
from kernel.ledger.store.tables import Row


def query_records(
    records: Mapping[Table, Sequence[Row]],
    sql: str,
    bounds: QueryBounds,
    now_s: Callable[[], float],
) -> QueryAnswer:
    """Run one SELECT on the records of some tables, which are all that it sees.

    Raises:
        QueryRefused: `query_refused`, `query_failed`, `query_timed_out`.
    """
    check_text(sql)
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for table, rows in records.items():
            connection.execute(str(CreateTable(table).compile(dialect=sqlite.dialect())))
            names = column_names(table)
            places = ", ".join("?" * len(names))
            take = values_getter(names)
            # The name is one of the schema's.
            insert = f"INSERT INTO {table.name} VALUES ({places})"  # noqa: S608
            connection.executemany(insert, map(take, rows))
        return run_query(connection, sql, bounds, now_s)
