"""Bounds one SELECT that somebody wrote on a ledger's tables, and says what it may do.

Each adapter answers on a connection of its own that may only read, and closes it. A list says what
a text may touch, and none what it may not: the ledger's tables, and functions that compute a value
from values. Each adapter enforces it where its database decides (decision workers/0225).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from sqlalchemy import LargeBinary

from kernel.ledger.registry import STORAGE_REGISTRY
from kernel.ledger.schema import metadata
from kernel.ledger.store.tables import Store
from kernel.values.errors import KernelError

SQL_CHARS_MAX = 20_000
VALUE_BYTES_MAX = 4 << 20
"""Of one value that SQLite reads or makes on the way, and of one row that PostgreSQL returns."""

TEXT_CHARS_MAX = 2000
"""Characters of a value that an answer repeats; its whole length follows."""

BYTES_SHOWN_MAX = 64
"""Bytes of a value that an answer repeats, in hexadecimal."""

TABLES = frozenset(str(name) for name in metadata.tables)

_SHARED = frozenset(
    {
        *("abs", "avg", "coalesce", "count", "max", "min", "nullif", "round", "sign", "sum"),
        *("char_length", "length", "lower", "octet_length", "substr", "substring", "upper"),
        *("cume_dist", "dense_rank", "first_value", "lag", "last_value", "lead", "nth_value"),
        *("ntile", "percent_rank", "rank", "row_number", "string_agg"),
    }
)
"""Functions that both databases have; none reads or writes anything but its arguments."""


SQLITE_FUNCTIONS = _SHARED | {
    *("date", "datetime", "glob", "group_concat", "hex", "ifnull", "iif", "json", "julianday"),
    *("json_array", "json_array_length", "json_each", "json_extract", "json_group_array"),
    *("json_group_object", "json_object", "json_quote", "json_type", "json_valid", "like"),
    *("strftime", "time", "total", "typeof", "unicode", "unixepoch", "->", "->>"),
}
"""What may be called on SQLite, where operators are functions of their names."""

POSTGRES_FUNCTIONS = _SHARED | {
    *("array_agg", "array_length", "bool_and", "bool_or", "cardinality", "ceil", "concat"),
    *("convert_from", "date_trunc", "encode", "every", "floor", "greatest", "generate_series"),
    *("json_agg", "json_array_elements", "json_array_elements_text", "json_array_length"),
    *("json_each", "json_each_text", "json_object_keys", "json_typeof", "jsonb_agg"),
    *("jsonb_array_elements", "jsonb_array_elements_text", "jsonb_array_length", "jsonb_each"),
    *("jsonb_each_text", "jsonb_object_keys", "jsonb_typeof", "least", "position", "starts_with"),
    *("strpos", "to_char", "to_json", "to_jsonb", "to_timestamp", "unnest"),
}
"""What may be called on PostgreSQL."""


class QueryRefused(KernelError):
    """A query that may not be run, or could not be; nothing was written."""

    code = "query_refused"


@dataclass(frozen=True, slots=True)
class QueryBounds:
    """How much one query may take."""

    rows_max: int
    bytes_max: int
    """Of the rows that are returned, as their values are counted."""

    seconds_max: float


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """Rows of a query."""

    columns: tuple[str, ...]
    rows: list[list[Any]]
    cut_by: str | None
    """`rows_max` or `bytes_max` where there is more; None where this is all."""


@runtime_checkable
class AnswersQueries(Store, Protocol):
    """A store whose database runs SQL."""

    def query(self, sql: str, bounds: QueryBounds, now_s: Callable[[], float]) -> QueryAnswer:
        """Run one SELECT on a connection of its own that may only read.

        Raises:
            QueryRefused: `query_refused`, `query_failed`, `query_timed_out`.
            LedgerUnavailable: when the database cannot be reached.
        """


def answer_query(
    store: Store, sql: str, bounds: QueryBounds, now_s: Callable[[], float]
) -> QueryAnswer:
    """Run one SELECT on a store; `now_s` is a clock that never goes back.

    Raises:
        QueryRefused: `query_refused`, `query_failed`, `query_timed_out`.
        LedgerUnavailable: when the database cannot be reached.
    """
    if not isinstance(store, AnswersQueries):
        raise QueryRefused("this ledger is in memory, and nothing runs SQL there")
    check_text(sql)
    return store.query(sql, bounds, now_s)


def check_text(sql: str) -> None:
    """Refuse what is no text of a query.

    Raises:
        QueryRefused: `query_refused`.
    """
    if len(sql) > SQL_CHARS_MAX:
        raise QueryRefused(f"a query has at most {SQL_CHARS_MAX} characters")
    if "\x00" in sql or _has_surrogate(sql):
        raise QueryRefused("a query is text that can be stored")


def table_documents() -> list[Mapping[str, Any]]:
    """Return each table that may be asked: its columns, its key, and whose it is."""
    return [
        {
            "table": name,
            "owner": STORAGE_REGISTRY[name].owner,
            "columns": {
                str(column.name): "bytes"
                if isinstance(column.type, LargeBinary)
                else column.type.python_type.__name__
                for column in metadata.tables[name].columns
            },
            "key": [str(column.name) for column in metadata.tables[name].primary_key],
        }
        for name in sorted(TABLES)
    ]


class RowBudget:
    """Takes rows until one of the bounds is met."""

    def __init__(self, bounds: QueryBounds) -> None:
        self._bounds = bounds
        self._bytes = 0
        self.rows: list[list[Any]] = []
        self.cut_by: str | None = None

    def take(self, values: Sequence[Any]) -> bool:
        """Keep a row; False, and nothing kept, where it does not fit any more."""
        if len(self.rows) == self._bounds.rows_max:
            self.cut_by = "rows_max"
            return False
        row = [_json_value(value) for value in values]
        self._bytes += sum(len(str(value)) for value in row)
        if self._bytes > self._bounds.bytes_max:
            self.cut_by = "bytes_max"
            return False
        self.rows.append(row)
        return True


def distinct_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of columns.

    Raises:
        QueryRefused: two are alike, so a row could not be told apart.
    """
    if len(set(names)) != len(names):
        raise QueryRefused("two columns have the same name; give each its own with AS")
    return tuple(names)


def _json_value(value: Any) -> Any:
    """Return a value as JSON can hold it; bytes that are text as that, others in hexadecimal."""
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            shown = value[:BYTES_SHOWN_MAX].hex()
            return shown if len(value) <= BYTES_SHOWN_MAX else f"{shown}… ({len(value)} bytes)"
    if isinstance(value, str) and len(value) > TEXT_CHARS_MAX:
        return f"{value[:TEXT_CHARS_MAX]}… ({len(value)} characters)"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _has_surrogate(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)
