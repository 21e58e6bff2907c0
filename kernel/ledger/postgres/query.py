"""Runs one SELECT on a PostgreSQL database, in a transaction that may only read.

PostgreSQL has no authorizer, and a read-only transaction forbids less than it seems to: functions
of the server read files, end other sessions, wait, run a text as SQL and change settings. So three
things stand in a row:

1. The text is cut into tokens. A call is refused whose name is not on the list, and so is every
   name of the server's own catalogue (`pg_…`); what the cutting does not know is refused.
2. The text becomes a subquery, in which nothing but a SELECT can stand, of a statement that is
   sent by the protocol that takes a single statement.
3. The server plans it, and the plan says which tables it would read: the ledger's, or it is not
   run.

The server ends it by `statement_timeout`. A row that is longer than `VALUE_BYTES_MAX` is not sent.
The settings of the server bound what a query takes of its memory and temporary files.
"""

import json
import re
from collections.abc import Iterator
from math import isfinite
from typing import Any, cast

import orjson
import psycopg

from kernel.ledger.ad_hoc_query import (
    POSTGRES_FUNCTIONS,
    TABLES,
    VALUE_BYTES_MAX,
    QueryAnswer,
    QueryBounds,
    QueryRefused,
    RowBudget,
    distinct_names,
)
from kernel.ledger.postgres.connection import Connection
from kernel.values.errors import LedgerUnavailable

DEPTH_MAX = 200

_DIGITS_MAX = 18
"""Of an integer, its sign included, that JSON is written with in every case."""

_BEFORE_BRACKETS = frozenset(
    {
        *("all", "and", "any", "array", "as", "between", "by", "case", "cast", "distinct", "else"),
        *("except", "exists", "extract", "filter", "from", "group", "having", "ilike", "in"),
        *("intersect", "is", "join", "lateral", "like", "limit", "materialized", "not", "offset"),
        *("on", "or", "over", "partition", "row", "select", "some", "then", "union", "using"),
        *("values", "when", "where", "with", "within", "numeric", "varchar", "char", "sets"),
        *("rollup", "cube", "grouping"),
    }
)
"""Words of the language behind which an opening bracket is no call."""

_NAMES_BEFORE_COLUMNS = frozenset({"as", "recursive", "with"})
"""Words behind which a name with a bracket is that of a subquery and its columns."""

_NEVER = frozenset(
    {
        *("analyze", "call", "copy", "create", "declare", "delete", "do", "drop", "execute"),
        *("explain", "grant", "insert", "into", "listen", "lock", "merge", "notify", "prepare"),
        *("reset", "revoke", "set", "tablesample", "truncate", "update", "vacuum"),
        *("information_schema", "operator", "share", "xmlparse", "xmltable", "json_table"),
    }
)
"""Words that no query needs; a column of such a name is written in quotation marks."""

# As the server cuts: it ends a comment at a carriage return too, and takes no letter beyond ASCII
# for a space.
_TOKEN = re.compile(
    r"(?P<space>[ \t\n\r\f]+|--[^\n\r]*)"
    r"|(?P<string>'(?:[^']|'')*')"
    r'|(?P<quoted>"(?:[^"]|"")+")'
    r"|(?P<name>[A-Za-z_\u0080-\U0010ffff][A-Za-z0-9_\u0080-\U0010ffff]*)"
    r"|(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)"
    r"|(?P<open>[(\[])|(?P<close>[)\]])"
    r"|(?P<sign>::|[-+*/%<>=~!@#^&|?.,:])"
)


def run_query(connection: Connection, sql: str, bounds: QueryBounds) -> QueryAnswer:
    """Run one SELECT on a connection that may only read and is used for nothing else.

    Raises:
        QueryRefused: `query_refused`, `query_failed`, `query_timed_out`.
        LedgerUnavailable: when the server cannot be reached.
    """
    text = check_subquery(sql)
    rows = f"SELECT row_to_json(q)::text AS r FROM (\n{text}\n) AS q"  # noqa: S608 - checked
    statement = (
        f"SELECT CASE WHEN octet_length(r) <= {VALUE_BYTES_MAX} THEN r END"  # noqa: S608 - a constant
        f" FROM ({rows} LIMIT {bounds.rows_max + 1}) AS w"
    )
    try:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute(f"SET LOCAL statement_timeout = {int(bounds.seconds_max * 1000)}")
        connection.execute("SET LOCAL standard_conforming_strings = on")
        plan = connection.execute(
            f"EXPLAIN (VERBOSE, COSTS OFF, FORMAT JSON) {statement}", prepare=True
        ).fetchall()
        _check_plan(plan[0][0], connection.execute("SELECT current_schema()").fetchall()[0][0])
        named = connection.execute(f"SELECT * FROM (\n{text}\n) AS q LIMIT 0", prepare=True)  # noqa: S608 - read only
        columns = distinct_names([column.name for column in named.description or ()])
        answers = connection.execute(statement, prepare=True).fetchall()
    except psycopg.errors.QueryCanceled:
        message = f"the query ran longer than {bounds.seconds_max:g} s"
        raise QueryRefused(message, code="query_timed_out") from None
    except psycopg.Error as error:
        if error.sqlstate is None:
            raise LedgerUnavailable("the server did not answer a query") from error
        message = error.diag.message_primary or str(error)
        raise QueryRefused(message, code="query_failed") from None
    return _answer(columns, answers, bounds)


