"""Generations of a source binding; the newest that was not reverted is effective (§4.3.20, §15.3).

A snapshot never changes. Which one supersedes it follows from the numbers, so it is not stored.
"""

from typing import Annotated, Any

from pydantic import StringConstraints

from kernel.errors import EffectInapplicable
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.model.envelope import KernelEffect
from kernel.model.receipt import Receipt
from kernel.stores.dates import Instant
from kernel.stores.record import Applied, Operation, write_record
from kernel.stores.typed import Payload, stamp, target_of, validated


class BindingGenerationSnapshot(Payload):
    """A binding as it is from a generation on."""

    binding_generation_id: Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,8}$")]
    binding_snapshot: dict[str, Any]
    effective_at: Instant


def generation_in_force(view: LedgerView, binding_id: str) -> Document | None:
    """Return the newest generation of a binding that was not reverted, None where none stands."""
    rows = view.tables.select(
        schema.binding_generation_snapshots,
        {"binding_id": binding_id, "in_force": 1},
        order_by="generation",
        descending=True,
        limit=1,
    )
    return (
        view.record(schema.binding_generation_snapshots, rows[0]["snapshot_id"]) if rows else None
    )


def generation_of(view: LedgerView, binding_id: str, generation_id: str) -> Document | None:
    """Return one generation of a binding, in force or not; None where there is none."""
    return view.record(schema.binding_generation_snapshots, f"{binding_id}|{generation_id}")


def last_generation(view: LedgerView, binding_id: str) -> Document | None:
    """Return the newest generation of a binding, reverted or not, None where it never had one."""
    rows = view.tables.select(
        schema.binding_generation_snapshots,
        {"binding_id": binding_id},
        order_by="generation",
        descending=True,
        limit=1,
    )
    return (
        view.record(schema.binding_generation_snapshots, rows[0]["snapshot_id"]) if rows else None
    )


def apply_binding_generation(effect: KernelEffect, operation: Operation) -> Applied:
    """Make a new generation of a binding effective, or the one before again."""
    binding_id = target_of(effect)
    current = generation_in_force(operation.transaction, binding_id)
    if effect.effect_kind == "binding_generation_revert":
        if current is None:
            raise EffectInapplicable(
                f"{binding_id} has no generation", code="record_not_found", field="target_ref"
            )
        record: Document = {**current, "state": "reverted", **stamp(operation)}
        generation = int(current["binding_generation_id"])
    else:
        payload = validated(BindingGenerationSnapshot, effect.payload)
        last = last_generation(operation.transaction, binding_id)
        generation = 1 if last is None else int(last["binding_generation_id"]) + 1
        if payload.binding_generation_id != str(generation):
            raise EffectInapplicable(
                f"the next generation is {generation}",
                code="binding_generation_not_next",
                field="payload.binding_generation_id",
            )
        record = {
            **effect.payload,
            "binding_id": binding_id,
            "supersedes": None if current is None else current["binding_generation_id"],
            "state": "effective",
            **stamp(operation),
        }
    key = f"{binding_id}|{generation}"
    body = {
        "binding_id": binding_id,
        "binding_generation_id": str(generation),
        "effective_at": record["effective_at"],
        "state": record["state"],
    }
    if record["state"] == "effective" and record.get("critical_approval") is not None:
        body["critical_approval"] = record["critical_approval"]
    operation.emit(Receipt("binding_generation_snapshot", body))
    return write_record(operation, schema.binding_generation_snapshots, key, record)
