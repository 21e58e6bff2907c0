"""Recomputes on the record: refused unless due and what follows from the record (§8.2, K12, K32).

An envelope holds a page of recomputes, most often of one. Each names its understanding, the digest
of its inputs and the requests that it answers, and is judged by itself: its inputs are read again
as they stood at the sequence that the envelope names, and the authority is computed from them; what
is stated must be that. Whoever reports another has only wasted a claim. No recompute of a page is
an input of another, for one whose input waits is not due; so the order within a page is of no
consequence.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from orjson import OPT_SORT_KEYS, JSONEncodeError, dumps

from kernel.algebra.effects import canonical_kind
from kernel.authority.as_of import GraphAsOf
from kernel.authority.inputs import StatedInputs
from kernel.authority.requests import RecomputeReadiness, due
from kernel.authority.strategy import authority_in_range
from kernel.authority.value import authority_of
from kernel.ledger.ledger import Request
from kernel.ledger.outbox import end_request
from kernel.model.authority_strategy import AuthorityStrategy
from kernel.model.envelope import Envelope
from kernel.model.receipt import Receipt
from kernel.model.recomputes import CAUSES, RECALCULATE, REQUESTS, Recompute, is_page, recomputes_of
from kernel.records.operation_steps import AppliedOperation, Steps
from kernel.records.rollback_marks import mark_page
from kernel.values.canonical import canonicalize
from kernel.values.errors import AuthorityInvalid, EffectInapplicable, SnapshotTooOld

_WRITTEN = frozenset(
    {
        "cu_authority",
        "cu_authority_computed_at",
        "cu_authority_input_versions",
        "cu_authority_inputs",
        "visibility_class",
    }
)

REFUSALS = {
    RecomputeReadiness.CLOSED: (
        "recompute_request_closed",
        "no open request asks for this recompute",
    ),
    RecomputeReadiness.INPUT_PENDING: (
        "recompute_input_pending",
        "an understanding that feeds this one is still to be recomputed",
    ),
}
"""Code and message of the refusal of a target that is not ready to be recomputed."""


Served = Sequence[Request]
"""The requests that a recompute answers."""


def check_recomputes(operation: AppliedOperation) -> None:
    """Keep the recomputes of an envelope, with the requests that each answers.

    A recompute is refused when it is not due, or when it states other inputs or another authority
    than the record has at the sequence that it names. Linear in the inputs and in what was
    recorded since.

    Raises:
        EffectInapplicable: with the reason; the worker lets go of it, or tries again later.
    """
    transaction, envelope = operation.transaction, operation.envelope
    as_of = envelope.recompute_as_of_sequence
    if not envelope.target_refs or as_of is None:
        raise EffectInapplicable(
            "a recompute names its target and the sequence that it read",
            code="recompute_incomplete",
            field="recompute_as_of_sequence",
        )
    if as_of > transaction.head_now.ec_sequence_number:
        raise EffectInapplicable(
            "a recompute cannot have read what is not on the record yet",
            code="recompute_as_of_ahead",
            field="recompute_as_of_sequence",
        )
    recomputes = recomputes_of(envelope)
    if tuple(recompute.node_id for recompute in recomputes) != envelope.target_refs:
        raise EffectInapplicable(
            "the effects of a page belong to its targets, in their order, each named once",
            code="recompute_writes_more",
            field="primitive_effects",
        )
    checked: list[tuple[Recompute, Served]] = []
    for place, recompute in enumerate(recomputes):
        state = due(transaction, recompute.node_id, as_of)
        if state.readiness in REFUSALS:
            raise _refusal(state.readiness, place)
        checked.append((recompute, state.served))
    try:
        graph = GraphAsOf(transaction, as_of)
    except SnapshotTooOld as error:
        field = "recompute_as_of_sequence"
        raise EffectInapplicable(str(error), code="recompute_as_of_too_old", field=field) from None
    for place, (recompute, served) in enumerate(checked):
        _check(recompute, graph, operation.strategy, place)
        _check_statement(recompute, served, envelope)
    operation.recomputes = checked


def complete_recomputes(operation: AppliedOperation) -> None:
    """Give the requests that recomputes answer their outcome, with a receipt for each.

    A recompute itself sets nothing off (K12).
    """
    for recompute, served in operation.recomputes:
        value = recompute.written["cu_authority"]
        for request in served:
            end_request(
                operation.transaction.tables,
                request.request_id,
                outcome="completed",
                operation_id=operation.operation_id,
                closed_sequence=operation.sequence,
                closed_at_us=operation.transaction.head_now.committed_at_us,
            )
            body = {
                "request_id": request.request_id,
                "target_cu_id": recompute.node_id,
                "new_authority_value": value,
            }
            operation.emit(Receipt("authority_recompute_completed", body))
    if is_page(operation.envelope):
        mark_page(operation, len(operation.applied))


def _refusal(readiness: RecomputeReadiness, place: int) -> EffectInapplicable:
    refusal = REFUSALS[readiness]
    return EffectInapplicable(refusal[1], code=refusal[0], field=f"target_refs.{place}")


def _check(recompute: Recompute, graph: GraphAsOf, strategy: AuthorityStrategy, place: int) -> None:
    """Refuse what is not what the record gave at that sequence."""
    payload = recompute.written
    if not payload:
        raise EffectInapplicable(
            "a recompute writes cu_authority",
            code="recompute_incomplete",
            field="primitive_effects",
        )
    _check_nothing_else_is_written(recompute, payload)
    expected, inputs = _compute(recompute, graph, strategy, place)
    _check_inputs(recompute, payload, inputs)
    _check_value(recompute, payload, expected)
    for effect in recompute.effects:
        entry = effect.payload.get("entry")
        if isinstance(entry, dict) and "cu_authority" in entry:
            _check_value(recompute, entry, expected)


def _compute(
    recompute: Recompute, graph: GraphAsOf, strategy: AuthorityStrategy, place: int
) -> tuple[float, StatedInputs]:
    try:
        node = graph.node(recompute.node_id)
        if node is None:
            raise _refusal(RecomputeReadiness.CLOSED, place)
        return authority_of(graph, strategy, node)
    except AuthorityInvalid as error:
        field = f"primitive_effects.{recompute.first}.payload.cu_authority"
        raise EffectInapplicable(str(error), code=error.code, field=field) from None


def _check_inputs(recompute: Recompute, payload: Mapping[str, Any], inputs: StatedInputs) -> None:
    for name, expected in inputs.payload().items():
        if not _same(payload.get(name), expected):
            raise EffectInapplicable(
                f"the record has {inputs.count} inputs at that sequence, stated are others",
                code="cu_authority_inputs_mismatch",
                field=f"primitive_effects.{recompute.first}.payload.{name}",
            )


def _same(stated: object, expected: object) -> bool:
    """Tell whether two values have one canonical form; most are the same bytes without it."""
    try:
        if dumps(stated, option=OPT_SORT_KEYS) == dumps(expected, option=OPT_SORT_KEYS):
            return True
    except JSONEncodeError:
        return False
    return canonicalize(stated) == canonicalize(expected)


def _check_value(recompute: Recompute, stated: Mapping[str, Any], expected: float) -> None:
    field = f"primitive_effects.{recompute.first}.payload.cu_authority"
    try:
        value = authority_in_range(stated.get("cu_authority"), "cu_authority")
    except AuthorityInvalid as error:
        raise EffectInapplicable(str(error), code="authority_out_of_range", field=field) from None
    if value != expected:
        raise EffectInapplicable(
            f"the inputs give {expected}, stated is {value}",
            code="cu_authority_mismatch",
            field=field,
        )


def _check_nothing_else_is_written(recompute: Recompute, payload: Mapping[str, Any]) -> None:
    """Refuse a recompute that also writes what would set off others; it sets nothing off."""
    graph_writes = [
        effect.effect_kind
        for effect in recompute.effects
        if canonical_kind(effect.effect_kind) in ("node_write", "edge_write")
    ]
    if graph_writes != ["node_write"] or not _WRITTEN.issuperset(payload):
        raise EffectInapplicable(
            f"a recompute writes one node, and of it {', '.join(sorted(_WRITTEN))}",
            code="recompute_writes_more",
            field="primitive_effects",
        )


def _check_statement(recompute: Recompute, served: Served, envelope: Envelope) -> None:
    """Refuse other requests than those that are answered, and causes that the page does not name.

    A recompute of an earlier program was alone in its envelope and names none.
    """
    stated = [effect.payload for effect in recompute.effects if REQUESTS in effect.payload]
    page = is_page(envelope)
    if not stated and not page:
        return
    answered = [request.request_id for request in served]
    if len(stated) == 1 and stated[0][REQUESTS] == answered:
        causes = stated[0].get(CAUSES, None if page else [])
        known = envelope.causal_parent_operation_ids
        if isinstance(causes, list) and all(cause in known for cause in causes):
            return
    raise EffectInapplicable(
        f"a recompute names the requests that it answers, and in a page its causes ({CAUSES})",
        code="recompute_incomplete",
        field=f"primitive_effects.{recompute.first}.payload.{REQUESTS}",
    )


VERB_STEPS = MappingProxyType(
    {RECALCULATE: Steps(before=check_recomputes, after=complete_recomputes)}
)
