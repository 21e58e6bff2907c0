"""Plans what undoing would do, exactly, from the record (§4.5, §5.1, K21).

A plan walks the operations in scope from the newest to the oldest and each one's effects from the
last to the first. By the reversibility that each effect stated, it is undone by its inverse, made
up for by its compensation, or persists. Nothing is undone that a later operation has written over,
unless that one is undone with it or was undone before.

An epoch of more operations than one page takes goes back page by page, each with an operation of
its own. The first page is planned for all of them: it has the digest of the whole, and nothing that
stands in the way anywhere. A further page is planned again from where the record says that the
rollback stands; meanwhile nothing comes into its way (`kernel/records/rollbacks_under_way.py`).
"""

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import orjson
from typing_extensions import TypedDict

from kernel.algebra.effects import COMPENSATING, IRREVERSIBLE, RECEIPT, REVERSIBLE
from kernel.algebra.verbs import (
    BELIEF_ANCHOR,
    BOUNDARIES,
    EPOCH_CLOSE,
    EPOCH_OPEN,
    EPOCH_ROLLBACK,
    ROLLBACK,
    THOUGHT_VERBS,
)
from kernel.authority.recompute_pages import (
    is_page,
    ordinals_of,
    recompute_alone,
    resolve_operation,
)
from kernel.ledger import schema
from kernel.ledger.applied_effects import sequences_that_wrote
from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.store.tables import SEARCH_ROWS, Row
from kernel.ledger.supersession import is_lite, position_of
from kernel.records.rollback_marks import is_in_effect, mark_of
from kernel.rollback.errors import RollbackRefused
from kernel.rollback.restoration import InScope, Restoration, takes_a_node
from kernel.rollback.steps import PlannedEffect, RollbackStep, step_of
from kernel.values.canonical import canonicalize

EPOCH_OPERATIONS_MAX = 50_000
"""Of an epoch that is rolled back; the first page looks at all of them in its transaction."""

PAGE_OPERATIONS_MAX = 2_000
PAGE_BYTES_MAX = 512 * 1024
"""Of what the envelope of a page names, which has room for twice as much; one operation at least
is in a page, whatever it names."""

NAMED_MAX = 20
"""Operations or effects that a refusal names."""


_UNDOING = frozenset({ROLLBACK, EPOCH_ROLLBACK})
"""Verbs of operations that rest on nothing: they name what they have undone."""

TIER_1_SCOPES = frozenset({"single_node", "node_with_neighbors"})

UndoneAs = Literal["undone", "compensated", "persists", "stays"]


class PlannedEffectDocument(TypedDict):
    """What undoing does to one effect."""

    effect_id: str
    effect_kind: str
    reversibility: str
    outcome: UndoneAs
    by: str | None
    external_effect_descriptor: str | None
    store: str
    record_key: str
    restores: str | None


class PlannedOperationDocument(TypedDict):
    """An operation that would be undone."""

    operation_id: str
    ec_sequence_number: str
    semantic_intent: str
    effects: list[PlannedEffectDocument]


class RollbackPlanDocument(TypedDict):
    """Everything that a rollback would do, or a page of it; `digest` is what is confirmed."""

    tier: int
    scope: str
    digest: str
    needs_user_confirmation: bool
    page: int
    operations_left: int
    left_out: list[str]
    persists: list[Document]
    operations: list[PlannedOperationDocument]


@dataclass(frozen=True, slots=True)
class RollbackPlan:
    """Everything that a rollback would do, or a page of it, newest operation first."""

    tier: int
    scope: str
    steps: tuple[RollbackStep, ...]
    digest: str
    """Hash of tier, scope and all operations in scope; a confirmation binds it."""

    needs_user_confirmation: bool
    """Whether something outside would persist (INV-A-ROLLBACK-1), in whatever page."""

    left_out: tuple[str, ...]
    """Operations of the page that were undone before."""

    page: int
    operations_left: int
    """How many remain for further pages."""

    undone_from_sequence: int
    """The lowest place in the log that the page looks at."""

    confirmation_id: str
    """Of the word that was given for the whole, where a page before has had it."""

    @property
    def persists(self) -> list[Document]:
        """The external effects that would stay outside after the rollback."""
        return [effect for step in self.steps for effect in step.persists]

    def document(self) -> RollbackPlanDocument:
        """Return the dry run as it leaves the process; sequences are strings."""
        return {
            "tier": self.tier,
            "scope": self.scope,
            "digest": self.digest,
            "needs_user_confirmation": self.needs_user_confirmation,
            "page": self.page,
            "operations_left": self.operations_left,
            "left_out": list(self.left_out),
            "persists": self.persists,
            "operations": [
                {
                    "operation_id": step.operation_id,
                    "ec_sequence_number": str(step.position),
                    "semantic_intent": step.envelope["semantic_intent"],
                    "effects": [_effect_document(effect) for effect in step.effects],
                }
                for step in self.steps
            ],
        }


