"""Says what undoing an operation takes: which others have to go before it, or why it cannot go.

Operations that wrote the same records since, or that the operation informed, stand in the way of an
inverse. Those are added to what goes, up to a bound, until nothing stands in the way of all of
them; then they go together, the newest first, each by an operation of its own.
"""

from collections.abc import Collection
from dataclasses import dataclass

from kernel.records.access.readable_view import ReadableView
from kernel.rollback.errors import RollbackRefused
from kernel.rollback.plan import RollbackPlan, plan_epoch, plan_operation, plan_operations
from kernel.values.errors import KernelError
from workers.views.operation_graph import OperationGraph, operation_graph

UNDONE_MAX = 20
"""Operations that are undone for one of them; where there are more, it is nobody's single click."""

_IN_THE_WAY = ("later_operation_ids", "informed_operation_ids")
_AS_FAR_AS_IT_GOES = frozenset({"tier_1_requires_all_fully_reversible", "tier_1_scope_too_wide"})


@dataclass(frozen=True, slots=True)
class UndoneOperation:
    """An operation that has to be undone."""

    operation_id: str
    ec_sequence_number: int
    semantic_intent: str


@dataclass(frozen=True, slots=True)
class UndoingView:
    """What undoing an operation takes."""

    operations: tuple[UndoneOperation, ...] = ()
    """All that go, in the order of undoing; the operation itself is the last."""

    tier: int = 1
    """2 where something is made up for or persists, and it is undone as far as it goes."""

    persists: tuple[str, ...] = ()
    """What stays outside whatever is done here."""

    undone_by: str | None = None
    code: str | None = None
    why_not: str | None = None
    """Why it cannot be undone here; None where it can."""


@dataclass(frozen=True, slots=True)
class AroundOperation:
    """What an operation came from and led to, and what undoing it takes."""

    graph: OperationGraph | None
    undoing: UndoingView


def around_operation(view: ReadableView, operation_id: str) -> AroundOperation:
    """Return what stands around an operation of the log."""
    return AroundOperation(operation_graph(view, operation_id), undoing_view(view, operation_id))


def undoing_view(view: ReadableView, operation_id: str) -> UndoingView:
    """Return what undoing an operation takes now."""
    names = {operation_id}
    try:
        plan_operation(view, operation_id)
    except RollbackRefused as refused:
        undone_by = refused.details.get("inverse_operation_id")
        if undone_by is not None:
            return UndoingView(undone_by=undone_by, code=refused.code, why_not=str(refused))
        if refused.code in _AS_FAR_AS_IT_GOES:
            return _as_far_as_it_goes(view, operation_id)
        names |= _in_the_way(refused)
    except KernelError as error:
        return UndoingView(code=error.code, why_not=str(error))
    while len(names) <= UNDONE_MAX:
        try:
            plan = plan_operations(view, names)
        except RollbackRefused as refused:
            others = _in_the_way(refused) - names
            if not others:
                return _stays(view, names, refused.code, str(refused))
            names |= others
        except KernelError as error:
            return _stays(view, names, error.code, str(error))
        else:
            return UndoingView(_newest_first(view, {step.operation_id for step in plan.steps}))
    why = f"more than {UNDONE_MAX} operations would have to go with it"
    return _stays(view, names, "rollback_still_referenced", why)


def _in_the_way(refused: RollbackRefused) -> set[str]:
    return {each for field in _IN_THE_WAY for each in refused.details.get(field, ())}


def _stays(view: ReadableView, names: Collection[str], code: str, why: str) -> UndoingView:
    return UndoingView(_newest_first(view, names)[:UNDONE_MAX], code=code, why_not=why)


def _as_far_as_it_goes(view: ReadableView, operation_id: str) -> UndoingView:
    going = _newest_first(view, {operation_id})
    try:
        plan = plan_epoch(view, operation_id)
    except KernelError as error:
        return UndoingView(tier=2, code=error.code, why_not=str(error))
    if plan.needs_user_confirmation:
        why = "something outside would persist, so a user has to confirm it with a token"
        return UndoingView(going, 2, _persists(plan), code="confirmation_required", why_not=why)
    return UndoingView(going, 2, _persists(plan))


def _persists(plan: RollbackPlan) -> tuple[str, ...]:
    return tuple(str(effect["external_effect_descriptor"]) for effect in plan.persists)


def _newest_first(view: ReadableView, names: Collection[str]) -> tuple[UndoneOperation, ...]:
    rows = (view.log_row_of(name) for name in names)
    operations = [
        UndoneOperation(row["operation_id"], row["ec_sequence_number"], row["semantic_intent"])
        for row in rows
        if row is not None
    ]
    operations.sort(key=lambda each: each.ec_sequence_number, reverse=True)
    return tuple(operations)
