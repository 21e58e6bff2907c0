"""Resolves an envelope's conflicts: each by its policy, and one outcome of all.

If conflicts have different outcomes, the most cautious one is taken for the whole envelope: review
by a person before refusal, refusal before a merge, a merge before a contradiction edge, and that
before acceptance.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal

from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.model.envelope import Envelope
from kernel.records.conflicts.differences import differences
from kernel.records.conflicts.existing import ExistingState, existing_states
from kernel.records.conflicts.policy import (
    ConflictClass,
    SemanticConflictPolicy,
    Strategy,
    policies_of,
    strategy_for,
)
from kernel.records.conflicts.writes import Write, writes_of

CONFLICTS_MAX = 256
"""Conflicts that a receipt names; more than those are resolved all the same."""

Outcome = Literal["review", "first_writer", "lower_authority", "merge", "contradiction", "accept"]

CAUTION: tuple[Outcome, ...] = (
    "review",
    "first_writer",
    "lower_authority",
    "merge",
    "contradiction",
    "accept",
)
"""The most cautious outcome first."""

AUTHORITY_FIELDS = ("cu_authority", "override_authority", "authority")
"""Fields that hold a node's or an envelope's authority; the first that is present counts."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """One field in which an envelope contradicts a write that it had not seen."""

    write: Write
    existing: ExistingState
    conflict_class: ConflictClass
    field: str
    strategy: Strategy
    outcome: Outcome

    def document(self) -> Document:
        """Return the conflict as a receipt names it."""
        return {
            "conflict_class": self.conflict_class,
            "field": self.field,
            "record_key": self.write.record_key,
            "existing_record_key": self.existing.record_key,
            "existing_operation_id": self.existing.written_by.get(
                self.field, self.existing.operation_ids[0]
            ),
            "strategy": self.strategy,
        }


def conflicts_of(
    view: LedgerView, envelope: Envelope, seen_operation_ids: AbstractSet[str], since: str
) -> list[Conflict]:
    """Return an envelope's conflicts by effect, by existing record and by field."""
    conflicts: list[Conflict] = []
    for write in writes_of(envelope):
        for existing in existing_states(view, write, seen_operation_ids, since):
            conflicts += _conflicts(policies_of(view), envelope, write, existing)
    return conflicts


def outcome_of(conflicts: list[Conflict]) -> Outcome:
    """Return the most cautious outcome."""
    return min((conflict.outcome for conflict in conflicts), key=CAUTION.index, default="accept")


def _conflicts(
    policies: tuple[SemanticConflictPolicy, ...],
    envelope: Envelope,
    write: Write,
    existing: ExistingState,
) -> list[Conflict]:
    is_other_record = existing.record_key != write.record_key
    creates = is_other_record or envelope.semantic_intent == "create" or write.is_whole
    written, before = write.fields, existing.fields
    same = write.comparison.same_thing
    if is_other_record and same is not None:
        written, before = same.comparable_fields(written), same.comparable_fields(before)
    conflicts = []
    for difference in differences(
        before, written, existing.payload, whole=existing.whole and creates
    ):
        strategy = strategy_for(
            policies, difference.conflict_class, existing.node_kind, difference.field
        )
        outcome = _outcome(strategy, write, existing)
        conflicts.append(
            Conflict(
                write, existing, difference.conflict_class, difference.field, strategy, outcome
            )
        )
    return conflicts


def _outcome(strategy: Strategy, write: Write, existing: ExistingState) -> Outcome:
    if strategy == "highest_authority_wins":
        lower = authority_of_fields(write.fields) < authority_of_fields(existing.payload)
        return "lower_authority" if lower else "accept"
    outcome = _OUTCOMES[strategy]
    if outcome in _IN_THE_GRAPH and existing.table not in (schema.nodes, schema.edges):
        return "review"
    return outcome


_OUTCOMES: dict[Strategy, Outcome] = {
    "first_writer_wins": "first_writer",
    "last_writer_wins": "accept",
    "merge_with_provenance": "merge",
    "user_review_required": "review",
    "emit_contradiction_edge": "contradiction",
}


_IN_THE_GRAPH: tuple[Outcome, ...] = ("merge", "contradiction")
"""Outcomes that only nodes and edges can have: other records have one value of each field."""


def authority_of_fields(fields: Document) -> float:
    """Return the stated authority, 0 where none is stated."""
    for name in AUTHORITY_FIELDS:
        value = fields.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    return 0.0


def is_node(conflict: Conflict) -> bool:
    """Tell whether a conflict is about a node, and not about another record."""
    return conflict.existing.table is schema.nodes