def plan_operation(view: LedgerView, operation_id: str) -> RollbackPlan:
    """Plan the inverse of one operation, or of a recompute by the id of its request (tier 1).

    Raises:
        RollbackRefused: `operation_not_found`, `envelope_erased`, `rollback_already_applied`,
            `tier_1_requires_all_fully_reversible` (naming the effects), `tier_1_scope_too_wide`,
            `rollback_nothing_to_undo`, `rollback_under_way` for one of an epoch that is being
            rolled back, or what `check_free` raises.
    """
    named = resolve_operation(view, operation_id)
    if named is None:
        raise RollbackRefused("operation_not_found", f"no operation {operation_id} is on the log")
    row, step = named.row, step_of(view, named.row)
    if named.recompute_of is not None:
        step = step_of_recompute(step, named.recompute_of, operation_id)
    begun = view.rollback_under_way()
    if begun is not None and row["commit_epoch_id"] == begun["epoch_id"]:
        raise _under_way(begun)
    restoration = Restoration(view, lambda later: bool(later["operation_id"] == step.operation_id))
    undone_by = {restoration.undone_by(step, effect) for effect in step.of(REVERSIBLE)}
    if not undone_by:
        undone_by = {mark_of(view, step.operation_id)["undone_by"]}
    if "" not in undone_by:
        raise RollbackRefused(
            "rollback_already_applied",
            f"{operation_id} was undone by {min(undone_by)}",
            inverse_operation_id=min(undone_by),
        )
    _check_belief(step)
    _check_tier_1(step)
    plan = _Planned(1, operation_id)
    plan.take(_free(view, step, restoration))
    return plan.plan()


def plan_operations(view: LedgerView, operation_ids: Collection[str]) -> RollbackPlan:
    """Plan the inverses of operations that go together, the newest first (tier 1).

    None of them stands in the way of another. Those that were undone before are left out.

    Raises:
        RollbackRefused: as `plan_operation`, of the newest that cannot go with the others.
    """
    rows = [view.log_row_of(operation_id) for operation_id in operation_ids]
    known = [row for row in rows if row is not None]
    names = {row["operation_id"] for row in known}
    begun = view.rollback_under_way()
    if begun is not None:
        raise _under_way(begun)
    restoration = Restoration(view, lambda later: later["operation_id"] in names)
    planned = _Planned(1, " ".join(sorted(names)))
    for row in sorted(known, key=lambda row: row["ec_sequence_number"], reverse=True):
        if mark_of(view, row["operation_id"])["undone_by"]:
            planned.leave_out(row)
            continue
        step = step_of(view, row)
        _check_belief(step)
        _check_tier_1(step)
        planned.take(_free(view, step, restoration))
    return planned.plan()


def plan_epoch(view: LedgerView, epoch_id: str) -> RollbackPlan:
    """Plan the next page of an epoch's rollback, or that of one operation by itself (tier 2).

    Raises:
        RollbackRefused: `epoch_not_found`, `rollback_epoch_open`, `rollback_epoch_too_large`,
            `rollback_already_applied`, `rollback_nothing_to_undo`, `rollback_under_way` where
            another epoch is being rolled back, or what `check_free` raises.
    """
    begun = view.rollback_under_way()
    if begun is not None:
        if begun["epoch_id"] != epoch_id:
            raise _under_way(begun)
        return _next_page(view, begun)
    is_epoch = _is_epoch(view, epoch_id)
    id_column = "commit_epoch_id" if is_epoch else "operation_id"
    planned = _Planned(2, epoch_id)
    rows = _epoch(view, epoch_id) if is_epoch else _alone(view, epoch_id)
    restoration = Restoration(view, lambda later: bool(later[id_column] == epoch_id))
    for looked_at, row in enumerate(rows):
        if looked_at == EPOCH_OPERATIONS_MAX:
            raise RollbackRefused(
                "rollback_epoch_too_large", f"more than {EPOCH_OPERATIONS_MAX} operations"
            )
        _plan_row(view, row, planned, restoration)
    plan = planned.plan()
    if not plan.steps:
        code = "rollback_already_applied" if plan.left_out else "rollback_nothing_to_undo"
        raise RollbackRefused(code, f"there is nothing to undo in {epoch_id}")
    return plan


