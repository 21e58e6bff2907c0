"""Runs one SELECT on a SQLite file or on records, judged by what it is told to do beforehand.

Two things stand in a row behind the check of the text (`check_text`):

1. SQLite's authorizer is told of functions and of columns while the text is compiled. It is not
   told of every column: none that a join by USING or NATURAL gives, and no table of which no column
   is named, as in `count(*)`.
2. The compiled program opens each table and index by the number of its first page. Each number has
   to be that of one of the ledger's tables, or the program is not run. The program, the numbers and
   the answer are of one snapshot.

While the text runs, time is looked at after each thousand steps of SQLite's machine. A function is
one step however long it takes, so none is allowed whose time grows faster than its arguments
(`instr`, `replace`, `printf`, `trim`), and no value is longer than `VALUE_BYTES_MAX`. SQLite keeps
in a file without a name what a sort does not hold in memory.
"""

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing

from sqlalchemy import Table
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateTable

from kernel.ledger.ad_hoc_query import (
    SQL_CHARS_MAX,
    SQLITE_FUNCTIONS,
    TABLES,
    VALUE_BYTES_MAX,
    QueryAnswer,
    QueryBounds,
    QueryRefused,
    RowBudget,
    check_text,
    distinct_names,
)
from kernel.ledger.store.keys import column_names, values_getter
from kernel.ledger.store.tables import Row
from kernel.values.errors import LedgerUnavailable

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
    r"(?:\s|\(|--[^\n]*+|/\*(?:[^*]|\*(?!/))*+\*/)*+(?:select|with|values)\b", re.IGNORECASE
)

EXPANSIONS_MAX = 4096
"""Of names that WITH gives: SQLite compiles what one stands for each time that it is read."""

_WORDS = re.compile(
    r"--[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/)?|\s++"
    r"|('(?:[^']|'')*+'?|\"(?:[^\"]|\"\")*+\"?|`(?:[^`]|``)*+`?|\[[^\]]*+\]?"
    r"|[A-Za-z_\x80-\U0010ffff][\w$\x80-\U0010ffff]*+|.)",
    re.DOTALL,
)

_UNQUOTED = dict.fromkeys(map(ord, "'\"`[]"))

_ROOTS_OPENED = frozenset({"OpenRead", "ReopenIdx"})
"""Instructions that open a table or an index: its first page is P2, its database P3."""

_MODULE_OPENED = "VOpen"
"""The instruction that opens a virtual table, which P4 names by its address."""

_OPENED_NOWHERE = frozenset(
    {
        *("IfNotOpen", "OpenAutoindex", "OpenDup", "OpenEphemeral", "OpenPseudo", "SorterOpen"),
    }
)
"""Instructions that open what the program itself makes, or ask whether it is open."""

_MODULES = "SELECT count(*) FROM json_each('[]'), json_tree('[]')"
_SCHEMA_ROOT = 1


class _Authorizer:
    """Allows what reads the ledger's tables, and keeps the first thing that it did not allow.

    A table of which no column is read passes; the program tells which one it is.
    """

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
    _check_expansions(sql)
    authorizer, until_s, is_late = _Authorizer(), now_s() + bounds.seconds_max, False

    def look_at_the_time() -> bool:
        nonlocal is_late
        is_late = is_late or now_s() > until_s
        return is_late

    try:
        connection.execute("PRAGMA query_only = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
        for limit, value in _LIMITS.items():
            connection.setlimit(limit, value)
        connection.text_factory = _text
        # The tables' pages, the program and its rows are of one snapshot.
        connection.execute("BEGIN")
        pages = PageCheck(connection)
        connection.set_authorizer(authorizer)
        connection.set_progress_handler(look_at_the_time, STEPS_BETWEEN_LOOKS)
        pages.check(connection, sql)
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


def _check_expansions(sql: str) -> None:
    """Refuse names of WITH that stand for each other too often; nothing ends a compilation.

    Raises:
        QueryRefused: `query_refused`.
    """
    words = [_plain(word) for word in _WORDS.findall(sql) if word]
    names = Counter(_name_before(words, place) for place, word in enumerate(words) if word == "as")
    reads = Counter(
        word
        for place, word in enumerate(words)
        if word in names
        and words[place - 1 : place] != ["."]
        and words[place + 1 : place + 2] != ["."]
    )
    expansions = 1
    for name, times in names.items():
        expansions *= max(reads[name] - times, 1) ** times if name else 1
        if expansions > EXPANSIONS_MAX:
            raise QueryRefused(
                f"the names of WITH stand for more than {EXPANSIONS_MAX} subqueries; use each less"
            )


def _plain(word: str) -> str:
    """Return a word without the marks of its quoting, so that all spellings of a name are alike."""
    plain = word.translate(_UNQUOTED).lower()
    return "'" if word[0] in "'\"`[" and plain in ("", ".", "(", ")") else plain


def _name_before(words: list[str], place: int) -> str:
    """Return what WITH names at an AS, "" where a bracket does not follow it."""
    after = place + 1
    while words[after : after + 1] in (["not"], ["materialized"]):
        after += 1
    if words[after : after + 1] != ["("]:
        return ""
    before = place - 1
    if words[before] == ")":
        while before > 0 and words[before] != "(":
            before -= 1
        before -= 1
    return words[before] if before >= 0 else ""


class PageCheck:
    """Judges a compiled program by what it opens; made before the authorizer is set."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        rows = connection.execute(
            "SELECT rootpage, tbl_name FROM sqlite_schema WHERE rootpage > 0"
        ).fetchall()
        self._tables = {_SCHEMA_ROOT: "sqlite_schema"} | dict(rows)
        """The table of each root page, also where it is the page of one of its indexes."""

        # The authorizer refuses to connect a virtual table; these two are connected by now.
        connection.execute(_MODULES).fetchall()
        self._modules = {
            p4 for opcode, *_, p4 in _program(connection, _MODULES) if opcode == _MODULE_OPENED
        }

    def check(self, connection: sqlite3.Connection, sql: str) -> None:
        """Refuse a statement whose program opens anything but what may be read.

        Raises:
            QueryRefused: `query_refused`.
        """
        for opcode, root, database, p4 in _program(connection, sql):
            if opcode in _OPENED_NOWHERE or "open" not in opcode.lower():
                continue
            table = self._tables.get(root, "") if database == 0 else ""
            is_table = opcode in _ROOTS_OPENED and table.lower() in _READABLE
            if not is_table and (opcode != _MODULE_OPENED or p4 not in self._modules):
                what = f"the table {table!r}" if table else f"what {opcode} opens"
                raise QueryRefused(f"a query may not use {what}")


def _program(
    connection: sqlite3.Connection, sql: str
) -> Iterator[tuple[str, int, int, str | None]]:
    """Yield of each instruction of a compiled statement its name, P2, P3 and P4."""
    with closing(connection.cursor()) as cursor:
        for _, opcode, _, p2, p3, p4, *_ in cursor.execute(f"EXPLAIN {sql}"):
            yield opcode, p2, p3, p4


def _answer(connection: sqlite3.Connection, sql: str, bounds: QueryBounds) -> QueryAnswer:
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


def query_records(
    records: Mapping[Table, Sequence[Row]],
    sql: str,
    bounds: QueryBounds,
    now_s: Callable[[], float],
) -> QueryAnswer:
    """Run one SELECT on the records of some tables, which are all that it sees.

    They are put into a database in memory, whatever the ledger's is.

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
            insert = f"INSERT INTO {table.name} VALUES ({places})"  # noqa: S608 - our names
            connection.executemany(insert, map(take, rows))
        return run_query(connection, sql, bounds, now_s)
