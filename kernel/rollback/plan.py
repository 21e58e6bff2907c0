"""What undoing would do, exactly, read from the record (§4.5, §5.1, K21).

A plan walks the operations in scope from the newest to the oldest and each one's effects from the
last to the first. By the reversibility that each effect stated, it is undone by its inverse, made
up for by its compensation, or persists. Nothing is undone that a later operation has written over,
unless that one is undone with it or was undone before.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from kernel.algebra.effects import COMPENSATING, IRREVERSIBLE, RECEIPT, REVERSIBLE
from kernel.algebra.verbs import BELIEF_ANCHOR, EPOCH_CLOSE, EPOCH_OPEN, EPOCH_ROLLBACK, REBUILD
from kernel.audit.operations import sequences_that_wrote
from kernel.canonical import digest
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.supersession import is_lite, position_of
from kernel.ledger.tables import Row
from kernel.rollback.errors import RollbackRefused
from kernel.stores.rollback_marks import is_in_effect, mark_of

EPOCH_OPERATIONS_MAX = 2_000
NAMED_MAX = 20
"""Operations or effects that a refusal names."""

PAGE_ROWS = 100

TIER_1_SCOPES = frozenset({"single_node", "node_with_neighbors"})

_BOUNDARIES = frozenset({EPOCH_OPEN, EPOCH_CLOSE, EPOCH_ROLLBACK, REBUILD})
"""Operations that only observe what is undone, or when; there is nothing to undo in them."""

Place = tuple[str, str]
"""A store and a key in it."""


@dataclass(frozen=True, slots=True)
class PlannedEffect:
    """One effect of the past and what becomes of it."""

    declared: Document
    applied: Document

    @property
    def reversibility(self) -> str:
        """How the effect said that it could be undone."""
        return str(self.declared["reversibility"])

    @property
    def place(self) -> Place:
        """The record that the effect wrote."""
        return self.applied["store"], self.applied["record_key"]


@dataclass(frozen=True, slots=True)
class Step:
    """One operation to undo; its effects from the last to the first."""

    operation_id: str
    ec_sequence_number: int
    position: int
    """Its place in the order; another one than where it was applied if it was superseded."""

    row_hash: str
    envelope: Document
    effects: tuple[PlannedEffect, ...]

    def of(self, *reversibilities: str) -> tuple[PlannedEffect, ...]:
        """Return the effects with one of these reversibilities."""
        return tuple(one for one in self.effects if one.reversibility in reversibilities)

    @property
    def persists(self) -> list[Document]:
        """What stays outside whatever is done, as the receipts name it (§5.6)."""
        return [
            {
                "original_operation_id": self.operation_id,
                "effect_kind": one.declared["effect_kind"],
                "external_effect_descriptor": one.declared["external_effect_descriptor"],
            }
            for one in self.of(IRREVERSIBLE)
        ]


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that a rollback would do, newest operation first."""

    tier: int
    scope: str
    steps: tuple[Step, ...]
    left_out: tuple[str, ...] = field(default=())
    """Operations of the scope that were undone before."""

    @property
    def digest(self) -> str:
        """Hash of tier, scope and the operations in scope; a confirmation binds it."""
        rows = [[one.operation_id, one.row_hash] for one in self.steps]
        return digest([self.tier, self.scope, rows])

    @property
    def persists(self) -> list[Document]:
        """What would stay outside."""
        return [one for step in self.steps for one in step.persists]

    @property
    def needs_user_confirmation(self) -> bool:
        """Whether something outside would persist (INV-A-ROLLBACK-1)."""
        return any(step.of(IRREVERSIBLE) for step in self.steps)

    def document(self) -> dict[str, Any]:
        """Return the dry run as it leaves the process; sequences are strings."""
        return {
            "tier": self.tier,
            "scope": self.scope,
            "digest": self.digest,
            "needs_user_confirmation": self.needs_user_confirmation,
            "left_out": list(self.left_out),
            "persists": self.persists,
            "operations": [
                {
                    "operation_id": step.operation_id,
                    "ec_sequence_number": str(step.position),
                    "semantic_intent": step.envelope["semantic_intent"],
                    "effects": [_effect_document(one) for one in step.effects],
                }
                for step in self.steps
            ],
        }


