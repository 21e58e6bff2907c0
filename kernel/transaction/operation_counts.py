"""Counts the operations of a day and of a run: folded from the log, one row for each (§18.4).

A day is a day of UTC by commit time. A run is a session, or what the envelope names as its
`run_id`; runs are counted only while a budget for them is in force, so that nothing is written
for a limit that nobody set. A quota that is exceeded and let pass has one alert a day and kind, a
budget one a run.
"""

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Table

from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerTransaction, LedgerView
from kernel.ledger.store.buffer import BufferedTables, query_ahead
from kernel.ledger.store.keys import key_names
from kernel.ledger.store.tables import Joined
from kernel.model.envelope import Envelope
from kernel.model.receipt import Receipt
from kernel.model.recomputes import RECALCULATE
from kernel.records.capacity import governance_of
from kernel.records.operation_steps import AppliedOperation
from kernel.values.host import iso_time

ALERT = "quota_exceeded_alert"
_DAY_CHARS = len("2000-01-01")
_DAILY = schema.daily_operation_counts
_COUNTED = "the newest counts of days that were touched"
_COUNTED_MAX = 64


def day_of(time_us: int) -> str:
    """Return the UTC day of a time."""
    return iso_time(time_us)[:_DAY_CHARS]


def day_key(time_us: int, operation_kind: str) -> str:
    """Return the key under which a day's operations of a kind are counted."""
    return f"{day_of(time_us)}|{operation_kind}"


def run_of(envelope: Envelope) -> str | None:
    """Return the run to which an operation belongs, None where it names none."""
    return envelope.run_id or envelope.session_id


def operations_of_day(view: LedgerView, time_us: int, operation_kind: str) -> int:
    """Return how many operations of a kind the day of a time has had."""
    return _count_of(view, _DAILY, day_key(time_us, operation_kind))


def operations_of_run(view: LedgerView, run: str) -> int:
    """Return how many operations a run has had since its budget was set."""
    return _count_of(view, schema.run_operation_counts, run)


def count_operation(operation: AppliedOperation) -> None:
    """Count an operation that is being applied; emit an alert for the first beyond a limit.

    A page counts as many operations as it has recomputes.
    """
    transaction, envelope, emit = operation.transaction, operation.envelope, operation.emit
    is_page = envelope.semantic_intent == RECALCULATE and len(envelope.target_refs) > 1
    governance, amount = governance_of(transaction), len(envelope.target_refs) if is_page else 1
    # The time of applying begins with its day.
    kind, day = envelope.operation_kind, operation.applied_at[:_DAY_CHARS]
    about: Document = {"operation_kind": kind, "day": day}
    _count(transaction, _DAILY, f"{day}|{kind}", governance.quota_of(kind), amount, about, emit)
    budget = governance.per_run_write_budget
    run = None if budget is None else run_of(envelope)
    if budget is not None and run is not None:
        counts = schema.run_operation_counts
        _count(transaction, counts, run, budget, amount, {"run_id": run}, emit)


def note_counted(transaction: LedgerTransaction) -> None:
    """Keep which counts of its day a transaction has touched, for `counts_to_come`."""
    tables = transaction.tables
    if isinstance(tables, BufferedTables):
        counted: dict[str, None] = transaction.kept.setdefault(_COUNTED, {})
        counted |= dict.fromkeys(str(key) for (key,) in tables.buffered_rows(_DAILY))
        for key in list(counted)[:-_COUNTED_MAX]:
            del counted[key]


def counts_to_come(kept: Mapping[Any, Any]) -> Joined:
    """Return the query of the counts that transactions have touched of late: the next may too."""
    return Joined(query_ahead(_DAILY, "day_and_kind", kept.get(_COUNTED, ())))


def _count_of(view: LedgerView, table: Table, key: str) -> int:
    row = view.tables.get(table, key)
    return 0 if row is None else int(row["operation_count"])


def _count(
    transaction: LedgerTransaction,
    table: Table,
    key: str,
    limit: int,
    amount: int,
    about: Document,
    emit: Callable[[Receipt], str],
) -> None:
    (key_column,) = key_names(table)
    row = transaction.peek(table, key)
    count, alerted = (0, 0) if row is None else (row["operation_count"], row["alerted"])
    if count + amount > limit and not alerted:
        alerted = 1
        emit(Receipt(ALERT, {**about, "operation_count": count, "quota": limit}))
    transaction.tables.put(
        table, {key_column: key, "operation_count": count + amount, "alerted": alerted}
    )