def _next_page(view: LedgerView, begun: Document) -> RollbackPlan:
    epoch_id, before = begun["epoch_id"], int(begun["undone_from_sequence"])
    planned = _Planned(2, epoch_id)
    restoration = Restoration(view, lambda later: bool(later["commit_epoch_id"] == epoch_id))
    for row in _epoch(view, epoch_id, before):
        _plan_row(view, row, planned, restoration)
        if planned.is_past_its_page:
            break
    return planned.go_on(begun)


def _plan_row(view: LedgerView, row: Row, planned: "_Planned", restoration: Restoration) -> None:
    if row["semantic_intent"] in BOUNDARIES:
        return
    mark = mark_of(view, row["operation_id"])
    if mark["undone_by"]:
        planned.leave_out(row)
        return
    step = step_of(view, row)
    standing = [effect for effect in step.effects if is_in_effect(mark, effect.place)]
    if "put_back" in mark and len(standing) < len(step.effects):
        step = replace(step, effects=tuple(standing))
    planned.take(_free(view, step, restoration))


class _Planned:
    """A plan as its operations are looked at; of those behind its page it keeps the hash alone."""

    def __init__(self, tier: int, scope: str) -> None:
        self._tier, self._scope = tier, scope
        self._steps: list[RollbackStep] = []
        self._left_out: list[str] = []
        self._operations_left = self._bytes = self._from = 0
        self._persists = self._is_full = False
        self._hash = hashlib.sha256(b"[%d,%s,[" % (tier, canonicalize(scope)))
        self._separator = b""

    @property
    def is_past_its_page(self) -> bool:
        """Whether an operation was looked at that the page has no room for."""
        return self._operations_left > 0

    def leave_out(self, row: Row) -> None:
        """Pass over an operation that was undone before."""
        if not self._is_full:
            self._left_out.append(row["operation_id"])
            self._from = row["ec_sequence_number"]

    def take(self, step: RollbackStep) -> None:
        """Add an operation to the page, or count it for a further one."""
        self._hash.update(self._separator + canonicalize([step.operation_id, step.row_hash]))
        self._separator = b","
        self._persists |= bool(step.of(IRREVERSIBLE))
        size = step.named_bytes
        too_large = self._bytes + size > PAGE_BYTES_MAX
        if len(self._steps) == PAGE_OPERATIONS_MAX or (self._steps and too_large):
            self._is_full = True
        if self._is_full:
            self._operations_left += 1
            return
        self._steps.append(step)
        self._bytes += size
        self._from = step.ec_sequence_number

    def plan(self) -> RollbackPlan:
        """Return the plan of all operations that were looked at, and its first page."""
        self._hash.update(b"]]")
        return RollbackPlan(
            self._tier,
            self._scope,
            tuple(self._steps),
            self._hash.hexdigest(),
            self._persists,
            tuple(self._left_out),
            1,
            self._operations_left,
            self._from,
            "",
        )

    def go_on(self, begun: Document) -> RollbackPlan:
        """Return a further page of a plan of which the record says where it stands."""
        return RollbackPlan(
            self._tier,
            self._scope,
            tuple(self._steps),
            begun["plan_digest"],
            bool(begun["user_confirmation_token"]),
            tuple(self._left_out),
            begun["page"] + 1,
            begun["operations_left"] - len(self._steps) if self._operations_left else 0,
            self._from,
            begun["user_confirmation_token"],
        )