def check_subquery(sql: str) -> str:
    """Return a text that can stand as a subquery.

    Raises:
        QueryRefused: it is no single SELECT, or names what no query may use.
    """
    tokens = list(_tokens(sql.strip().removesuffix(";")))
    words = [text.lower() for kind, text in tokens if kind == "name"]
    if not words or words[0] not in ("select", "with", "values"):
        raise QueryRefused("a query is one SELECT, also behind WITH, or VALUES")
    depth = 0
    for place, (kind, text) in enumerate(tokens):
        depth += {"open": 1, "close": -1}.get(kind, 0)
        if not 0 <= depth <= DEPTH_MAX:
            raise QueryRefused(f"brackets are in pairs, {DEPTH_MAX} deep at most")
        if kind in ("name", "quoted"):
            _check_name(kind, text)
        if text == "(" and place:
            _check_call(tokens, place)
    if depth:
        raise QueryRefused("a bracket is opened and not closed")
    return sql.strip().removesuffix(";")


def _tokens(sql: str) -> Iterator[tuple[str, str]]:
    """Cut a text; comments and what lies between are left out."""
    place = 0
    while place < len(sql):
        match = _TOKEN.match(sql, place)
        if match is None or sql.startswith("/*", place):
            part = sql[place : place + 10]
            raise QueryRefused(f"a query may not have {part!r}: no ';', '$', '\\\\' and no '/*'")
        kind, text = str(match.lastgroup), match.group()
        following = sql[match.end() : match.end() + 1]
        if kind == "name" and (following in ("'", "$") or sql[match.end() :].startswith("&")):
            raise QueryRefused("a string has no prefix, and a name is one of plain letters")
        if kind != "space":
            yield kind, text
        place = match.end()


def _check_name(kind: str, text: str) -> None:
    name = text.strip('"').lower()
    if name.startswith("pg_") or (kind == "name" and name in _NEVER):
        raise QueryRefused(f"a query may not use {text}")


def _check_call(tokens: list[tuple[str, str]], place: int) -> None:
    kind, text = tokens[place - 1]
    if kind not in ("name", "quoted"):
        return
    name = text.strip('"').lower() if kind == "name" else text.strip('"')
    before = tokens[place - 2][1].lower() if place > 1 else ""
    if kind == "name" and name in _BEFORE_BRACKETS:
        return
    if before in _NAMES_BEFORE_COLUMNS:
        return
    if name not in POSTGRES_FUNCTIONS or before == ".":
        raise QueryRefused(f"a query may not use the function {text!r}")


def _check_plan(plan: list[dict[str, Any]], schema: str) -> None:
    """Refuse a plan that reads anything but the ledger's tables and what functions return."""
    for node in _nodes(plan[0]["Plan"]):
        table, function = node.get("Relation Name"), node.get("Function Name")
        if table is not None and (table not in TABLES or node.get("Schema") != schema):
            raise QueryRefused(f"a query may not use the table {table!r}")
        if function is not None and function not in POSTGRES_FUNCTIONS:
            raise QueryRefused(f"a query may not use the function {function!r}")


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for below in node.get("Plans", ()):
        yield from _nodes(below)


def _read(text: str) -> dict[str, Any]:
    """Return a row; a number that is larger than every float is the text of its digits."""
    try:
        row = orjson.loads(text)
    except orjson.JSONDecodeError:
        try:
            row = json.loads(text, parse_int=_integer, parse_float=_float)
        except RecursionError:
            raise QueryRefused("a row is nested too deeply", code="query_failed") from None
    return cast("dict[str, Any]", row)


def _integer(text: str) -> int | float | str:
    return int(text) if len(text) <= _DIGITS_MAX else _float(text)


def _float(text: str) -> float | str:
    number = float(text)
    return number if isfinite(number) else text


def _answer(
    columns: tuple[str, ...], answers: list[tuple[str | None]], bounds: QueryBounds
) -> QueryAnswer:
    budget = RowBudget(bounds)
    for (text,) in answers:
        if text is None:
            raise QueryRefused(f"a row has more than {VALUE_BYTES_MAX} bytes; select less of it")
        row = _read(text)
        if not budget.take([row[name] for name in columns]):
            break
    return QueryAnswer(columns, budget.rows, budget.cut_by)
