"""The SQL of the storage port, as text that both databases read.

Values are marked ``?``, those of a whole row in the order of its columns; an adapter whose driver
marks them otherwise translates. Table and column names come from the schema alone and are never
quoted, values are always bound. Null is asked for with ``IS NULL`` and every other value with
``=``, which both databases answer from an index.

The texts are built from the SQLAlchemy schema and handed to the driver as they are, because
compiling Core statements on the hot path costs more than the statements do. New rows are added
eight at a time (decision kernel/0166).
"""

# ruff: noqa: S608
# Every name that is put into a text here is one of the schema's.

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import chain
from typing import Any

from sqlalchemy import Table

from kernel.ledger.store.keys import column_names, key_names, values_getter

ANY_MIN, ANY_MAX = 8, 512
"""The fewest and the most values of one statement."""

Values = list[tuple[Any, ...]]
"""The rows with which one text is run."""

GROUP_ROWS = 8
"""New rows that one statement adds where there are many."""


class Where:
    """The columns that a row must equal, parted into nulls and values to bind."""

    __slots__ = ("names", "nulls", "values")

    def __init__(self, where: Mapping[str, Any] | None) -> None:
        equal = where or {}
        self.names: tuple[str, ...] = tuple(equal)
        self.nulls: tuple[str, ...] = ()
        self.values = list(equal.values())
        if None not in self.values:
            return
        self.nulls = tuple(name for name, value in equal.items() if value is None)
        self.names = tuple(name for name in equal if name not in self.nulls)
        self.values = [equal[name] for name in self.names]

    def sql(self) -> str:
        """Return the condition, empty when there is none."""
        return _where(self.names, self.nulls)


def row_values(table: Table, row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return a row's values in the order of the columns."""
    return tuple([row[name] for name in column_names(table)])


def get_sql(table: Table) -> str:
    """Return the text that reads the row of a primary key."""
    return f"SELECT {_columns(table)} FROM {table.name}{_where(key_names(table))}"


def select_sql(
    table: Table,
    where: Where,
    order_by: str | None,
    from_start: bool,  # noqa: FBT001 - one of the parts of a statement's shape
    descending: bool,  # noqa: FBT001 - likewise
    unlimited: bool,  # noqa: FBT001 - likewise
) -> str:
    """Return the text that reads rows in the order of one column."""
    column = order_by or key_names(table)[-1]
    sql = f"SELECT {_columns(table)} FROM {table.name}{where.sql()}"
    if not from_start:
        joined = "AND" if where.names or where.nulls else "WHERE"
        sql += f" {joined} {column} {'<' if descending else '>'} ?"
    sql += f" ORDER BY {column}{' DESC' if descending else ''}"
    return sql if unlimited else f"{sql} LIMIT ?"


def any_sql(
    table: Table,
    where: Where,
    column: str,
    places: int,
    unlimited: bool,  # noqa: FBT001 - one of the parts of a statement's shape
) -> str:
    """Return the text that reads rows with one of so many values in a column."""
    marks = ", ".join("?" * places)
    joined = f"{where.sql()} AND" if where.names or where.nulls else " WHERE"
    sql = f"SELECT {_columns(table)} FROM {table.name}{joined} {column} IN ({marks})"
    return sql if unlimited else f"{sql} LIMIT ?"


def parts_of(values: Iterable[str | int]) -> Iterator[list[str | int]]:
    """Part values, each once, into few sizes of lists, so that few shapes of statements are kept.

    The last value of a list fills it up.
    """
    distinct = list(dict.fromkeys(values))
    for start in range(0, len(distinct), ANY_MAX):
        part = distinct[start : start + ANY_MAX]
        size = ANY_MIN
        while size < len(part):
            size *= 2
        yield part + part[-1:] * (size - len(part))


def columns_sql(
    table: Table,
    names: tuple[str, ...],
    order_by: str | None,
    from_start: bool,  # noqa: FBT001 - one of the parts of a statement's shape
) -> str:
    """Return the text that reads some columns of a page of rows."""
    column = order_by or key_names(table)[-1]
    after = "" if from_start else f" WHERE {column} > ?"
    return f"SELECT {', '.join(names)} FROM {table.name}{after} ORDER BY {column} LIMIT ?"


def count_sql(table: Table, where: Where, distinct: str | None = None) -> str:
    """Return the text that counts rows, or the values of a column in them."""
    counted = "*" if distinct is None else f"DISTINCT {distinct}"
    return f"SELECT count({counted}) AS n FROM {table.name}{where.sql()}"


def counts_sql(table: Table, columns: tuple[str, ...]) -> str:
    """Return the text that counts the rows of each combination of values."""
    names = ", ".join(columns)
    return f"SELECT {names}, count(*) AS n FROM {table.name} GROUP BY {names}"


@cache
def insert_sql(table: Table, conflict: str = "", *, verb: str = "INSERT", rows: int = 1) -> str:
    """Return the text that adds so many rows."""
    names = column_names(table)
    values = ", ".join([f"({', '.join('?' for _ in names)})"] * rows)
    return f"{verb} INTO {table.name} ({', '.join(names)}) VALUES {values}{conflict}"


def in_groups(table: Table, rows: Iterable[Mapping[str, Any]]) -> tuple[Values, Values]:
    """Part rows into the values of statements that add `GROUP_ROWS`, and of those that add one.

    What a database does for a statement and not for a row, such as setting up its checks, is most
    of what adding a row costs.
    """
    values = list(map(values_getter(column_names(table)), rows))
    grouped = len(values) - len(values) % GROUP_ROWS
    starts = range(0, grouped, GROUP_ROWS)
    groups = [tuple(chain.from_iterable(values[at : at + GROUP_ROWS])) for at in starts]
    return groups, values[grouped:]


@cache
def upsert_sql(table: Table) -> str:
    """Return the text that adds a row or replaces the one with its key."""
    key = key_names(table)
    # A table of nothing but its key has a column all the same that can be replaced by itself.
    assigned_columns = [name for name in column_names(table) if name not in key] or key[:1]
    assigned = ", ".join(f"{name} = excluded.{name}" for name in assigned_columns)
    return insert_sql(table, f" ON CONFLICT ({', '.join(key)}) DO UPDATE SET {assigned}")


@cache
def update_sql(table: Table, names: tuple[str, ...]) -> str:
    """Return the text that sets columns of the row of a primary key."""
    assigned = ", ".join(f"{name} = ?" for name in names)
    return f"UPDATE {table.name} SET {assigned}{_where(key_names(table))}"


@cache
def delete_sql(table: Table) -> str:
    """Return the text that removes the row of a primary key."""
    return f"DELETE FROM {table.name}{_where(key_names(table))}"


def delete_before_sql(table: Table, column: str) -> str:
    """Return the text that removes the rows below a bound."""
    return f"DELETE FROM {table.name} WHERE {column} < ?"


def _columns(table: Table) -> str:
    return ", ".join(column_names(table))


def _where(names: tuple[str, ...], nulls: tuple[str, ...] = ()) -> str:
    terms = [f"{name} = ?" for name in names] + [f"{name} IS NULL" for name in nulls]
    return " WHERE " + " AND ".join(terms) if terms else ""
