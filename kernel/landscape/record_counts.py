"""Counts a run's records by each value of a column, in the database.

A count reads no record, so it would pass over a damaged one: the counts of all values are held
against the count of all records, and where they differ the records are read.
"""

from collections.abc import Iterable

from kernel.landscape.digest import records_of
from kernel.landscape.errors import RecordDamaged
from kernel.landscape.record_rules import TABLES, check_stored, key_text, missing_reference
from kernel.ledger.ledger import LedgerView
from kernel.ledger.store.tables import TableQuery


def count_of(view: LedgerView, run_id: str, name: str) -> int:
    """Return how many records of a table a run has."""
    return view.tables.count(TableQuery(TABLES[name], {"run_id": run_id}))


def counts_by(
    view: LedgerView, run_id: str, name: str, column: str, values: Iterable[str]
) -> dict[str, int]:
    """Return how many records of a run have each of the values, which are all that there can be.

    Raises:
        RecordDamaged: a record has another value.
    """
    of_run = {"run_id": run_id}
    counts = {
        value: view.tables.count(TableQuery(TABLES[name], of_run | {column: value}))
        for value in values
    }
    hold_to_total(view, run_id, name, sum(counts.values()))
    return counts


def hold_to_total(view: LedgerView, run_id: str, name: str, counted: int) -> None:
    """Find the damaged record where what was counted is not all records of a table.

    Raises:
        RecordDamaged: it is not.
    """
    if counted == count_of(view, run_id, name):
        return
    table = TABLES[name]
    for row in records_of(view.tables, run_id, name):
        check_stored(table, row)
        missing = missing_reference(view.tables, table, row)
        if missing is not None:
            raise RecordDamaged(str(table.name), key_text(table, row), missing)
    raise RecordDamaged(
        str(table.name), run_id, f"it has other records than the {counted} that were counted"
    )
