"""Writes the SQL of the storage port, as text that both databases read.

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

from kernel.ledger.store.keys import Columns, column_names, key_names, values_getter
from kernel.ledger.store.tables import TableQuery

ANY_MIN, ANY_MAX = 8, 512
"""The fewest and the most values of one statement."""

Values = list[tuple[Any, ...]]
"""The rows with which one text is run."""

GROUP_ROWS = 8
"""New rows that one statement adds where there are many."""


def row_values(table: Table, row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return a row's values in the order of the columns."""
    return tuple([row[name] for name in column_names(table)])


def get_sql(table: Table) -> str:
    """Return the text that reads the row of a primary key."""
    return f"SELECT {', '.join(column_names(table))} FROM {table.name}{_where(key_names(table))}"


def query_sql(query: TableQuery, nulls: Columns, places: int, *, is_count: bool) -> str:
    """Return the text that reads the rows of a query, or counts them.

    In the columns that are `nulls` rows have null; of its `any_of` so many values are asked for.
    """
    order_by = query.order_by or key_names(query.table)[-1]
    terms = [f"{name} IS NULL" if name in nulls else f"{name} = ?" for name in query.where]
    if query.after is not None:
        terms.append(f"{order_by} {'<' if query.descending else '>'} ?")
    if query.any_of is not None:
        terms.append(f"{query.any_of[0]} IN ({', '.join('?' * places)})")
    names = ", ".join(query.columns or column_names(query.table))
    selected = "1" if is_count else f"{names}, count(*)" if query.grouped else names
    sql = f"SELECT {selected} FROM {query.table.name}"
    if terms:
        sql += f" WHERE {' AND '.join(terms)}"
    if query.grouped:
        sql += f" GROUP BY {names}"
    elif query.any_of is None and not is_count:
        sql += f" ORDER BY {order_by}{' DESC' if query.descending else ''}"
    if query.limit is not None:
        sql += " LIMIT ?"
    return f"SELECT count(*) FROM ({sql}) AS counted" if is_count else sql


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
    return insert_sql(table, replacing(table))


@cache
def replacing(table: Table) -> str:
    """Return the end of a text that adds rows, by which they replace those with their keys."""
    key = key_names(table)
    # A table of nothing but its key has a column all the same that can be replaced by itself.
    assigned_columns = [name for name in column_names(table) if name not in key] or key[:1]
    assigned = ", ".join(f"{name} = excluded.{name}" for name in assigned_columns)
    return f" ON CONFLICT ({', '.join(key)}) DO UPDATE SET {assigned}"


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


def _where(names: tuple[str, ...]) -> str:
    return " WHERE " + " AND ".join(f"{name} = ?" for name in names)
