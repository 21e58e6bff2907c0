"""Reading rows by SQL, the same for both databases: an adapter says how a text is run.

Texts that are asked for often are kept, one for each shape of a question.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from sqlalchemy import Table

from kernel.ledger.store import statements
from kernel.ledger.store.keys import column_names
from kernel.ledger.store.tables import Row

_SAVEPOINT = "rotulus"


class SqlTables(ABC):
    """What one connection sees inside its transaction."""

    def __init__(self, texts: dict[Any, str]) -> None:
        self._texts = texts

    @abstractmethod
    def _rows(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Run a query."""

    @abstractmethod
    def _run(self, sql: str) -> None:
        """Run a statement without values that returns no rows."""

    def _marked(self, sql: str) -> str:
        """Return a text with the driver's marks for values."""
        return sql

    def _build(self, shape: Any, sql: str) -> str:
        self._texts[shape] = marked = self._marked(sql)
        return marked

    def get(self, table: Table, *key: str | int) -> Row | None:
        """Return the row of a primary key."""
        shape = ("get", table.name)
        sql = self._texts.get(shape) or self._build(shape, statements.get_sql(table))
        rows = self._rows(sql, key)
        return dict(zip(column_names(table), rows[0], strict=True)) if rows else None

    def select(
        self,
        table: Table,
        where: Mapping[str, Any] | None = None,
        *,
        order_by: str | None = None,
        after: Any = None,
        descending: bool = False,
        limit: int | None = None,
    ) -> list[Row]:
        """Return the rows that equal `where`, in the order of one column."""
        found_by = statements.Where(where)
        options = (order_by, after is None, descending, limit is None)
        shape = (table.name, found_by.names, found_by.nulls, options)
        sql = self._texts.get(shape)
        if sql is None:
            sql = self._build(shape, statements.select_sql(table, found_by, *options))
        values = found_by.values
        if after is not None:
            values.append(after)
        if limit is not None:
            values.append(limit)
        columns = column_names(table)
        return [dict(zip(columns, row, strict=True)) for row in self._rows(sql, values)]

    def select_any(
        self,
        table: Table,
        column: str,
        values: Sequence[str | int],
        where: Mapping[str, Any],
        *,
        limit: int | None = None,
    ) -> list[Row]:
        """Return the rows that equal `where` and have any of the values in a column."""
        found_by, names = statements.Where(where), column_names(table)
        rows: list[Row] = []
        for part in statements.parts_of(values):
            options = (column, len(part), limit is None)
            shape = ("any", table.name, options, found_by.names, found_by.nulls)
            sql = self._texts.get(shape)
            if sql is None:
                sql = self._build(shape, statements.any_sql(table, found_by, *options))
            room = () if limit is None else (limit - len(rows),)
            fetched = self._rows(sql, (*found_by.values, *part, *room))
            rows += [dict(zip(names, row, strict=True)) for row in fetched]
            if limit is not None and len(rows) >= limit:
                break
        return rows

    def columns(
        self,
        table: Table,
        names: tuple[str, ...],
        *,
        order_by: str | None = None,
        after: Any = None,
        limit: int,
    ) -> list[tuple[Any, ...]]:
        """Return some columns of the rows in the order of one column."""
        sql = self._marked(statements.columns_sql(table, names, order_by, after is None))
        return self._rows(sql, (limit,) if after is None else (after, limit))

    def count(
        self, table: Table, where: Mapping[str, Any] | None = None, *, distinct: str | None = None
    ) -> int:
        """Return how many rows equal `where`, or how many values of a column they have."""
        found_by = statements.Where(where)
        sql = self._marked(statements.count_sql(table, found_by, distinct))
        rows = self._rows(sql, found_by.values)
        return int(rows[0][0]) if rows else 0

    def counts(self, table: Table, *columns: str) -> dict[tuple[Any, ...], int]:
        """Return the number of rows for each combination of the columns' values."""
        rows = self._rows(self._marked(statements.counts_sql(table, columns)), ())
        return {tuple(row[:-1]): row[-1] for row in rows}

    def together(self) -> AbstractContextManager[None]:
        """Send what is written inside one by one."""
        return nullcontext()

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo what is written inside when an exception leaves the block."""
        self._run(f"SAVEPOINT {_SAVEPOINT}")
        try:
            yield
        except BaseException:
            self._run(f"ROLLBACK TO {_SAVEPOINT}")
            self._run(f"RELEASE {_SAVEPOINT}")
            raise
        self._run(f"RELEASE {_SAVEPOINT}")
