"""Asks for rows ahead of need in the message that opens a snapshot, and answers from them.

A query by the values of a column may have some of them in rows of other queries (`Joined`). The
server finds those in the same statement, so what lies several steps away costs no round trip for
each. They are found once more here, in the rows that came, so that it is known which values have no
rows at all.
"""

# ruff: noqa: S608
# Every name that is put into a text here is one of the schema's.

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Table

from kernel.ledger.postgres.column_arrays import column_array
from kernel.ledger.postgres.connection import Statement
from kernel.ledger.postgres.schema import column_types
from kernel.ledger.store.keys import column_names, key_names, values_getter
from kernel.ledger.store.tables import Expected, Joined, TableQuery, rows_of

Rows = list[tuple[Any, ...]]

_Shape = tuple[str, str, tuple[tuple[str, Any], ...]]


class AheadRows:
    """Rows that a snapshot has, as far as they were asked for ahead of need."""

    def __init__(self) -> None:
        self.answers: dict[tuple[str, tuple[Any, ...]], Rows] = {}
        """Those of whole statements, by text and values."""

        self._by_value: dict[_Shape, dict[Any, Rows]] = {}
        """Of values of a column all the rows that have them, and certain values in others."""

        self._joined: list[Joined] = []
        """The queries that are of others."""

    def row(self, table: Table, key: tuple[str | int, ...]) -> Rows | None:
        """Return the rows of a primary key, one at most; None where it was not asked for."""
        if len(key) > 1 or not self._by_value:
            return None
        known = self._by_value.get((table.name, key_names(table)[0], ()))
        return None if known is None else known.get(key[0])

    def scan(self, query: TableQuery) -> list[Any] | None:
        """Return what the snapshot's `scan` does; None where that was not asked for."""
        if not self._by_value:
            return None
        rows = self.rows(query) if query.any_of is not None else self._rows_with(query)
        if rows is None:
            return None
        names = column_names(query.table)
        return rows_of(query, (dict(zip(names, row, strict=True)) for row in rows))

    def _rows_with(self, query: TableQuery) -> Rows | None:
        """Return all rows that have the values of a query, in no order."""
        where = query.where
        for name, value in where.items():
            known = self._by_value.get((query.table.name, name, _without(where, name)))
            rows = None if known is None else known.get(value)
            if rows is not None:
                return rows
        return None

    def rows(self, query: TableQuery) -> Rows | None:
        """Return the rows of a query by values of a column; None where not all were asked for."""
        known = self._by_value.get(_shape(query))
        if known is None:
            return None
        rows: Rows = []
        for value in dict.fromkeys(_any_of(query)[1]):
            of_value = known.get(value)
            if of_value is None:
                return None
            rows += of_value
        return rows[: query.limit]

    def unknown(self, joined: Sequence[Joined]) -> list[Joined]:
        """Return those of the queries whose rows are not known, and those that they are of."""
        unknown = [each for each in joined if self._is_unknown(each)]
        needed = {id(other) for each in unknown for other, _ in each.of}
        return [each for each in joined if each in unknown or id(each) in needed]

    def _is_unknown(self, joined: Joined) -> bool:
        query = joined.query
        if joined.of:
            return joined not in self._joined
        if query.any_of is None or None in query.where.values():
            return False
        return bool(query.any_of[1]) and self.rows(query) is None

    def learn(self, joined: Sequence[Joined], replies: Sequence[Rows]) -> None:
        """Keep what the server answered to queries, of which each comes behind those it is of."""
        self._joined += [each for each in joined if each.of]
        complete: dict[int, Rows] = {}
        """By query; without those that have more rows than they may."""

        for each, rows in zip(joined, replies, strict=True):
            query = each.query
            if query.limit is not None and len(rows) >= query.limit:
                continue
            complete[id(each)] = rows
            known = self._by_value.setdefault(_shape(query), {})
            of_values = {value: known.get(value, []) for value in _values_of(each, complete)}
            place = column_names(query.table).index(_any_of(query)[0])
            fresh = of_values.keys() - known.keys()
            for row in rows:
                if row[place] in fresh:
                    of_values[row[place]].append(row)
            known |= of_values


def joined_statement(joined: Joined) -> Statement:
    """Return the statement that reads the rows of a query."""
    query = joined.query
    condition, values = _condition(joined)
    return f"SELECT {', '.join(column_names(query.table))} FROM {condition}", values


def expectations(expected: Iterable[Expected]) -> Iterator[Statement]:
    """Yield statements that lock rows, and fail where one is not as expected.

    Division by zero is what the server refuses without a function of ours.
    """
    by_shape: dict[tuple[Table, tuple[str, ...]], Rows] = {}
    for table, row in expected:
        names = tuple(row)
        by_shape.setdefault((table, names), []).append(values_getter(names)(row))
    for (table, names), rows in by_shape.items():
        types = [_type_of(table, name) for name in names]
        arrays = [*map(column_array, types, zip(*rows, strict=True))]
        yield _expectation(table.name, names, tuple(types)), (str(len(rows)), *arrays)


@cache
def _expectation(table: str, names: tuple[str, ...], types: tuple[str, ...]) -> str:
    arrays, columns = ", ".join(f"%s::{each}[]" for each in types), ", ".join(names)
    return (
        f"SELECT 1 / (%s::int8 = count(*))::int FROM (SELECT FROM {table}"
        f" JOIN unnest({arrays}) AS expected ({columns}) USING ({columns})"
        f" FOR UPDATE OF {table}) AS standing"
    )


def _condition(joined: Joined) -> tuple[str, tuple[Any, ...]]:
    """Return a table with the condition for its rows, and the values."""
    query = joined.query
    table, (column, named) = query.table, _any_of(query)
    terms = [f"{name} = %s" for name in query.where]
    values: list[Any] = [*query.where.values()]
    kind = _type_of(table, column)
    arrays = [f"%s::{kind}[]"]
    values.append(column_array(kind, list(named)))
    for other, source in joined.of:
        condition, further = _condition(other)
        arrays.append(f"ARRAY(SELECT {source} FROM {condition})")
        values += further
    terms.append(f"{column} = ANY ({' || '.join(arrays)})")
    limit = "" if query.limit is None else f" LIMIT {query.limit}"
    return f"{table.name} WHERE {' AND '.join(terms)}{limit}", tuple(values)


def _values_of(joined: Joined, complete: dict[int, Rows]) -> Iterator[Any]:
    yield from _any_of(joined.query)[1]
    for other, column in joined.of:
        place = column_names(other.query.table).index(column)
        for row in complete.get(id(other), ()):
            yield row[place]


def _shape(query: TableQuery) -> _Shape:
    return query.table.name, _any_of(query)[0], tuple(query.where.items())


def _without(where: Mapping[str, Any], column: str) -> tuple[tuple[str, Any], ...]:
    return tuple(each for each in where.items() if each[0] != column)


def _any_of(query: TableQuery) -> tuple[str, Sequence[str | int]]:
    assert query.any_of is not None  # noqa: S101 - for the types
    return query.any_of


def _type_of(table: Table, column: str) -> str:
    return column_types(table)[column_names(table).index(column)]
