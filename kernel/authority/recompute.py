"""A recompute on the record: refused unless it is due and follows from the record (§8.2, K12).

The inputs are read again as they stood at the sequence that the recompute names, and the authority
is computed from them; what is stated must be that. Whoever reports another has only wasted a claim.
"""

from typing import Any

from kernel.algebra.effects import canonical_kind
from kernel.authority.as_of import GraphAsOf
from kernel.authority.graph import authority_of
from kernel.authority.inputs import StatedInputs
from kernel.authority.requests import RecomputeReadiness, close_request, due
from kernel.authority.strategy import AuthorityStrategy, authority_in_range
from kernel.canonical import canonicalize
from kernel.errors import AuthorityInvalid, EffectInapplicable, SnapshotTooOld
from kernel.ledger.ledger import LedgerTransaction, Request
from kernel.model.envelope import Envelope
from kernel.model.receipt import Receipt
from kernel.stores.record import Operation

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


def check_recompute(
    operation: Operation, envelope: Envelope, strategy: AuthorityStrategy
) -> list[Request]:
    """Return the requests that a recompute answers.

    A recompute is refused when it is not due, or when it states other inputs or another authority
    than the record has at the sequence that it names. Linear in the inputs and in what was
    recorded since.

    Raises:
        EffectInapplicable: with the reason; the worker lets go of it, or tries again later.
    """
    node_id, as_of = _target(envelope)
    if as_of > operation.transaction.head_now.ec_sequence_number:
        raise EffectInapplicable(
            "a recompute cannot have read what is not on the record yet",
            code="recompute_as_of_ahead",
            field="recompute_as_of_sequence",
        )
    state = due(operation.transaction, node_id, as_of)
    if state.readiness in REFUSALS:
        raise _refused(state.readiness)
    payload = _payload(envelope, node_id)
    _check_nothing_else_is_written(envelope, payload)
    expected, inputs = _computed(operation.transaction, node_id, as_of, strategy)
    _check_inputs(payload, inputs)
    _check_value(payload, expected)
    for effect in envelope.primitive_effects:
        entry = effect.payload.get("entry")
        if isinstance(entry, dict) and "cu_authority" in entry:
            _check_value(entry, expected)
    return state.served


def complete_recompute(operation: Operation, envelope: Envelope, served: list[Request]) -> None:
    """Give the requests that this recompute serves their outcome, with a receipt for each."""
    node_id, _ = _target(envelope)
    value = _payload(envelope, node_id)["cu_authority"]
    for request in served:
        close_request(
            operation.transaction,
            request.request_id,
            outcome="completed",
            operation_id=operation.operation_id,
            closed_sequence=operation.sequence,
            closed_at_us=operation.transaction.head_now.committed_at_us,
        )
        body = {
            "request_id": request.request_id,
            "target_cu_id": node_id,
            "new_authority_value": value,
        }
        operation.emit(Receipt("authority_recompute_completed", body))


def _refused(readiness: RecomputeReadiness) -> EffectInapplicable:
    refusal = REFUSALS[readiness]
    return EffectInapplicable(refusal[1], code=refusal[0], field="target_refs.0")


def _computed(
    transaction: LedgerTransaction, node_id: str, as_of: int, strategy: AuthorityStrategy
) -> tuple[float, StatedInputs]:
    try:
        graph = GraphAsOf(transaction, as_of)
        node = graph.node(node_id)
        if node is None:
            raise _refused(RecomputeReadiness.CLOSED)
        return authority_of(graph, strategy, node)
    except SnapshotTooOld as error:
        field = "recompute_as_of_sequence"
        raise EffectInapplicable(str(error), code="recompute_as_of_too_old", field=field) from None
    except AuthorityInvalid as error:
        field = "primitive_effects.0.payload.cu_authority"
        raise EffectInapplicable(str(error), code=error.code, field=field) from None


def _check_inputs(payload: dict[str, Any], inputs: StatedInputs) -> None:
    for name, expected in inputs.payload().items():
        if canonicalize(payload.get(name)) != canonicalize(expected):
            raise EffectInapplicable(
                f"the record has {inputs.count} inputs at that sequence, stated are others",
                code="cu_authority_inputs_mismatch",
                field=f"primitive_effects.0.payload.{name}",
            )


def _check_value(stated: dict[str, Any], expected: float) -> None:
    field = "primitive_effects.0.payload.cu_authority"
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


def _target(envelope: Envelope) -> tuple[str, int]:
    as_of = envelope.recompute_as_of_sequence
    if not envelope.target_refs or as_of is None:
        raise EffectInapplicable(
            "a recompute names its target and the sequence that it read",
            code="recompute_incomplete",
            field="recompute_as_of_sequence",
        )
    return envelope.target_refs[0], as_of


def _check_nothing_else_is_written(envelope: Envelope, payload: dict[str, Any]) -> None:
    """Refuse a recompute that also writes what would set off others; it sets nothing off."""
    graph_writes = [
        effect.effect_kind
        for effect in envelope.primitive_effects
        if canonical_kind(effect.effect_kind) in ("node_write", "edge_write")
    ]
    if graph_writes != ["node_write"] or not _WRITTEN.issuperset(payload):
        raise EffectInapplicable(
            f"a recompute writes one node, and of it {', '.join(sorted(_WRITTEN))}",
            code="recompute_writes_more",
            field="primitive_effects",
        )


def _payload(envelope: Envelope, node_id: str) -> dict[str, Any]:
    for effect in envelope.primitive_effects:
        if effect.target_ref == node_id and "cu_authority" in effect.payload:
            return effect.payload
    raise EffectInapplicable(
        "a recompute writes cu_authority",
        code="recompute_incomplete",
        field="primitive_effects",
    )
