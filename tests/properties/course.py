"""The course of every kind and verb, and a ledger that stands at any point of it."""

import functools
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kernel.canonical import canonicalize
from kernel.kernel import Kernel
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger, LedgerTransaction
from kernel.ledger.memory import MemoryStore
from kernel.model.result import SubmissionResult
from tests.kernel.build import FakeHost, abandoned, informed, op_id
from tests.kernel.every import every_kind

COURSE = tuple(every_kind())
KERNEL = Kernel()

_names = itertools.count(1)


@functools.cache
def ledger_at(place: int) -> Ledger:
    """A ledger on which the course was submitted up to a place; nobody may commit to it."""
    ledger = Ledger.create(MemoryStore(), FakeHost().host)
    with ledger.transaction() as transaction:
        for document in COURSE[:place]:
            accept(transaction, document)
    return ledger


@contextmanager
def standing_at(place: int) -> Iterator[LedgerTransaction]:
    """A transaction at a place of the course, which is abandoned at its end."""
    with abandoned(ledger_at(place).transaction()) as transaction:
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


def state_of(transaction: LedgerTransaction) -> dict[str, dict[str, bytes]]:
    """Every record of state but the marks of undoing, by store and key."""
    state = {}
    for table in schema.STATE_TABLES:
        key = table.primary_key.columns[0].name
        rows = transaction.tables.select(table)
        state[str(table.name)] = {
            row[key]: canonicalize(
                {
                    str(name): value.hex() if isinstance(value, bytes) else value
                    for name, value in row.items()
                }
            )
            for row in rows
        }
    return state
