"""Checks and records the steps of an extraction against a table of transitions (§16.3, §16.4).

Every step of a run is a record of its own: it has the next number and names the operation of the
step before, so either gives the run's history (§16.8). The owner of an extraction keeps its results
and notices (§16.6); this module enforces numbers, parents and transitions.
"""

from typing import Annotated, Literal, Self

import orjson
from pydantic import Field, model_validator

from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.store.tables import TableQuery
from kernel.model.envelope import KernelEffect
from kernel.model.receipt import Receipt
from kernel.records.comparison import numbered_records
from kernel.records.record import Applied, Operation, write_record
from kernel.records.typed import Name, Payload, stamp, target_of, validate_payload
from kernel.values.errors import EffectInapplicable

State = Literal["pending", "running", "succeeded", "degraded", "blocked", "abandoned", "cancelled"]

COMPARISON = numbered_records("attempt_number")

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
        # Not in §16.3: how a result is taken back, which no rollback does (§16.8).
        ("succeeded", "degraded"),
        ("blocked", "running"),
        ("blocked", "abandoned"),
        ("blocked", "cancelled"),
    }
)

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


ENDED = frozenset({"succeeded", "abandoned", "cancelled"})
"""States from which no extraction goes on by itself."""

REPLACEABLE = frozenset({"cancelled", "abandoned"})
"""States of a run in whose place another may begin."""

SOURCE_CHANGED = "source_version_changed_during_extraction"
"""Why a run is cancelled whose document changed under it (INV-EXT-6)."""


class ExtractionAttempt(Payload):
    """One step of an extraction run, from one state to the next."""

    attempt_number: Annotated[int, Field(ge=1, le=10_000)]
    prior_state: State
    current_state: State
    state_change_reason: Name
    block_reason: BlockReason | None = None
    parent_operation_id: Name | None = None
    cancellation_reason: Name | None = None
    replaces_extraction_run_id: Name | None = None
    """In a run's first step: the ended run in whose place it begins anew (INV-EXT-4, INV-EXT-6)."""

    @model_validator(mode="after")
    def _check_reasons(self) -> Self:
        if (self.current_state == "blocked") != (self.block_reason is not None):
            raise ValueError("block_reason is there if, and only if, it is blocked")
        if self.cancellation_reason is not None and self.current_state != "cancelled":
            raise ValueError("cancellation_reason is of what is cancelled")
        if self.replaces_extraction_run_id is not None and self.attempt_number != 1:
            raise ValueError("a run replaces another from its first step on")
        return self


def last_attempt(view: LedgerView, run_id: str) -> Document | None:
    """Return the newest step of a run, None where it has none."""
    query = TableQuery(
        schema.extraction_attempts,
        {"extraction_run_id": run_id},
        order_by="attempt_number",
        descending=True,
        limit=1,
    )
    rows = view.tables.scan(query)
    return view.record(schema.extraction_attempts, rows[0]["attempt_id"]) if rows else None


def attempts_of(view: LedgerView, run_id: str, *, limit: int) -> list[Document]:
    """Return the steps of a run in their order, the first ones where there are more."""
    query = TableQuery(
        schema.extraction_attempts,
        {"extraction_run_id": run_id},
        order_by="attempt_number",
        limit=limit,
    )
    rows = view.tables.scan(query)
    return [orjson.loads(row["record"]) for row in rows]


def runs_of_source(view: LedgerView, source_ref: str, *, limit: int) -> list[str]:
    """Return the runs that began to read a source, by their names."""
    query = TableQuery(
        schema.extraction_attempts,
        {"source_ref": source_ref},
        order_by="attempt_id",
        limit=limit,
    )
    rows = view.tables.scan(query)
    return [row["extraction_run_id"] for row in rows]


def steps_into(view: LedgerView, state: str, *, after: str, limit: int) -> list[Document]:
    """Return steps that led to a state, by their keys `run|number`; runs may have left it since."""
    query = TableQuery(
        schema.extraction_attempts,
        {"current_state": state},
        order_by="attempt_id",
        after=after,
        limit=limit,
    )
    rows = view.tables.scan(query)
    return [orjson.loads(row["record"]) for row in rows]


def attempt_of(view: LedgerView, run_id: str, attempt_number: int) -> Document | None:
    """Return one step of a run."""
    return view.record(schema.extraction_attempts, f"{run_id}|{attempt_number}")


def apply_extraction_transition(effect: KernelEffect, operation: Operation) -> Applied:
    """Record the next step of an extraction."""
    run_id = target_of(effect)
    attempt = validate_payload(ExtractionAttempt, effect.payload)
    _check_step(attempt, last_attempt(operation.transaction, run_id))
    _check_replaced(attempt, operation.transaction)
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
    number = 1 if before is None else before["attempt_number"] + 1
    if attempt.attempt_number != number:
        raise EffectInapplicable(
            f"this is attempt {number}",
            code="extraction_attempt_invalid",
            field="payload.attempt_number",
        )
    parent = None if before is None else before["operation_id"]
    if attempt.parent_operation_id != parent:
        raise EffectInapplicable(
            f"the attempt before is {parent or 'none'}",
            code="extraction_attempt_invalid",
            field="payload.parent_operation_id",
        )


def _check_replaced(attempt: ExtractionAttempt, view: LedgerView) -> None:
    replaced = attempt.replaces_extraction_run_id
    if replaced is None:
        return
    last = last_attempt(view, replaced)
    if last is None or last["current_state"] not in REPLACEABLE:
        raise EffectInapplicable(
            f"{replaced} is neither cancelled nor abandoned",
            code="extraction_attempt_invalid",
            field="payload.replaces_extraction_run_id",
        )
