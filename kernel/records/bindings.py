"""Keeps generations of a source binding; the newest not reverted is effective (§4.3.20, §15.3).

A snapshot never changes. Which one supersedes it follows from the numbers of those that were not
reverted, so it is not stored. Whoever reads a generation reads it here: with its `state`, which is
`effective`, `superseded` or `reverted`, and, of a superseded one, with the next as `superseded_by`.
"""

from typing import Annotated, Any

from pydantic import StringConstraints

from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.store.tables import TableQuery
from kernel.model.envelope import KernelEffect
from kernel.model.receipt import Receipt
from kernel.records.comparison import numbered_records
from kernel.records.dates import Instant
from kernel.records.record import Applied, Operation, write_record
from kernel.records.typed import Payload, stamp, target_of, validate_payload
from kernel.values.errors import EffectInapplicable

GENERATION_ID = r"^[1-9][0-9]{0,8}$"
_SNAPSHOTS = schema.binding_generation_snapshots

COMPARISON = numbered_records("binding_generation_id", "binding_generation_revert")


class BindingGenerationSnapshot(Payload):
    """A binding as it is from a generation on."""

    binding_generation_id: Annotated[str, StringConstraints(pattern=GENERATION_ID)]
    binding_snapshot: dict[str, Any]
    effective_at: Instant


def generation_in_force(view: LedgerView, binding_id: str) -> Document | None:
    """Return the newest generation of a binding that was not reverted, None where none stands."""
    record = _newest(view, {"binding_id": binding_id, "in_force": 1})
    return None if record is None else _as_read(record, None)


def last_generation(view: LedgerView, binding_id: str) -> Document | None:
    """Return the newest generation of a binding, reverted or not, None where it never had one."""
    record = _newest(view, {"binding_id": binding_id})
    return None if record is None else _as_read(record, None)


def generation_of(view: LedgerView, binding_id: str, generation_id: str) -> Document | None:
    """Return one generation of a binding, in force or not; None where there is none."""
    record = view.record(_SNAPSHOTS, f"{binding_id}|{generation_id}")
    if record is None:
        return None
    following = record["state"] == "effective" and view.tables.scan(
        TableQuery(
            _SNAPSHOTS,
            {"binding_id": binding_id, "in_force": 1},
            order_by="generation",
            after=int(record["binding_generation_id"]),
            limit=1,
        )
    )
    return _as_read(record, str(following[0]["generation"]) if following else None)


def snapshot_of(view: LedgerView, binding_id: str, generation_id: str) -> Document | None:
    """Return what a binding meant in a generation, whatever became of that; None where none is."""
    record = view.record(_SNAPSHOTS, f"{binding_id}|{generation_id}")
    return None if record is None else record["binding_snapshot"]


def _newest(view: LedgerView, where: Document) -> Document | None:
    rows = view.tables.scan(
        TableQuery(_SNAPSHOTS, where, order_by="generation", descending=True, limit=1)
    )
    return view.record(_SNAPSHOTS, rows[0]["snapshot_id"]) if rows else None


def _as_read(record: Document, superseded_by: str | None) -> Document:
    # Its author may have stated the field, which says nothing.
    state = record["state"] if superseded_by is None else "superseded"
    return {**record, "state": state, "superseded_by": superseded_by}


def apply_binding_generation(effect: KernelEffect, operation: Operation) -> Applied:
    """Make a new generation of a binding effective, or the one before again."""
    binding_id = target_of(effect)
    transaction = operation.transaction
    current = _newest(transaction, {"binding_id": binding_id, "in_force": 1})
    if effect.effect_kind == "binding_generation_revert":
        if current is None:
            raise EffectInapplicable(
                f"{binding_id} has no generation", code="record_not_found", field="target_ref"
            )
        record: Document = {**current, "state": "reverted", **stamp(operation)}
        generation = int(current["binding_generation_id"])
    else:
        payload = validate_payload(BindingGenerationSnapshot, effect.payload)
        last = _newest(transaction, {"binding_id": binding_id})
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
    return write_record(operation, _SNAPSHOTS, key, record)
