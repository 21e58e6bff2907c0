"""Records of a run in pages.

A page is in the order of the records' keys, rows in that of their source, calls in that in which
their parent made them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from kernel.landscape.errors import LandscapeRefused
from kernel.landscape.lineage import locate_record
from kernel.landscape.record_rules import KEYS, TABLES, check_stored
from kernel.landscape.reports import run_of_id
from kernel.ledger.ledger import LedgerView
from kernel.ledger.store.tables import Row, TableQuery

ORDERS: Mapping[str, str] = MappingProxyType({**KEYS, "rows": "row_index", "calls": "call_index"})
"""The column by which a page of a table is ordered, and behind which the next page begins."""


@dataclass(frozen=True, slots=True)
class RecordPage:
    """Some records of a run, and behind which the next page begins: None after the last."""

    records: list[Row]
    next_after: str | int | None


def page_of(
    view: LedgerView,
    run_id: str,
    name: str,
    where: Mapping[str, Any],
    *,
    after: str | int | None,
    limit: int,
) -> RecordPage:
    """Return the records of a table that equal `where`; a value of None there bounds nothing.

    Raises:
        LandscapeRefused: `landscape_unknown`.
        RecordDamaged: a record breaks a rule.
    """
    run_of_id(view, run_id)
    order = ORDERS[name]
    stated = {column: value for column, value in where.items() if value is not None}
    query = TableQuery(
        TABLES[name], {"run_id": run_id, **stated}, order_by=order, after=after, limit=limit + 1
    )
    rows = view.tables.scan(query)
    records = [check_stored(TABLES[name], row) for row in rows[:limit]]
    return RecordPage(records, records[-1][order] if len(rows) > limit else None)


def calls_of(
    view: LedgerView,
    parents: str,
    parent_id: str,
    *,
    run_id: str | None,
    after: int | None,
    limit: int,
) -> RecordPage:
    """Return the calls of a state or an operation, whose table is `parents`.

    Raises:
        LandscapeRefused: `landscape_unknown`.
    """
    kind, run, _ = locate_record(view, parent_id, run_id)
    if kind != parents:
        message = f"{parent_id} is a record of {kind}, and not of {parents}"
        raise LandscapeRefused(message, code="landscape_unknown")
    where = {KEYS[parents]: parent_id}
    return page_of(view, run["run_id"], "calls", where, after=after, limit=limit)
