"""Declares the port of a ledger's storage: rows of the schema's tables inside one transaction.

An adapter stores rows and keeps the promises of keys; it knows nothing of operations or chains. A
row is a mapping of column name to ``str``, ``int``, ``bytes`` or ``None``. A text that holds U+0000
may be refused when it is written (`TextNotStorable`); then no row answers to it.

The port is of rows and not of operations: adapters keep keys and snapshots, `ledger.py` has the
vocabulary. Whoever walks a chain reads columns and not rows.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, runtime_checkable

from sqlalchemy import Table

from kernel.ledger.replication import Replication
from kernel.ledger.store.catalog import ContentReport, StorageFault
from kernel.ledger.store.keys import Columns, key_names, values_getter

Row = dict[str, Any]

PAGE_ROWS = 1000
"""Rows that whoever reads all of a query reads at once: what a round trip costs is little then."""

SEARCH_ROWS = 200
"""Rows that whoever looks for some among them reads at once; the next ones may not be needed."""

LARGE_ROWS = 64
"""Rows that are read at once where each may hold, or lead to, a mebibyte."""


class DuplicateKey(Exception):
    """A row with this key, or with this unique value, is there already; nothing was written."""


class HeadMoved(Exception):
    """Others have written since a transaction was computed; nothing of it was written."""


class MissingReference(Exception):
    """A row names another by a foreign key, and that one is not there; nothing was written."""


class TableQuery(NamedTuple):
    """Which rows of a table are read, and in what order (decision kernel/0650)."""

    table: Table
    where: Mapping[str, Any] = MappingProxyType({})
    """Columns, and the value that a row has in each; None is a value like any other."""

    any_of: tuple[str, Sequence[str | int]] | None = None
    """A column, and the values of which a row has any there; many cost little more than one.

    It goes with `where`, `columns` and `limit`: the rows come in no order, and beyond the limit any
    of them are returned.
    """

    columns: Columns = ()
    """Of what columns values are returned instead of rows; for readers of very many rows."""

    order_by: str | None = None
    """The column in whose order rows come; None for the last one of the primary key."""

    after: Any = None
    """The value in that column behind which rows are read, in the direction of the order."""

    descending: bool = False
    limit: int | None = None
    grouped: bool = False
    """Whether rows with the same values in `columns` are one, with their number behind the values.

    It goes with `where`, and the rows come in no order.
    """


class Joined(NamedTuple):
    """A query by the values of a column, of which some stand in rows of other queries."""

    query: TableQuery
    """The values that are known are in its `any_of`."""

    of: "tuple[tuple[Joined, str], ...]" = ()
    """Queries, and in which column of their rows further values stand."""


class Questions(NamedTuple):
    """What is going to be asked of a snapshot, as far as that is known before it is asked."""

    joined: Sequence[Joined] = ()
    """Of these each stands behind those that it is of."""

    others: Sequence[TableQuery] = ()
    counts: Sequence[TableQuery] = ()
    """Queries whose rows are counted."""


NO_QUESTIONS = Questions()

Expected = tuple[Table, Mapping[str, Any]]
"""A table, and what some columns of a row of it hold; its key is among them, and no null."""


def is_beyond(value: Any, after: Any, *, descending: bool) -> bool:
    """Tell whether a value comes after another in an order; every value comes after None.

    None comes after no value, in either direction: SQL compares it with nothing.
    """
    if after is None:
        return True
    return value is not None and bool(value < after if descending else value > after)


def has_values(row: Row, where: Mapping[str, Any]) -> bool:
    """Tell whether a row has these values in these columns."""
    return all(row[name] == value for name, value in where.items())


def rows_of(query: TableQuery, matching: Iterable[Row]) -> list[Any]:
    """Return what `TablesView.scan` does, from all rows that have the values of a query."""
    _, _, any_of, columns, order_by, after, descending, limit, grouped = query
    rows = [*matching]
    if any_of is None and not grouped:
        column = order_by or key_names(query.table)[-1]
        if after is not None:
            rows = [row for row in rows if is_beyond(row[column], after, descending=descending)]
        if len(rows) > 1:
            rows.sort(key=lambda row: (row[column] is not None, row[column]), reverse=descending)
    if not columns:
        return [dict(row) for row in rows[:limit]]
    values = map(values_getter(columns), rows[:limit])
    if grouped:
        return [(*group, count) for group, count in Counter(values).items()]
    return [*values]


def rows_in_pages(tables: "TablesView", query: TableQuery) -> Iterator[Row]:
    """Yield the rows of a query in its order, in pages of its limit.

    Of rows that share a value in the column of the order, those behind the end of a page are left
    out: the column is unique among the rows, or one row of each value is enough.
    """
    column, page_rows = query.order_by or key_names(query.table)[-1], query.limit
    while True:
        rows = tables.scan(query)
        yield from rows
        if page_rows is None or len(rows) < page_rows:
            return
        query = query._replace(after=rows[-1][column])


def distinct_values(tables: "TablesView", query: TableQuery) -> Iterator[Any]:
    """Yield the values of the one column of a query, in their order, by a look for each."""
    look = distinct_look(query)
    while rows := tables.scan(look):
        [(value,)] = rows
        yield value
        look = distinct_look(query, value)


def distinct_look(query: TableQuery, after: Any = None) -> TableQuery:
    """Return the look for the first value of the one column of a query behind another."""
    [column] = query.columns
    return query._replace(order_by=column, after=after, limit=1)


def ask_ahead(tables: "TablesView", questions: Questions) -> None:
    """Ask in one round trip what is going to be asked of a snapshot; it changes no answer.

    A store on this machine is asked nothing.
    """
    prefetch = getattr(tables, "prefetch", None)
    if prefetch is not None:
        prefetch(questions)


def no_more() -> None:
    """Do nothing more when a savepoint is undone."""


class TablesView(Protocol):
    """One consistent snapshot of the tables."""

    def get(self, table: Table, *key: str | int) -> Row | None:
        """Return the row of a primary key."""

    def scan(self, query: TableQuery) -> list[Any]:
        """Return the rows of a query, or tuples of values where it names columns."""

    def count(self, query: TableQuery) -> int:
        """Return how many rows a query has, in time linear in their number."""

    def schema_faults(self) -> list[StorageFault]:
        """Return where tables, indexes and triggers are not those that this program makes."""

    def content_faults(self) -> ContentReport:
        """Compare stored indexes and pages with the tables; linear in the size of the ledger."""


class Tables(TablesView, Protocol):
    """The tables inside the one writing transaction."""

    def insert(self, table: Table, row: Row) -> None:
        """Add a row.

        Raises:
            DuplicateKey: when its key or a unique value exists.
        """

    def append(self, table: Table, row: Row) -> None:
        """Add a row whose key and unique values are new by construction.

        If it exists all the same, this raises DuplicateKey or, at the latest, the whole
        transaction fails at its end.
        """

    def put(self, table: Table, row: Row) -> None:
        """Add a row or replace the one with its primary key."""

    def update(self, table: Table, key: tuple[str | int, ...], values: Mapping[str, Any]) -> None:
        """Set columns of the row with this primary key."""

    def delete(self, table: Table, *key: str | int) -> None:
        """Remove the row of a primary key, if there is one."""

    def delete_before(self, table: Table, column: str, bound: int) -> int:
        """Remove the rows whose column is below the bound, and return their number."""

    def insert_many(self, table: Table, rows: Sequence[Row]) -> None:
        """Add rows; after a failure the transaction can only be given up.

        Raises:
            DuplicateKey: when a key or a unique value exists.
        """

    def put_many(self, table: Table, rows: Sequence[Row]) -> None:
        """Add rows or replace those with their primary keys, in this order."""

    def together(self) -> AbstractContextManager[None]:
        """Send what is written inside in as few messages as the adapter can; nothing is read there.

        What fails may show only when the block ends; then the transaction can only be given up.
        """
        return nullcontext()

    def savepoint(self, undone: Callable[[], None] = no_more) -> AbstractContextManager[None]:
        """Undo what is written inside when an exception leaves the block; the rest stays.

        `undone` is called afterwards, for what stands beside the tables.
        """


class SingleRows(Tables, Protocol):
    """The tables of an adapter to which many rows are as many single ones."""

    def insert_many(self, table: Table, rows: Sequence[Row]) -> None:
        """Add rows."""
        for row in rows:
            self.insert(table, row)

    def put_many(self, table: Table, rows: Sequence[Row]) -> None:
        """Add or replace rows."""
        for row in rows:
            self.put(table, row)


class Store(Protocol):
    """A place where a ledger lives."""

    def transaction(self) -> AbstractContextManager[Tables]:
        """Open the one writing transaction; it is durable when the block has ended.

        An exception inside rolls back. Writers of every process wait for each other here.

        Raises:
            LedgerUnavailable: when the lock was not granted in time; nothing happened.
            CommitOutcomeUnknown: when COMMIT itself failed.
        """

    def view(self) -> AbstractContextManager[TablesView]:
        """Open a consistent snapshot that never waits for the writer."""

    def server_time_us(self) -> int | None:
        """Return the time by the server's clock, in microseconds since 1970-01-01 UTC.

        None where the store is on this machine, whose clock counts then.

        Raises:
            LedgerUnavailable: when the server does not answer.
        """

    def engine(self) -> dict[str, str]:
        """Return what keeps the ledger: `version`, and settings on which its durability rests.

        Raises:
            LedgerUnavailable: when it does not answer.
        """

    def close(self) -> None:
        """Release everything; the ledger can be opened again."""


@runtime_checkable
class GivesSpaceBack(Store, Protocol):
    """A store whose file can become shorter while it is used."""

    def give_space_back(self, pages_max: int) -> int:
        """Cut at most so many free pages off the end of the file; return how many are left.

        The writer's lock is held meanwhile. As many as before are left where the file was made
        without the means to do this: then they are used again, and never given back.

        Raises:
            LedgerUnavailable: when the lock was not granted in time.
        """


@runtime_checkable
class HasStandbys(Store, Protocol):
    """A store on a server of which others may be standbys."""

    def replication(self) -> Replication:
        """Return what the server says of its standbys.

        Raises:
            LedgerUnavailable: when it does not answer.
        """


@dataclass(frozen=True, slots=True)
class WriterTurn:
    """One writer's turn: what its transaction is computed on, and then written to."""

    snapshot: Tables
    """Nothing is ever written to it."""

    hold: Callable[[Sequence[Expected]], Tables]
    """Locks the head until the end of the turn, and returns the tables to write to.

    The rows that are expected, the head's first, must stand in the store as they do there. What is
    written may be sent when the turn ends; then it raises what this says.

    Raises:
        HeadMoved: an expected row is another, so nothing was written.
        LedgerUnavailable: the lock was not granted in time; nothing was written.
    """


