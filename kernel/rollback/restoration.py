"""Finds the state that undoing puts back on each record, as a plan goes from new to old.

Most often it is the state that the effect had replaced: nothing older was undone or brought back
since, and nothing that stays was written. A plan follows such a record down once for all of its
operations. Elsewhere the record's history is asked (`kernel/records/record_history.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from kernel.algebra.effects import EFFECT_KINDS, REVERSIBLE, expected_reversibility
from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.ledger.store.tables import Row
from kernel.records.operation_steps import Place
from kernel.records.record_history import RecordHistory, RecordState, RecordWrite
from kernel.records.rollback_marks import mark_of
from kernel.rollback.errors import RollbackRefused
from kernel.rollback.steps import PlannedEffect, RollbackStep
from kernel.transaction.rules import effect_rules_of
from kernel.values.errors import EffectInapplicable

InScope = Callable[[Row], bool]
"""Whether the operation of a log row is undone by the same plan."""


@dataclass(slots=True)
class _Record:
    """A record's history as far down as the plan has come."""

    history: RecordHistory
    taken: int = 0
    undone: dict[str, str] = field(default_factory=dict)
    """Operations whose write is undone, by the undoing in effect."""

    in_scope: list[str] = field(default_factory=list)
    in_the_way: list[str] = field(default_factory=list)
    """Operations in effect that wrote the record later and are not in the plan's scope."""

    reached: int | None = None
    """The lowest place in the log of what an undoing has undone."""

    stays: bool = False
    """Whether a later write may stay whatever is undone."""


class Restoration:
    """The records that a plan writes."""

    def __init__(self, view: LedgerView, in_scope: InScope) -> None:
        self._view = view
        self.in_scope = in_scope
        self._records: dict[Place, _Record] = {}

    def undone_by(self, step: RollbackStep, effect: PlannedEffect) -> str:
        """Return the operation by which an effect is undone already, empty where it is not."""
        return self._at(effect.place, step).undone.get(step.operation_id, "")

    def in_the_way(self, step: RollbackStep, effect: PlannedEffect) -> list[str]:
        """Return the operations outside of the plan that wrote the record since, newest first."""
        return self._at(effect.place, step).in_the_way

    def state(self, step: RollbackStep, effect: PlannedEffect) -> RecordState | None:
        """Return what undoing an effect puts back, None where it is what the effect replaced.

        Raises:
            RollbackRefused: see `RecordHistory.without`.
        """
        record, sequence = self._at(effect.place, step), step.ec_sequence_number
        untouched = record.reached is None or record.reached >= sequence
        alone = not any(
            other.place == effect.place and other.reversibility != REVERSIBLE
            for other in step.effects
        )
        if untouched and alone and not record.stays and not step.undoes:
            return None
        gone = [*record.in_scope, step.operation_id]
        return without(record.history, gone, sequence)

    def _at(self, place: Place, step: RollbackStep) -> _Record:
        record = self._records.get(place)
        if record is None:
            history = RecordHistory(self._view, place, effect_rules_of)
            record = self._records[place] = _Record(history)
        sequence = step.ec_sequence_number
        while (write := record.history.at(record.taken)) and write.sequence > sequence:
            self._take(record, write)
            record.taken += 1
        return record

    def _take(self, record: _Record, write: RecordWrite) -> None:
        if write.undoes:
            if write.is_inverse and write.operation_id not in record.undone:
                record.undone.setdefault(write.undoes, write.operation_id)
            reached = record.history.sequence_of(write.undoes)
            record.reached = reached if record.reached is None else min(record.reached, reached)
            return
        place = record.history.place
        record.stays |= any(
            self._may_stay(place, effect["effect_kind"]) for effect in write.effects
        )
        if write.operation_id in record.undone:
            return
        if self.in_scope(write.row):
            record.in_scope.append(write.operation_id)
        elif self._counts(write):
            record.in_the_way.append(write.operation_id)

    def _may_stay(self, place: Place, kind: str) -> bool:
        if not EFFECT_KINDS[kind].overrides:
            return EFFECT_KINDS[kind].reversibility != REVERSIBLE
        node = self._view.node(place[1])
        return node is None or expected_reversibility(kind, node["node_kind"]) != REVERSIBLE

    def _counts(self, write: RecordWrite) -> bool:
        mark = mark_of(self._view, write.operation_id)
        kinds = {EFFECT_KINDS[effect["effect_kind"]].reversibility for effect in write.effects}
        return not mark["undone_by"] or REVERSIBLE in kinds


def without(history: RecordHistory, operation_ids: list[str], sequence: int) -> RecordState:
    """Return what a record comes to once operations are undone as well.

    Raises:
        RollbackRefused: see `RecordHistory.without`.
    """
    try:
        return history.without(operation_ids, sequence)
    except EffectInapplicable as error:
        raise RollbackRefused(error.code, str(error)) from error


def takes_a_node(effect: PlannedEffect) -> bool:
    """Tell whether undoing an effect removes a node."""
    return effect.place[0] == schema.nodes.name and not effect.restores.content_hash