def plan_operation(view: LedgerView, operation_id: str) -> Plan:
    """Plan the inverse of one operation (tier 1).

    Raises:
        RollbackRefused: `operation_not_found`, `envelope_erased`, `rollback_already_applied`,
            `tier_1_requires_all_fully_reversible` (naming the effects), `tier_1_scope_too_wide`,
            `rollback_nothing_to_undo`, or what `check_free` raises.
    """
    row = view.log_row_of(operation_id)
    if row is None:
        raise RollbackRefused("operation_not_found", f"no operation {operation_id} is on the log")
    step = _step(view, row)
    mark = mark_of(view, operation_id)
    if mark["undone_by"]:
        raise RollbackRefused(
            "rollback_already_applied",
            f"{operation_id} was undone by {mark['undone_by']}",
            inverse_operation_id=mark["undone_by"],
        )
    _check_belief(step)
    _check_tier_1(step)
    plan = Plan(1, operation_id, (step,))
    check_free(view, plan)
    return plan


def plan_epoch(view: LedgerView, epoch_id: str) -> Plan:
    """Plan the rollback of an epoch, or of one operation that is an epoch by itself (tier 2).

    Raises:
        RollbackRefused: `epoch_not_found`, `rollback_epoch_open`, `rollback_epoch_too_large`,
            `rollback_already_applied`, `rollback_nothing_to_undo`, or what `check_free` raises.
    """
    steps, left_out = [], []
    for row in _epoch(view, epoch_id):
        if row["semantic_intent"] in _BOUNDARIES:
            continue
        if mark_of(view, row["operation_id"])["undone_by"]:
            left_out.append(row["operation_id"])
        else:
            steps.append(_step(view, row))
    if not steps:
        code = "rollback_already_applied" if left_out else "rollback_nothing_to_undo"
        raise RollbackRefused(code, f"there is nothing to undo in {epoch_id}")
    plan = Plan(2, epoch_id, tuple(steps), tuple(left_out))
    check_free(view, plan)
    return plan


def check_free(view: LedgerView, plan: Plan) -> None:
    """Refuse a plan that would lose what somebody did since, or that touches a belief session.

    Raises:
        RollbackRefused: `rollback_superseded_by_later_write` naming the later operations,
            `rollback_still_referenced` naming the edges, `rollback_of_belief_session`.
    """
    scope = {step.operation_id for step in plan.steps}
    undone = {one.place for step in plan.steps for one in step.of(REVERSIBLE)}
    for step in plan.steps:
        _check_belief(step)
        for one in step.of(REVERSIBLE, COMPENSATING):
            if one.reversibility == REVERSIBLE:
                _check_superseded(view, step, one, scope)
                _check_referenced(view, one, undone)
        if any(_takes_a_node(one) for one in step.of(REVERSIBLE)):
            _check_informed(view, step, scope)


def _check_tier_1(step: Step) -> None:
    irreversible, compensating = step.of(IRREVERSIBLE), step.of(COMPENSATING)
    if irreversible or compensating:
        raise RollbackRefused(
            "tier_1_requires_all_fully_reversible",
            "an inverse undoes reversible effects only; roll the epoch back instead",
            irreversible_effects=_named(irreversible),
            compensating_effects=_named(compensating),
        )
    if not step.of(REVERSIBLE):
        raise RollbackRefused("rollback_nothing_to_undo", "the operation changed no state")
    scope_kind = step.envelope["affected_subgraph_descriptor"]["scope_kind"]
    if scope_kind not in TIER_1_SCOPES:
        raise RollbackRefused(
            "tier_1_scope_too_wide",
            f"an inverse undoes {' or '.join(sorted(TIER_1_SCOPES))}, this is {scope_kind}",
        )


def _check_belief(step: Step) -> None:
    if step.envelope["semantic_intent"] == BELIEF_ANCHOR:
        raise RollbackRefused(
            "rollback_of_belief_session", "what a belief session has struck stays struck"
        )


def _check_superseded(view: LedgerView, step: Step, effect: PlannedEffect, scope: set[str]) -> None:
    later = []
    for sequence in sequences_that_wrote(view, *effect.place, step.ec_sequence_number):
        row = view.tables.get(schema.kernel_event_log, sequence)
        operation_id = "" if row is None else row["operation_id"]
        if operation_id in scope or not is_in_effect(mark_of(view, operation_id)):
            continue
        later.append(operation_id)
        if len(later) == NAMED_MAX:
            break
    if later:
        raise RollbackRefused(
            "rollback_superseded_by_later_write",
            f"{effect.place[1]} was written by {later[0]} since",
            later_operation_ids=later,
        )