@runtime_checkable
class HeldLate(Store, Protocol):
    """A store that can lock its head later than it takes the snapshot of a transaction."""

    def turn(self, questions: Questions = NO_QUESTIONS) -> AbstractContextManager[WriterTurn]:
        """Open a writing transaction whose head its `hold` locks; else like `transaction`.

        The snapshot answers the questions from what came with it, where they are asked. Writers
        that come through here wait for each other a while, because what is computed beside another
        writer is computed in vain. Nothing rests on it.
        """


@runtime_checkable
class SharedStore(Store, Protocol):
    """A store whose server can end a process that holds the head and is dead."""

    def share(self, name: str, is_dead: Callable[[str], bool]) -> None:
        """Write under a gateway's name from now on, and end holders of the head that are dead.

        `is_dead` is asked on whatever thread waits, about names that others write under.
        """


@runtime_checkable
class LooksAhead(Store, Protocol):
    """A store that reads the head in the message that opens a snapshot (`head_watch.py`)."""

    def look_ahead(self, known: Callable[[], Any]) -> None:
        """Give each snapshot from now on its look at the head, as `ahead`.

        `known` returns the head that is known, None where there is none yet.
        """


@runtime_checkable
class Replaceable(Store, Protocol):
    """A store in a file that somebody may replace while it is open."""

    def is_replaced(self) -> bool:
        """Tell whether the file at the path is not the one that is open; cheap."""

    def is_overwritten(self, known_at_us: int) -> bool:
        """Tell whether somebody else has written over the file that is open; not as cheap.

        `known_at_us` is the clock of a head that was known before.
        """

    def abandon(self) -> None:
        """Close everything, and write nothing more to the file or to what took its place."""
