"""Counts operations by kind and target, which ends a loop of implications (INV-A-BRIDGE-1).

The operations of a detector follow from operations of the log, some of which a detector has emitted
before. Such operations are a chain, and each of its links belongs to a later epoch than the link
before. `chain_epochs` of an operation is one more than the most of those that implied it, so 1
where nothing of it was implied.

A loop is an operation kind and a target. It repeats where a longer chain comes to it than any
before, whatever lies between: its own emission, that of another target, or other people's work.
Many operations of the log that each imply something for one target repeat nothing (decision
kernel/0297).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kernel.ledger import schema
from kernel.ledger.ledger import LedgerTransaction, LedgerView
from kernel.model.envelope import Envelope, Implied
from kernel.values.canonical import digest

CYCLE_EPOCHS_MAX = 10
"""N of §19.1: in how many epochs in a row one kind of operation may come to one target."""

CHAIN_EPOCHS_MAX = 100
"""The longest chain, as for a cascade of authorities (§8.4): one that comes to ever new targets
ends as well."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A kind of operation and a target, as the counter has them once an operation is applied."""

    loop_id: str
    operation_kind: str
    target_ref: str
    repetitions: int
    """The epochs in a row in which it was emitted, this one included."""

    chain_epochs: int

    @property
    def is_exceeded(self) -> bool:
        """Whether it went on for longer than it may."""
        return self.repetitions > CYCLE_EPOCHS_MAX or self.chain_epochs > CHAIN_EPOCHS_MAX


def loop_id_of(operation_kind: str, target_ref: str) -> str:
    """Return the name of a loop."""
    return digest([operation_kind, target_ref])


def loops_of(view: LedgerView, envelope: Envelope, implied: Implied) -> Iterator[Loop]:
    """Yield the loops to which an implied operation belongs, as they stand once it is applied."""
    chain_epochs = _chain_epochs(view, implied)
    for target_ref in dict.fromkeys(envelope.target_refs):
        loop_id = loop_id_of(envelope.operation_kind, target_ref)
        row = view.tables.get(schema.implication_loops, loop_id)
        repetitions, longest = (0, 0) if row is None else (row["repetitions"], row["chain_epochs"])
        if chain_epochs > longest:
            repetitions, longest = repetitions + 1, chain_epochs
        yield Loop(loop_id, envelope.operation_kind, target_ref, repetitions, longest)


def count_implied(transaction: LedgerTransaction, envelope: Envelope, implied: Implied) -> None:
    """Record an implied operation and count its loops; where it stands was judged before."""
    loops = list(loops_of(transaction, envelope, implied))
    transaction.tables.insert(
        schema.implied_operations,
        {
            "operation_id": envelope.operation_id,
            "detector": implied.detector,
            "implication_epoch": implied.implication_epoch,
            "chain_epochs": _chain_epochs(transaction, implied),
        },
    )
    for loop in loops:
        transaction.tables.put(
            schema.implication_loops,
            {
                "loop_id": loop.loop_id,
                "operation_kind": loop.operation_kind,
                "target_ref": loop.target_ref,
                "repetitions": loop.repetitions,
                "chain_epochs": loop.chain_epochs,
            },
        )


def _chain_epochs(view: LedgerView, implied: Implied) -> int:
    rows = (
        view.tables.get(schema.implied_operations, operation_id)
        for operation_id in implied.implied_by_operation_ids
    )
    return 1 + max((row["chain_epochs"] for row in rows if row is not None), default=0)
