"""Reads rows by SQL, the same for both databases: an adapter says how a text is run.

Texts that are asked for often are kept, one for each shape of a question.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from sqlalchemy import Table

from kernel.ledger.store import statements
from kernel.ledger.store.keys import Columns, column_names
from kernel.ledger.store.statements import parts_of
from kernel.ledger.store.tables import Row, TableQuery, no_more

_SAVEPOINT = "rotulus"


class SqlTables(ABC):
    """What one connection sees inside its transaction."""

    def __init__(self, connection: Any, texts: dict[Any, str]) -> None:
        self._connection = connection
        self._texts = texts

    @abstractmethod
    def _rows(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Run a query."""

    @abstractmethod
    def _run(self, sql: str) -> None:
        """Run a statement without values that returns no rows."""

    def _with_driver_marks(self, sql: str) -> str:
        """Return a text with the driver's marks for values."""
        return sql

    def _build(self, shape: Any, sql: str) -> str:
        self._texts[shape] = marked = self._with_driver_marks(sql)
        return marked

    def get(self, table: Table, *key: str | int) -> Row | None:
        """Return the row of a primary key."""
        shape = ("get", table.name)
        sql = self._texts.get(shape) or self._build(shape, statements.get_sql(table))
        rows = self._rows(sql, key)
        return dict(zip(column_names(table), rows[0], strict=True)) if rows else None

    def scan(self, query: TableQuery) -> list[Any]:
        """Return the rows of a query, or tuples of values where it names columns."""
        rows: list[Any] = []
        for sql, values in self._statements(query):
            room = () if query.limit is None else (query.limit - len(rows),)
            rows += self._rows(sql, (*values, *room))
            if query.limit is not None and len(rows) >= query.limit:
                break
        if query.columns or not rows:
            return rows
        names = column_names(query.table)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def count(self, query: TableQuery) -> int:
        """Return how many rows a query has."""
        if query.any_of is not None:
            return len(self.scan(query))
        [(sql, values)] = self._statements(query, is_count=True)
        room = () if query.limit is None else (query.limit,)
        return sum(count for (count,) in self._rows(sql, (*values, *room)))

    def _statements(
        self, query: TableQuery, *, is_count: bool = False
    ) -> list[tuple[str, tuple[Any, ...]]]:
        """Return the texts that answer a query, each with its values but for the limit."""
        table, where, any_of, columns, order_by, after, descending, limit, grouped = query
        nulls: Columns = ()
        values = [*where.values()]
        if None in values:
            nulls = tuple(name for name, value in where.items() if value is None)
            values = [value for value in values if value is not None]
        if after is not None:
            values.append(after)
        options = (order_by, after is None, descending, limit is None, grouped, is_count)
        column, parts = ("", ((),)) if any_of is None else (any_of[0], parts_of(any_of[1]))
        texts = []
        for part in parts:
            shape = (table.name, tuple(where), nulls, columns, options, column, len(part))
            sql = self._texts.get(shape)
            if sql is None:
                text = statements.query_sql(query, nulls, len(part), is_count=is_count)
                sql = self._build(shape, text)
            texts.append((sql, (*values, *part)))
        return texts

    def together(self) -> AbstractContextManager[None]:
        """Send what is written inside one by one."""
        return nullcontext()

    @contextmanager
    def savepoint(self, undone: Callable[[], None] = no_more) -> Iterator[None]:
        """Undo what is written inside when an exception leaves the block, and call `undone`."""
        self._run(f"SAVEPOINT {_SAVEPOINT}")
        try:
            yield
        except BaseException:
            self._run(f"ROLLBACK TO {_SAVEPOINT}")
            self._run(f"RELEASE {_SAVEPOINT}")
            undone()
            raise
        self._run(f"RELEASE {_SAVEPOINT}")
