"""The course of every kind and verb, and a ledger that stands at any point of it."""

import functools
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kernel.ledger import schema
from kernel.ledger.ledger import Ledger, LedgerTransaction
from kernel.ledger.store.keys import column_names, key_names, values_getter
from kernel.ledger.store.memory import MemoryStore
from kernel.ledger.store.tables import TableQuery
from kernel.model.result import SubmissionResult
from kernel.transaction.kernel import Kernel
from tests.kernel.build import FakeHost, abandoned, informed, ledger_on, op_id, twin
from tests.kernel.every import every_kind

COURSE = tuple(every_kind())
KERNEL = Kernel()

_names = itertools.count(1)


@functools.cache
def ledger_at(place: int) -> tuple[Ledger, FakeHost]:
    """A ledger on which the course was submitted up to a place; nobody may commit to it."""
    if not place:
        return ledger_on(MemoryStore())
    ledger, fake = twin(*ledger_at(place - 1))
    with ledger.transaction() as transaction:
        accept(transaction, COURSE[place - 1])
    return ledger, fake


@contextmanager
def standing_at(place: int) -> Iterator[LedgerTransaction]:
    """A transaction at a place of the course, which is abandoned at its end."""
    ledger, _ = ledger_at(place)
    with abandoned(ledger.transaction()) as transaction:
        yield transaction


def accept(transaction: LedgerTransaction, document: dict[str, Any]) -> SubmissionResult:
    """Submit as the orchestrator what has to be accepted."""
    stated = informed(transaction, {**document})
    result = KERNEL.submit(transaction, stated, "orchestrator")
    assert isinstance(result, SubmissionResult), (document, result)
    return result


def renamed(document: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The same operation under another id and key."""
    name = f"renamed-{next(_names)}"
    return {**document, "operation_id": op_id(name), "idempotency_key": name, **changes}


def state_of(transaction: LedgerTransaction) -> dict[str, dict[str, str]]:
    """Every record of state but the marks of undoing, by store and key, as text of its columns."""
    state = {}
    for table in schema.STATE_TABLES:
        [key] = key_names(table)
        values = values_getter(column_names(table))
        rows = transaction.tables.scan(TableQuery(table))
        state[str(table.name)] = {row[key]: repr(values(row)) for row in rows}
    return state
