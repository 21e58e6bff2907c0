"""Attempts at an extraction, a state machine as a table (§16.3, §16.4).

Going in again after a partial or a blocked attempt is a new attempt with the next number, which
names the operation that ended the one before.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from kernel.errors import EffectInapplicable
from kernel.ledger import schema
from kernel.ledger.ledger import Document
from kernel.model.envelope import KernelEffect
from kernel.model.receipt import Receipt
from kernel.stores.record import Applied, Operation, write_record
from kernel.stores.typed import Name, Payload, stamp, target_of, validated

State = Literal["pending", "running", "succeeded", "degraded", "blocked", "abandoned", "cancelled"]

TRANSITIONS = frozenset(
    {
        ("pending", "running"),
        ("pending", "cancelled"),
        ("running", "succeeded"),
        ("running", "degraded"),
        ("running", "blocked"),
        ("running", "abandoned"),
        ("running", "cancelled"),
        ("degraded", "running"),
        ("degraded", "cancelled"),
        ("blocked", "running"),
        ("blocked", "abandoned"),
        ("blocked", "cancelled"),
    }
)

_REENTRIES = frozenset({("degraded", "running"), ("blocked", "running")})

BlockReason = Literal[
    "auth_required",
    "model_unavailable",
    "rate_limit",
    "context_window_exhausted",
    "ocr_failed",
    "document_unparseable",
    "corpus_resource_unavailable",
    "upstream_dependency_unmet",
    "manual_pause",
    "policy_blocked",
    "visibility_blocked",
    "materialization_unavailable",
    "source_unavailable",
    "quota_exceeded",
    "quality_hard_fail",
    "prompt_injection_risk_unresolved",
]


class ExtractionAttempt(Payload):
    """One step of one attempt."""

    attempt_number: Annotated[int, Field(ge=1, le=10_000)]
    prior_state: State
    current_state: State
    state_change_reason: Name
    block_reason: BlockReason | None = None
    parent_operation_id: Name | None = None

    @model_validator(mode="after")
    def _blocked_for_a_reason(self) -> Self:
        if (self.current_state == "blocked") != (self.block_reason is not None):
            raise ValueError("block_reason is there if, and only if, it is blocked")
        return self


def apply_extraction_transition(effect: KernelEffect, operation: Operation) -> Applied:
    """Record the next state of an extraction."""
    run_id = target_of(effect)
    attempt = validated(ExtractionAttempt, effect.payload)
    rows = operation.transaction.tables.select(
        schema.extraction_attempts,
        {"extraction_run_id": run_id},
        order_by="attempt_number",
        descending=True,
        limit=1,
    )
    before = (
        operation.transaction.record(schema.extraction_attempts, rows[0]["attempt_id"])
        if rows
        else None
    )
    _check_step(attempt, before)
    record = {
        **effect.payload,
        "extraction_run_id": run_id,
        "operation_id": operation.operation_id,
        **stamp(operation),
    }
    key = f"{run_id}|{attempt.attempt_number}"
    body = {
        "extraction_run_id": run_id,
        **attempt.model_dump(mode="json", exclude_none=True),
    }
    operation.emit(Receipt("extraction_attempt", body))
    return write_record(operation, schema.extraction_attempts, key, record)


def _check_step(attempt: ExtractionAttempt, before: Document | None) -> None:
    state = "pending" if before is None else before["current_state"]
    step = (attempt.prior_state, attempt.current_state)
    if attempt.prior_state != state or step not in TRANSITIONS:
        raise EffectInapplicable(
            f"{state} cannot become {attempt.current_state}",
            code="extraction_state_transition_invalid",
            field="payload.current_state",
        )
    number = 1 if before is None else before["attempt_number"] + (step in _REENTRIES)
    if attempt.attempt_number != number:
        raise EffectInapplicable(
            f"this is attempt {number}",
            code="extraction_attempt_invalid",
            field="payload.attempt_number",
        )
    parent = before["operation_id"] if before is not None and step in _REENTRIES else None
    if parent is not None and attempt.parent_operation_id != parent:
        raise EffectInapplicable(
            f"the attempt before ended with {parent}",
            code="extraction_attempt_invalid",
            field="payload.parent_operation_id",
        )
