"""Maps a lite envelope to one of version 1.6: what follows mechanically, and what does not (§2.8).

Kept as they are: id, kind, verb, key, causal parents, sources, targets, scope, taint, times,
session and run. Given by the migration: version, actor, the policy in force, the lowest priority,
and what it supersedes. Filled from the registry where an effect leaves it out: its id and how it is
undone. Read and write sets and causal parents were best effort in version 1.5: what is not there
stays empty (§2.6). Everything else that is missing is for a reviewer.
"""

from dataclasses import dataclass

from kernel.algebra.effects import (
    COMPENSATING,
    EFFECT_KINDS,
    REVERSIBLE,
    expected_compensations,
    expected_reversibility,
)
from kernel.ledger.ledger import Document, LedgerView

REQUIRED = (
    "semantic_intent",
    "primitive_effects",
    "affected_subgraph_descriptor",
    "source_refs",
    "target_refs",
)
"""Fields that version 1.6 requires and that only an author can state."""

_KEPT = (
    "operation_id",
    "operation_kind",
    "idempotency_key",
    "recorded_at",
    *REQUIRED,
    "source_visibility_taint",
    "resolved_output_visibility_class",
    "duration_ms",
    "session_id",
    "run_id",
)
BEST_EFFORT = ("causal_parent_operation_ids", "read_set_refs", "write_set_refs")
"""Fields that version 1.5 stated where it knew them."""


@dataclass(frozen=True, slots=True)
class Unmapped:
    """Why a lite envelope cannot be mapped without a reviewer."""

    reason_code: str
    field: str
    message: str
    missing_fields: tuple[str, ...] = ()


def map_lite(view: LedgerView, lite: Document, sequence: int) -> Document | Unmapped:
    """Return the envelope that supersedes a lite one, which stands at a sequence."""
    missing = tuple(name for name in REQUIRED if lite.get(name) is None)
    if missing:
        message = f"version 1.6 requires {', '.join(missing)}"
        return Unmapped("lite_field_missing", missing[0], message, missing)
    if lite.get("recorded_model_outputs"):
        message = "what a model answered is recorded with its answer, which is not here"
        return Unmapped("lite_model_outputs_unavailable", "recorded_model_outputs", message)
    return {
        **{name: lite[name] for name in _KEPT if lite.get(name) is not None},
        **{name: lite.get(name) or [] for name in BEST_EFFORT},
        "envelope_version": "1.6",
        "schema_version": 1,
        "actor": "migration",
        "policy_generation_id": view.policy_generation_id(),
        "recompute_priority": "background_low_priority",
        "primitive_effects": [
            _effect(view, effect, ordinal)
            for ordinal, effect in enumerate(lite["primitive_effects"])
        ],
        "supersedes": {
            "operation_id": lite["operation_id"],
            "ec_sequence_number": str(sequence),
        },
    }


def _effect(view: LedgerView, stated: Document, ordinal: int) -> Document:
    """Return an effect with what the registry says of its kind, where it leaves that out."""
    kind = stated.get("effect_kind")
    if not isinstance(kind, str) or kind not in EFFECT_KINDS:
        return stated
    payload = stated.get("payload")
    known = payload if isinstance(payload, dict) else {}
    effect = {"effect_id": f"{kind}:{ordinal}", "schema_version": 1, **stated}
    reversibility = effect.setdefault(
        "reversibility", expected_reversibility(kind, _node_kind(view, stated, known))
    )
    if reversibility == REVERSIBLE:
        effect.setdefault("inverse_operation_kind", EFFECT_KINDS[kind].inverses[0])
    elif reversibility == COMPENSATING:
        effect.setdefault("compensating_operation_kind", expected_compensations(kind, known)[0])
    return effect


def _node_kind(view: LedgerView, stated: Document, payload: Document) -> str | None:
    kind, target = payload.get("node_kind"), stated.get("target_ref")
    if kind is None and isinstance(target, str):
        kind = (view.node(target) or {}).get("node_kind")
    return kind if isinstance(kind, str) else None
