"""Records what people decide about the runtime: an operation each, with who decided and why.

A queue is paused and resumed, a request requeued, dismissed or cancelled, a payload erased, a legal
hold set and lifted, a quarantine of rows of the log lifted, a ledger accepted that went back. The
operation names what it is about (its targets), and what it leads to is written beside it, in the
same transaction: durable receipts that name the operation (`decided_by_operation_id`), and what
those receipts write. Nothing is folded from the operation itself (decision kernel/0265).
"""

from collections.abc import Callable
from dataclasses import dataclass

from kernel.ledger.ledger import Document
from kernel.model.receipt import sole_receipt
from kernel.model.stated_receipts import OperatorDecided
from kernel.records.operation_steps import AppliedOperation
from kernel.values.errors import EffectInapplicable

DECIDED_RECEIPT = "operator_decided"


@dataclass(frozen=True, slots=True)
class OperatorDecision:
    """What somebody decides."""

    verb: str
    """One of OPERATOR_VERBS."""

    targets: tuple[str, ...]
    """What it is about; at least one."""

    decided_by: str
    """Who decides, or on whose authority; empty where nobody said."""

    reason: str


Decide = Callable[[OperatorDecision], str]
"""Puts a decision that changes something on the log, and returns its operation."""


def record_decision(decision: OperatorDecision, decide: Decide) -> Document:
    """Put a decision on the log; return what the receipts of what it leads to say of it."""
    return {"decided_by": decision.decided_by, "decided_by_operation_id": decide(decision)}


def queue_target(queue: str, priority: str | None) -> str:
    """Return the name of a queue, or of one of its priorities, in a decision."""
    return f"queue:{queue}" if priority is None else f"queue:{queue}:{priority}"


def payload_target(commitment: str) -> str:
    """Return the name of a payload in a decision."""
    return f"payload:{commitment}"


def hold_target(hold_id: str) -> str:
    """Return the name of a legal hold in a decision."""
    return f"legal-hold:{hold_id}"


def quarantine_target(quarantine_id: str) -> str:
    """Return the name of a quarantine of rows of the log in a decision."""
    return f"quarantine:{quarantine_id}"


def head_target(ec_sequence_number: str, row_hash: str) -> str:
    """Return the name of a head of the ledger in a decision."""
    return f"ledger-head:{ec_sequence_number}:{row_hash}"


def check_decision(operation: AppliedOperation) -> OperatorDecided:
    """Return the decision that an operation states.

    Raises:
        EffectInapplicable: `operator_decision_invalid`.
    """
    try:
        return sole_receipt(operation.envelope, DECIDED_RECEIPT, OperatorDecided)
    except ValueError as error:
        raise EffectInapplicable(
            f"{operation.semantic_intent}: {error}",
            code="operator_decision_invalid",
            field="primitive_effects.0.payload",
        ) from None
