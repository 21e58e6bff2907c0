"""Halts a loop of implications or a detector until a person resumes it (§19.1).

A halt is an operation and so is its end; `implication_halts` holds those that stand. The kernel
halts a loop itself, beside the receipt of the refusal that says by how much it was exceeded.
"""

from dataclasses import dataclass
from typing import Final, TypeVar

from pydantic import BaseModel, ValidationError

from kernel.algebra.verbs import IMPLICATION_HALT
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerTransaction, LedgerView
from kernel.ledger.store.tables import Row, TableQuery
from kernel.model.envelope import Envelope
from kernel.model.problems import first_problem
from kernel.model.receipt import receipt_effect
from kernel.model.stated_receipts import ImplicationHalt, ImplicationResumed
from kernel.records.implications.loop_limits import Loop
from kernel.records.operation_steps import AppliedOperation
from kernel.values.canonical import digest
from kernel.values.errors import EffectInapplicable
from kernel.values.host import iso_time
from kernel.values.idempotency_keys import runtime_key

EXCEEDED: Final = "implication_detection_cycle_exceeded"
FAILED: Final = "implication_detector_failed"
HALTED = "implication_detection_halted"
"""The receipt of a halt, and the code of what it refuses from then on."""

RESUMED = "implication_detection_resumed"
UNKNOWN = "implication_halt_unknown"

Stated = TypeVar("Stated", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Halt:
    """A halt that stands."""

    halt_id: str
    detector: str
    reason_code: str
    operation_kind: str | None
    """None, as the target, where the detector is halted."""

    target_ref: str | None
    error_code: str | None
    operation_id: str
    """The operation that halted it."""

    halted_at: str


def detector_halt_id(detector: str) -> str:
    """Return the name of the halt of a detector; that of a loop is the loop's."""
    return f"detector:{detector}"


def is_halted(view: LedgerView, halt_id: str) -> bool:
    """Tell whether a halt stands."""
    return view.tables.get(schema.implication_halts, halt_id) is not None


def halts_of(view: LedgerView, *, after: str = "", limit: int) -> list[Halt]:
    """Return a page of the halts that stand, by their names."""
    rows = view.tables.scan(
        TableQuery(schema.implication_halts, order_by="halt_id", after=after, limit=limit)
    )
    return [_halt(row) for row in rows]


def halt_of(view: LedgerView, halt_id: str) -> Halt | None:
    """Return a halt that stands, None where none does."""
    row = view.tables.get(schema.implication_halts, halt_id)
    return None if row is None else _halt(row)


def count_halts(view: LedgerView) -> dict[str, int]:
    """Return how many halts stand, by what led to them."""
    halts = TableQuery(schema.implication_halts, columns=("reason_code",), grouped=True)
    counts = dict(view.tables.scan(halts))
    return {reason: counts.get(reason, 0) for reason in (EXCEEDED, FAILED)}


def halt_of_loop(
    transaction: LedgerTransaction, envelope: Envelope, detector: str, loop: Loop
) -> Document:
    """Return the envelope by which the kernel halts the loop of an envelope that it refuses."""
    stated = ImplicationHalt(
        halt_id=loop.loop_id,
        detector=detector,
        reason_code=EXCEEDED,
        operation_kind=loop.operation_kind,
        target_ref=loop.target_ref,
    )
    operation_id = f"implication-halt:{digest([envelope.operation_id, loop.loop_id])}"
    return {
        "operation_id": operation_id,
        "idempotency_key": runtime_key("implication_halt", operation_id),
        "envelope_version": "1.6",
        "operation_kind": IMPLICATION_HALT,
        "semantic_intent": IMPLICATION_HALT,
        "primitive_effects": [receipt_effect(HALTED, stated.model_dump(exclude_none=True))],
        "causal_parent_operation_ids": list(envelope.causal_parent_operation_ids),
        "actor": "system",
        "source_refs": [],
        "target_refs": [loop.target_ref],
        "policy_generation_id": transaction.policy_generation_id(),
        "affected_subgraph_descriptor": {
            "scope_kind": "single_node",
            "affected_node_refs": [loop.target_ref],
            "schema_version": 1,
        },
        "read_set_refs": [],
        "write_set_refs": [],
        "recorded_at": iso_time(transaction.head_now.committed_at_us),
        "schema_version": 1,
    }


def record_halt(operation: AppliedOperation) -> None:
    """Record a halt.

    Raises:
        EffectInapplicable: `implication_halt_invalid`; `implication_detection_halted` where it
            stands already.
    """
    transaction = operation.transaction
    halt = _receipt_of(operation.envelope, HALTED, ImplicationHalt)
    if is_halted(transaction, halt.halt_id):
        raise _refusal(HALTED, f"{halt.halt_id} is halted already")
    transaction.tables.insert(
        schema.implication_halts,
        {
            **halt.model_dump(),
            "operation_id": operation.operation_id,
            "halted_at_us": transaction.head_now.committed_at_us,
        },
    )


def record_resume(operation: AppliedOperation) -> None:
    """End a halt; the loop is counted anew.

    Raises:
        EffectInapplicable: `implication_halt_unknown` where none stands;
            `implication_resume_unauthorized` where no user asks for it.
    """
    transaction, envelope = operation.transaction, operation.envelope
    resumed = _receipt_of(envelope, RESUMED, ImplicationResumed)
    if envelope.actor != "user":
        message = "what was halted goes on when a person says so"
        raise _refusal("implication_resume_unauthorized", message, field="actor")
    if not is_halted(transaction, resumed.halt_id):
        raise _refusal(UNKNOWN, f"nothing is halted under {resumed.halt_id}")
    transaction.tables.delete(schema.implication_halts, resumed.halt_id)
    if transaction.tables.get(schema.implication_loops, resumed.halt_id) is not None:
        transaction.tables.delete(schema.implication_loops, resumed.halt_id)


def _halt(row: Row) -> Halt:
    return Halt(
        row["halt_id"],
        row["detector"],
        row["reason_code"],
        row["operation_kind"],
        row["target_ref"],
        row["error_code"],
        row["operation_id"],
        iso_time(row["halted_at_us"]),
    )


def _receipt_of(envelope: Envelope, receipt_kind: str, model: type[Stated]) -> Stated:
    stated = [
        effect.payload
        for effect in envelope.primitive_effects
        if effect.receipt_subkind == receipt_kind
    ]
    if len(stated) != 1:
        raise _refusal("implication_halt_invalid", f"states {receipt_kind} once")
    try:
        return model.model_validate(stated[0])
    except ValidationError as error:
        raise _refusal("implication_halt_invalid", first_problem(error)[1]) from None


def _refusal(
    code: str, message: str, field: str = "primitive_effects.0.payload"
) -> EffectInapplicable:
    return EffectInapplicable(message, code=code, field=field)
