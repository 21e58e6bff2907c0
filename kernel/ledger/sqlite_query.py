"""One SELECT on a SQLite file, judged by SQLite's own authorizer while it compiles the text.

The authorizer is told of every table, column and function that a text comes to, behind views,
subqueries and virtual tables too. While the text runs, time is looked at after each thousand steps
of SQLite's machine. A function is one step however long it takes, so none is allowed whose time
grows faster than its arguments (`instr`, `replace`, `printf`, `trim`), and no value is longer than
`VALUE_BYTES_MAX`. What a sort does not hold in memory SQLite keeps in a file without a name.
"""

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing

from kernel.errors import LedgerUnavailable
from kernel.ledger.ad_hoc_query import (
    SQL_CHARS_MAX,
    SQLITE_FUNCTIONS,
    TABLES,
    VALUE_BYTES_MAX,
    QueryAnswer,
    QueryBounds,
    QueryRefused,
    RowBudget,
    distinct_names,
)

STEPS_BETWEEN_LOOKS = 1000
LIKE_CHARS_MAX = 128
"""Of a pattern: each character of a text may be compared with each of it."""

_READABLE = TABLES | {"sqlite_master", "sqlite_schema", "json_each", "json_tree"}
_LIMITS = {
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 100,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
    sqlite3.SQLITE_LIMIT_LENGTH: VALUE_BYTES_MAX,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: LIKE_CHARS_MAX,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: SQL_CHARS_MAX * 4,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_BEGINS = re.compile(
    r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/|\()*(select|with|values)\b", re.IGNORECASE | re.DOTALL
)


class _Authorizer:
    """Allows what reads the ledger's tables, and keeps the first thing that it did not."""

    def __init__(self) -> None:
        self.refused: str | None = None

    def __call__(
        self,
        action: int,
        first: str | None,
        second: str | None,
        database: str | None,
        _: str | None,
    ) -> int:
        if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE):
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_READ:
            is_table = database == "main" and str(first).lower() in _READABLE
            # Something of which no column is read: a name that WITH gives has no database either,
            # and a virtual table was refused when it was connected.
            is_allowed, what = is_table or (second, database) == ("", None), f"the table {first!r}"
        elif action == sqlite3.SQLITE_FUNCTION:
            is_allowed, what = str(second).lower() in SQLITE_FUNCTIONS, f"the function {second!r}"
        else:
            is_allowed, what = False, "anything but reading"
        if not is_allowed:
            self.refused = self.refused or what
        return sqlite3.SQLITE_OK if is_allowed else sqlite3.SQLITE_DENY


def run_query(
    connection: sqlite3.Connection, sql: str, bounds: QueryBounds, now_s: Callable[[], float]
) -> QueryAnswer:
    """Run one SELECT on a connection that may only read and is used for nothing else.

    Raises:
        QueryRefused: `query_refused`, `query_failed`, `query_timed_out`.
        LedgerUnavailable: when the file cannot be read now.
    """
    if not _BEGINS.match(sql):
        raise QueryRefused("a query is one SELECT, also behind WITH, or VALUES")
    connection.execute("PRAGMA query_only = ON")
    connection.execute("PRAGMA trusted_schema = OFF")
    for limit, value in _LIMITS.items():
        connection.setlimit(limit, value)
    authorizer, until_s, is_late = _Authorizer(), now_s() + bounds.seconds_max, False

    def look_at_the_time() -> bool:
        nonlocal is_late
        is_late = is_late or now_s() > until_s
        return is_late

    # Connecting a virtual table is refused below; these two are connected by now.
    connection.execute("SELECT count(*) FROM json_each('[]'), json_tree('[]')")
    connection.set_authorizer(authorizer)
    connection.set_progress_handler(look_at_the_time, STEPS_BETWEEN_LOOKS)
    try:
        return _answer(connection, sql, bounds)
    except (sqlite3.Error, sqlite3.Warning, UnicodeError, OverflowError) as error:
        if is_late:
            message = f"the query ran longer than {bounds.seconds_max:g} s"
            raise QueryRefused(message, code="query_timed_out") from None
        if authorizer.refused is not None:
            message = f"a query may not use {authorizer.refused}"
            raise QueryRefused(message) from None
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in (
            sqlite3.SQLITE_BUSY,
            sqlite3.SQLITE_IOERR,
            sqlite3.SQLITE_CANTOPEN,
        ):
            raise LedgerUnavailable(str(error)) from error
        raise QueryRefused(str(error), code="query_failed") from None


def _answer(connection: sqlite3.Connection, sql: str, bounds: QueryBounds) -> QueryAnswer:
    connection.text_factory = _text
    # A statement that is left in the middle would keep the file open.
    with closing(connection.cursor()) as cursor:
        cursor.execute(sql)
        columns = distinct_names([column[0] for column in cursor.description or ()])
        budget = RowBudget(bounds)
        for row in cursor:
            if not budget.take(row):
                break
    return QueryAnswer(columns, budget.rows, budget.cut_by)


def _text(stored: bytes) -> str:
    """Text as it is; what is no UTF-8 is shown by its replacement characters."""
    return stored.decode(errors="replace")