def _free(view: LedgerView, step: RollbackStep, restoration: Restoration) -> RollbackStep:
    """Return a step with what it puts back; refuse it where somebody has built on it since.

    Raises:
        RollbackRefused: `rollback_superseded_by_later_write` naming the later operations,
            `rollback_still_referenced` naming the edges, `rollback_of_belief_session`, or what
            `RecordHistory.without` raises.
    """
    _check_belief(step)
    first_writes = {effect.place: effect for effect in step.of(REVERSIBLE)}
    for effect in first_writes.values():
        _check_superseded(step, effect, restoration)
    states = {
        effect.declared["effect_id"]: restoration.state(step, effect)
        for effect in first_writes.values()
    }
    if any(states.values()):
        step = replace(
            step,
            effects=tuple(
                replace(effect, state=states.get(effect.declared["effect_id"]))
                for effect in step.effects
            ),
        )
    taken = [effect for effect in step.of(REVERSIBLE) if takes_a_node(effect)]
    for effect in taken:
        _check_referenced(view, effect, restoration.in_scope)
    if taken:
        for name, after in _operations_that_go(view, step):
            _check_informed(view, name, after, restoration.in_scope)
    return step


def _operations_that_go(view: LedgerView, step: RollbackStep) -> Iterator[tuple[str, int]]:
    """Yield the operations that are not in effect once a step was taken, and where they stand."""
    yield step.operation_id, step.position
    again = mark_of(view, step.operation_id)["undoes"]
    while again:
        going = [name for undone in again for name in mark_of(view, undone)["undoes"]]
        for name in going:
            row = view.log_row_of(name)
            if row is not None:
                yield name, position_of(row)
        again = [undone for name in going for undone in mark_of(view, name)["undoes"]]


def _under_way(begun: Document) -> RollbackRefused:
    return RollbackRefused(
        "rollback_under_way",
        f"epoch {begun['epoch_id']} is being rolled back; ask for that again until nothing is left",
        epoch_id=begun["epoch_id"],
        operations_left=begun["operations_left"],
    )


def _check_tier_1(step: RollbackStep) -> None:
    irreversible, compensating = step.of(IRREVERSIBLE), step.of(COMPENSATING)
    if irreversible or compensating:
        raise RollbackRefused(
            "tier_1_requires_all_fully_reversible",
            "an inverse undoes reversible effects only; roll the epoch back instead",
            irreversible_effects=_summaries_of(irreversible),
            compensating_effects=_summaries_of(compensating),
        )
    if not step.of(REVERSIBLE):
        raise RollbackRefused("rollback_nothing_to_undo", "the operation changed no state")
    scope_kind = step.envelope["affected_subgraph_descriptor"]["scope_kind"]
    if scope_kind not in TIER_1_SCOPES:
        raise RollbackRefused(
            "tier_1_scope_too_wide",
            f"an inverse undoes {' or '.join(sorted(TIER_1_SCOPES))}, this is {scope_kind}",
        )


def _check_belief(step: RollbackStep) -> None:
    if step.envelope["semantic_intent"] == BELIEF_ANCHOR:
        raise RollbackRefused(
            "rollback_of_belief_session", "what a belief session has struck stays struck"
        )
    if step.envelope["semantic_intent"] in THOUGHT_VERBS:
        raise RollbackRefused("rollback_of_thoughts", "what was thought stays on the record")


def _check_superseded(step: RollbackStep, effect: PlannedEffect, restoration: Restoration) -> None:
    later = restoration.in_the_way(step, effect)
    if later:
        raise RollbackRefused(
            "rollback_superseded_by_later_write",
            f"{effect.place[1]} was written by {later[-1]} since",
            later_operation_ids=later[::-1][:NAMED_MAX],
        )


def _check_informed(view: LedgerView, name: str, after: int, in_scope: InScope) -> None:
    """What informed a later operation that is in effect does not go: its grounds would go with it.

    Reads the rows that name the operation, and nothing else of the log (decision kernel/0230).
    """
    informed: list[str] = []
    while len(informed) < NAMED_MAX:
        sequences = view.sequences_caused_by(name, after=after, limit=SEARCH_ROWS)
        for sequence in sequences:
            row = view.tables.get(schema.kernel_event_log, sequence)
            if row is None or is_lite(row) or row["semantic_intent"] in _UNDOING or in_scope(row):
                continue
            if _is_informed(view, row, name):
                informed.append(row["operation_id"])
        if len(sequences) < SEARCH_ROWS:
            break
        after = sequences[-1]
    if informed:
        raise RollbackRefused(
            "rollback_still_referenced",
            f"{name} informed {informed[0]}, which is in effect",
            informed_operation_ids=informed[:NAMED_MAX],
        )


