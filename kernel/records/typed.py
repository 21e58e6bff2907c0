"""Records with a shape of their own: validated, written, retracted by marking (K15).

A payload keeps what it stated, fields that no model names included (K14); the record around it
says in which state it is, in which version, and who wrote it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError
from sqlalchemy import Table

from kernel.ledger import schema
from kernel.ledger.ledger import Document
from kernel.model.envelope import KernelEffect
from kernel.model.problems import first_problem
from kernel.records.comparison import Comparison, SameThing, whole
from kernel.records.record import Applied, Operation, write_record
from kernel.values.canonical import canonicalize
from kernel.values.errors import EffectInapplicable

Name = Annotated[str, StringConstraints(min_length=1, max_length=512)]
Key = Annotated[str, StringConstraints(min_length=1, max_length=512, pattern=r"^[^|]*$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]

LIVE = frozenset({"active", "effective"})
"""States of a record that others may refer to."""


class Payload(BaseModel):
    """What an effect states; the base of every typed payload."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


AnyPayload = TypeVar("AnyPayload", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class TypedStore:
    """A table of typed records and what they must be."""

    table: Table
    model: type[Payload]
    retract_kinds: frozenset[str]
    references: Mapping[str, Table] = field(default_factory=dict)
    """Payload fields that name a record of another store, where they are stated."""

    same_thing: SameThing | None = None
    """By what two of its records are one thing; None where their keys alone say it."""

    @property
    def comparison(self) -> Comparison:
        """How two writes are compared that had not seen each other."""
        return whole(self.retract_kinds, self.same_thing)

    def apply(self, effect: KernelEffect, operation: Operation) -> Applied:
        """Write a record or retract the one that stands."""
        key = target_of(effect)
        before = operation.transaction.record(self.table, key)
        if effect.effect_kind in self.retract_kinds:
            record = retracted_record(operation, standing(before, key))
        else:
            payload = validate_payload(self.model, effect.payload)
            for name, table in self.references.items():
                check_reference(operation, table, getattr(payload, name), f"payload.{name}")
            record = next_version(operation, self.table, key, before, effect.payload)
        return write_record(operation, self.table, key, record)


def target_of(effect: KernelEffect) -> str:
    """Return the record that an effect names."""
    if effect.target_ref is None or "|" in effect.target_ref:
        raise EffectInapplicable(
            "an effect names its record, without a bar",
            code="effect_target_missing",
            field="target_ref",
        )
    return effect.target_ref


def validate_payload(model: type[AnyPayload], payload: Document) -> AnyPayload:
    """Read a payload as its model."""
    try:
        return model.model_validate_json(canonicalize(payload))
    except ValidationError as error:
        field, message = first_problem(error, "payload")
        raise EffectInapplicable(message, code="effect_payload_invalid", field=field) from None


def check_reference(
    operation: Operation, table: Table, key: str | None, place: str, node_kind: str | None = None
) -> None:
    """Refuse a reference to a record that does not exist or was taken back; None refers to none."""
    if key is None:
        return
    record = operation.transaction.record(table, key)
    fits = record is not None and record["state"] in LIVE
    if not fits or (
        node_kind is not None and record is not None and (record["node_kind"] != node_kind)
    ):
        raise EffectInapplicable(
            f"{table.name} holds no such {key}", code="record_reference_missing", field=place
        )


def standing(before: Document | None, key: str) -> Document:
    """Return the record that stands: one that exists and was not taken back."""
    if before is None or before["state"] not in LIVE:
        raise EffectInapplicable(f"no record {key}", code="record_not_found", field="target_ref")
    return before


def next_version(
    operation: Operation, table: Table, key: str, before: Document | None, payload: Document
) -> Document:
    """Return a record in its next version."""
    return {
        str(table.primary_key.columns[0].name): key,
        "state": "active",
        "version": 1 if before is None else before["version"] + 1,
        "payload": payload,
        **stamp(operation),
    }


def retracted_record(operation: Operation, before: Document) -> Document:
    """Return a record as it is once it has been taken back."""
    return {
        **before,
        "state": "retracted",
        "version": before["version"] + 1,
        **stamp(operation),
    }


def stamp(operation: Operation) -> dict[str, Any]:
    """Return who wrote a record, and when."""
    return {
        "updated_by_operation_id": operation.operation_id,
        "updated_at": operation.applied_at,
    }


def node_reference(operation: Operation, key: str, place: str, node_kind: str | None) -> None:
    """Refuse a reference to a node that does not exist, or is of another kind."""
    check_reference(operation, schema.nodes, key, place, node_kind)
