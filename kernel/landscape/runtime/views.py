"""Gives a snapshot in which a run of the runtime reads like any other run.

Whatever reads runs (reports, lineage, exports, digests) reads this one from records that are made
here, and everything else from the snapshot itself.
"""

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from typing import Any, TypeVar, cast

import orjson
from sqlalchemy import Table

from kernel.landscape.errors import LandscapeRefused
from kernel.landscape.record_rules import KEYS, TABLES
from kernel.landscape.runtime.records import RuntimeRecords, run_record
from kernel.landscape.runtime.stretches import (
    RuntimeRun,
    is_runtime,
    newest_stretches,
    stretch_of_id,
)
from kernel.landscape.seals import seal_of
from kernel.ledger.ad_hoc_query import QueryAnswer, QueryBounds
from kernel.ledger.ledger import LedgerView
from kernel.ledger.sqlite.query import query_records
from kernel.ledger.store.tables import Row, TableQuery, Tables, TablesView, rows_of

View = TypeVar("View", bound=LedgerView)

_NAMES = {table: name for name, table in TABLES.items()}


def run_view(view: View, run_id: str | None) -> View:
    """Return the snapshot in which a run is read: of the runtime with its records, else as it is.

    Raises:
        LandscapeRefused: `landscape_unknown` of a run of the runtime that this log does not have.
        RangeQuarantined: its records would be made of rows that are quarantined.
    """
    if run_id is None or not is_runtime(run_id):
        return view
    if view.tables.get(TABLES["runs"], run_id) is not None:
        return view  # of another log, and taken in here
    stretch = stretch_of_id(view, run_id)
    if stretch is None:
        raise LandscapeRefused(f"no run is called {run_id}", code="landscape_unknown")
    view.quarantines().expect_none_over(stretch.first, stretch.last)
    return view_of(view, stretch)


def view_of(view: View, stretch: RuntimeRun) -> View:
    """Return a snapshot with the records of a stretch; linear in its rows."""
    made = _RunTables(RuntimeRecords(view, stretch).rows, view.tables)
    # Whoever may read the snapshot as it is reads the run so.
    of_run = copy(view)
    of_run.tables = cast("TablesView", made)
    return of_run


def runtime_runs(view: LedgerView, *, limit: int) -> list[Row]:
    """Return the runs of the runtime, the newest first: the one that is going on, sealed ones."""
    return [run_record(view, stretch) for stretch in newest_stretches(view, limit=limit)]


def counts_of(view: LedgerView, run_id: str, names: Iterable[str]) -> dict[str, int]:
    """Return how many records of each of some tables a run of the runtime has.

    Of a sealed run its seal says it. Of one whose rows are quarantined no records are made.
    """
    seal = seal_of(view, run_id)
    if seal is not None:
        stated = orjson.loads(seal["table_digests"])
        return {name: stated.get(name, {}).get("records", 0) for name in names}
    stretch = stretch_of_id(view, run_id)
    if stretch is not None and view.quarantines().over(stretch.first, stretch.last) is not None:
        return dict.fromkeys(names, 0)
    made = run_view(view, run_id).tables
    return {name: made.count(TableQuery(TABLES[name], {"run_id": run_id})) for name in names}


class _RunTables:
    """The tables of a snapshot, but for those of records of runs; nothing is written to them."""

    def __init__(self, made: Mapping[str, list[Row]], others: TablesView) -> None:
        self._made = made
        self._others = cast("Tables", others)
        self._indexes: dict[tuple[str, str], dict[Any, list[Row]]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._others, name)

    def get(self, table: Table, *key: str | int) -> Row | None:
        """Return the row of a primary key."""
        name = _NAMES.get(table)
        if name is None:
            return self._others.get(table, *key)
        rows = self._having(name, KEYS[name], key[-1])
        return dict(rows[0]) if rows and rows[0]["run_id"] == key[0] else None

    def scan(self, query: TableQuery) -> list[Any]:
        """Return the rows of a query, or tuples of values where it names columns."""
        name = _NAMES.get(query.table)
        if name is None:
            return self._others.scan(query)
        if query.any_of is None:
            return rows_of(query, self._matching(name, query.where))
        column, values = query.any_of
        equal = ({**query.where, column: value} for value in dict.fromkeys(values))
        return rows_of(query, (row for where in equal for row in self._matching(name, where)))

    def count(self, query: TableQuery) -> int:
        """Return how many rows a query has."""
        return len(self.scan(query)) if query.table in _NAMES else self._others.count(query)

    def _matching(self, name: str, where: Mapping[str, Any]) -> list[Row]:
        others = {column: value for column, value in where.items() if column != "run_id"}
        run_id = where.get("run_id")
        rows = self._made[name]
        if others:
            column, value = next(iter(others.items()))
            rows = self._having(name, column, value)
        equal = [*where.items()]
        if run_id is None and not others:
            return list(rows)
        return [row for row in rows if all(row[each] == value for each, value in equal)]

    def _having(self, name: str, column: str, value: Any) -> list[Row]:
        index = self._indexes.get((name, column))
        if index is None:
            index = self._indexes[name, column] = {}
            for row in self._made[name]:
                index.setdefault(row[column], []).append(row)
        return index.get(value, [])


def query_run(
    view: LedgerView, run_id: str, sql: str, bounds: QueryBounds, now_s: Callable[[], float]
) -> QueryAnswer:
    """Make the records of a run and run one SELECT of SQLite on them.

    The statement sees the tables `landscape_…` with this run alone. Making them is linear in the
    rows of the run's stretch of the log and is not part of the time that the statement has.

    Raises:
        LandscapeRefused: `landscape_unknown` of what is no run of the runtime on this log.
        QueryRefused: `query_refused`, `query_failed`, `query_timed_out`.
    """
    stretch = stretch_of_id(view, run_id)
    if stretch is None:
        message = (
            f"{run_id} is no run of the runtime on this log; the records of a pipeline's run are"
            " in the tables, WHERE run_id = '…'"
        )
        raise LandscapeRefused(message, code="landscape_unknown")
    view.quarantines().expect_none_over(stretch.first, stretch.last)
    made = RuntimeRecords(view, stretch).rows
    records = {TABLES[name]: made[name] for name in TABLES}
    return query_records(records, sql, bounds, now_s)