def _is_informed(view: LedgerView, row: Row, by: str) -> bool:
    """Tell whether an operation that names another as its cause is in effect.

    Of a page that was undone in part, a recompute has to be in effect that the other caused.
    """
    mark = mark_of(view, row["operation_id"])
    if not is_in_effect(mark) or not mark.get("put_back"):
        return is_in_effect(mark)
    envelope = view.envelope(row["operation_id"])
    if envelope is None:
        return True
    return any(
        by in recompute_alone(envelope, node_id)["causal_parent_operation_ids"]
        and is_in_effect(mark, (str(schema.nodes.name), node_id))
        for node_id in envelope["target_refs"]
    )


def _check_referenced(view: LedgerView, effect: PlannedEffect, in_scope: InScope) -> None:
    """A node that goes takes no edge with it: the edges have to go first."""
    key = effect.place[1]
    rows = [*view.edges_out_of(key), *view.edges_into(key)]
    edges = [
        row["edge_id"]
        for row in rows
        if orjson.loads(row["record"])["state"] == "active"
        and not _goes_too(view, row["edge_id"], in_scope)
    ]
    if edges:
        raise RollbackRefused(
            "rollback_still_referenced",
            f"{key} would go, and {edges[0]} still leads to it or from it",
            edge_ids=edges[:NAMED_MAX],
        )


def _goes_too(view: LedgerView, edge_id: str, in_scope: InScope) -> bool:
    """Tell whether an operation of the plan has written an edge, which goes back with it."""
    sequences = sequences_that_wrote(view, str(schema.edges.name), edge_id)
    rows = (view.tables.get(schema.kernel_event_log, sequence) for sequence in sequences)
    return any(
        in_scope(row) and not mark_of(view, row["operation_id"])["undone_by"]
        for row in rows
        if row is not None
    )


def _is_epoch(view: LedgerView, epoch_id: str) -> bool:
    """Tell whether an epoch has been opened and closed under this name; an operation may be one."""
    if view.epoch_marker(epoch_id, EPOCH_OPEN) is None:
        return False
    if view.epoch_marker(epoch_id, EPOCH_CLOSE) is None:
        raise RollbackRefused("rollback_epoch_open", f"epoch {epoch_id} has to be closed first")
    return True


def _alone(view: LedgerView, operation_id: str) -> Iterator[Row]:
    row = view.log_row_of(operation_id)
    if row is None:
        raise RollbackRefused("epoch_not_found", f"no epoch {operation_id}")
    yield row


def _epoch(view: LedgerView, epoch_id: str, before: int | None = None) -> Iterator[Row]:
    """Yield the rows of an epoch, newest first, in front of a sequence."""
    while rows := view.epoch_rows(epoch_id, before=before, limit=SEARCH_ROWS):
        yield from rows
        before = rows[-1]["ec_sequence_number"]


def _summaries_of(effects: tuple[PlannedEffect, ...]) -> list[Document]:
    return [
        {"effect_id": effect.declared["effect_id"], "effect_kind": effect.declared["effect_kind"]}
        for effect in effects[:NAMED_MAX]
    ]


def _effect_document(effect: PlannedEffect) -> PlannedEffectDocument:
    declared, applied = effect.declared, effect.applied
    outcomes: dict[str, UndoneAs] = {
        REVERSIBLE: "undone",
        COMPENSATING: "compensated",
        IRREVERSIBLE: "persists",
        RECEIPT: "stays",
    }
    return {
        "effect_id": declared["effect_id"],
        "effect_kind": declared["effect_kind"],
        "reversibility": effect.reversibility,
        "outcome": outcomes[effect.reversibility],
        "by": declared.get("inverse_operation_kind") or declared.get("compensating_operation_kind"),
        "external_effect_descriptor": declared.get("external_effect_descriptor"),
        "store": applied["store"],
        "record_key": applied["record_key"],
        "restores": effect.restores.content_hash or None,
    }


def step_of_recompute(step: RollbackStep, node_id: str, request_id: str) -> RollbackStep:
    """Return the step that undoes one recompute; the others of its page stay (kernel/0251)."""
    if not is_page(step.envelope):
        return step
    own = {
        step.envelope["primitive_effects"][ordinal]["effect_id"]
        for ordinal in ordinals_of(step.envelope, node_id)
    }
    return replace(
        step,
        envelope=recompute_alone(step.envelope, node_id),
        effects=tuple(effect for effect in step.effects if effect.declared["effect_id"] in own),
        recompute_of=node_id,
        request_id=request_id,
    )