def _takes_a_node(effect: PlannedEffect) -> bool:
    return effect.place[0] == schema.nodes.name and not effect.applied["pre_image_hash"]


def _check_informed(view: LedgerView, step: Step, scope: set[str]) -> None:
    """What informed a later operation that is in effect does not go: its grounds would go with it.

    Reads the rows that name the operation, and nothing else of the log (decision kernel/0230).
    """
    informed: list[str] = []
    name, after = step.operation_id, step.position
    while len(informed) < NAMED_MAX:
        sequences = view.sequences_caused_by(name, after=after, limit=PAGE_ROWS)
        for sequence in sequences:
            row = view.tables.get(schema.kernel_event_log, sequence)
            if row is None or is_lite(row) or row["operation_id"] in scope:
                continue
            if is_in_effect(mark_of(view, row["operation_id"])):
                informed.append(row["operation_id"])
        if len(sequences) < PAGE_ROWS:
            break
        after = sequences[-1]
    if informed:
        raise RollbackRefused(
            "rollback_still_referenced",
            f"{step.operation_id} informed {informed[0]}, which is in effect",
            informed_operation_ids=informed[:NAMED_MAX],
        )


def _check_referenced(view: LedgerView, effect: PlannedEffect, undone: set[Place]) -> None:
    """A node that goes takes no edge with it: the edges have to go first."""
    key = effect.place[1]
    if not _takes_a_node(effect):
        return
    rows = [*view.edges_out_of(key), *view.edges_into(key)]
    edges = [
        row["edge_id"]
        for row in rows
        if (schema.edges.name, row["edge_id"]) not in undone
        and orjson.loads(row["record"])["state"] == "active"
    ]
    if edges:
        raise RollbackRefused(
            "rollback_still_referenced",
            f"{key} would go, and {edges[0]} still leads to it or from it",
            edge_ids=edges[:NAMED_MAX],
        )


def _epoch(view: LedgerView, epoch_id: str) -> Iterable[Row]:
    if view.epoch_marker(epoch_id, EPOCH_OPEN) is None:
        row = view.log_row_of(epoch_id)
        if row is None:
            raise RollbackRefused("epoch_not_found", f"no epoch {epoch_id}")
        return [row]
    if view.epoch_marker(epoch_id, EPOCH_CLOSE) is None:
        raise RollbackRefused("rollback_epoch_open", f"epoch {epoch_id} has to be closed first")
    rows = view.epoch_rows(epoch_id, limit=EPOCH_OPERATIONS_MAX + 1)
    if len(rows) > EPOCH_OPERATIONS_MAX:
        raise RollbackRefused(
            "rollback_epoch_too_large", f"more than {EPOCH_OPERATIONS_MAX} operations"
        )
    return rows


def _step(view: LedgerView, row: Row) -> Step:
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
    return Step(
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
    rows = view.tables.select(schema.applied_effects, where, order_by="ordinal")
    for declared, row in zip(envelope["primitive_effects"], rows, strict=True):
        yield PlannedEffect(declared, orjson.loads(row["effect_bytes"]))


def _named(effects: tuple[PlannedEffect, ...]) -> list[Document]:
    return [
        {"effect_id": one.declared["effect_id"], "effect_kind": one.declared["effect_kind"]}
        for one in effects[:NAMED_MAX]
    ]


def _effect_document(effect: PlannedEffect) -> Document:
    declared, applied = effect.declared, effect.applied
    outcome = {
        REVERSIBLE: "undone",
        COMPENSATING: "compensated",
        IRREVERSIBLE: "persists",
        RECEIPT: "stays",
    }[effect.reversibility]
    return {
        "effect_id": declared["effect_id"],
        "effect_kind": declared["effect_kind"],
        "reversibility": effect.reversibility,
        "outcome": outcome,
        "by": declared.get("inverse_operation_kind") or declared.get("compensating_operation_kind"),
        "external_effect_descriptor": declared.get("external_effect_descriptor"),
        "store": applied["store"],
        "record_key": applied["record_key"],
        "restores": applied["pre_image_hash"] or None,
    }
