"""Plans the step of a rollback that undoes one operation: its effects, declared and applied."""

from collections.abc import Iterator
from dataclasses import dataclass

import orjson

from kernel.algebra.effects import COMPENSATING, IRREVERSIBLE
from kernel.algebra.verbs import ROLLBACK
from kernel.ledger import schema
from kernel.ledger.applied_effects import effect_of
from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.store.tables import Row, TableQuery
from kernel.ledger.supersession import is_lite, position_of
from kernel.records.operation_steps import Place
from kernel.records.record_history import RecordState
from kernel.rollback.errors import RollbackRefused
from kernel.values.canonical import canonicalize


@dataclass(frozen=True, slots=True)
class PlannedEffect:
    """One effect of the past and what becomes of it."""

    declared: Document
    applied: Document
    state: RecordState | None = None
    """What undoing puts back, where that is not what the effect had replaced."""

    @property
    def restores(self) -> RecordState:
        """The state of the record that undoing puts back."""
        return self.state or RecordState(self.applied["pre_image_hash"])

    @property
    def reversibility(self) -> str:
        """How the effect said that it could be undone."""
        return str(self.declared["reversibility"])

    @property
    def place(self) -> Place:
        """The record that the effect wrote."""
        return self.applied["store"], self.applied["record_key"]


@dataclass(frozen=True, slots=True)
class RollbackStep:
    """One operation to undo; its effects from the last to the first."""

    operation_id: str
    ec_sequence_number: int
    position: int
    """Its place in the order; another one than where it was applied if it was superseded."""

    row_hash: str
    envelope: Document
    effects: tuple[PlannedEffect, ...]
    recompute_of: str | None = None
    """The understanding, where one recompute of a page is undone and the others are not."""

    request_id: str | None = None
    """The request by which that recompute was named."""

    def of(self, *reversibilities: str) -> tuple[PlannedEffect, ...]:
        """Return the effects with one of these reversibilities."""
        return tuple(effect for effect in self.effects if effect.reversibility in reversibilities)

    @property
    def undoes(self) -> bool:
        """Whether it undoes an undoing."""
        return bool(self.envelope["semantic_intent"] == ROLLBACK)

    @property
    def persists(self) -> list[Document]:
        """What stays outside whatever is done, as the receipts name it (§5.6)."""
        return [
            {
                "original_operation_id": self.operation_id,
                "effect_kind": effect.declared["effect_kind"],
                "external_effect_descriptor": effect.declared["external_effect_descriptor"],
            }
            for effect in self.of(IRREVERSIBLE)
        ]

    @property
    def named_bytes(self) -> int:
        """How much the envelope of a page holds of the operation, in bytes."""
        content = canonicalize([self.persists, self.envelope["target_refs"]])
        descriptors = sum(
            len(effect["external_effect_descriptor"].encode()) for effect in self.persists
        )
        return len(content) + descriptors + 256 * len(self.of(COMPENSATING))


def step_of(view: LedgerView, row: Row) -> RollbackStep:
    """Return the step that undoes the operation of a log row.

    Raises:
        RollbackRefused: `operation_not_migrated`, `envelope_erased`.
        RangeQuarantined: its row is quarantined.
    """
    view.quarantines().expect_none_over(row["ec_sequence_number"])
    if is_lite(row):
        raise RollbackRefused(
            "operation_not_migrated", f"nothing that {row['operation_id']} did was applied here"
        )
    content = view.blob(row["envelope_payload_blob_ref"])
    if content is None:
        raise RollbackRefused(
            "envelope_erased", f"what {row['operation_id']} did is no longer known"
        )
    sequence = row["ec_sequence_number"]
    envelope: Document = orjson.loads(content)
    return RollbackStep(
        row["operation_id"],
        sequence,
        position_of(row),
        row["row_hash"],
        envelope,
        tuple(reversed(list(planned_effects(view, sequence, envelope)))),
    )


def planned_effects(view: LedgerView, sequence: int, envelope: Document) -> Iterator[PlannedEffect]:
    """Yield what an operation declared beside what was applied, in the order of applying."""
    where = {"ec_sequence_number": sequence}
    rows = view.tables.scan(TableQuery(schema.applied_effects, where, order_by="ordinal"))
    for declared, row in zip(envelope["primitive_effects"], rows, strict=True):
        yield PlannedEffect(declared, effect_of(row))
