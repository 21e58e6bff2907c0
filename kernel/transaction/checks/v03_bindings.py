"""V3: a binding states what it means, and no more than this version knows (§13.8, §14.3, §15.3).

1. A binding is created in its first generation; nothing of it is in force without one.
2. The snapshot of a generation is a binding: structural selectors, one included at least, a target
   kind, a corpus, a priority, a resource policy. What it states beyond that by way of selection is
   refused and never ignored (INV-K-SELECTOR-1).
3. A generation that runs as critical states who approved of it. A user alone may state that.
"""

from dataclasses import replace

from kernel.model.bindings.selectors import NOT_SUPPORTED, BindingRefused
from kernel.model.bindings.source_binding import check_approval, read_source_binding
from kernel.model.envelope import KernelEffect
from kernel.transaction.checks.check import Refusal, Submission, Verdict

CREATE, UPDATE = "source_binding_create", "source_binding_update"
ADVANCE = "binding_generation_advance"
APPROVAL = "critical_approval"
_MISSING = "envelope_verb_decomposition_missing_primitive"
_TARGETS_DIFFER = "binding_generation_of_another"


def check(submission: Submission) -> Verdict:
    """Refuse a binding without a generation, and a generation that is no binding."""
    envelope = submission.envelope
    advances = [
        (place, effect)
        for place, effect in enumerate(envelope.primitive_effects)
        if effect.effect_kind == ADVANCE and effect.undoes is None
    ]
    if envelope.semantic_intent == CREATE and not advances:
        return Refusal(_MISSING, "primitive_effects", f"{CREATE} states the first generation")
    written = {
        effect.target_ref
        for effect in envelope.primitive_effects
        if effect.effect_kind == "node_write"
    }
    for place, effect in advances:
        field = f"primitive_effects.{place}"
        if envelope.semantic_intent in (CREATE, UPDATE) and effect.target_ref not in written:
            message = f"{effect.target_ref} is not the binding that is written"
            return Refusal(_TARGETS_DIFFER, f"{field}.target_ref", message)
        refusal = _judge(effect, envelope.actor, f"{field}.payload")
        if refusal is not None:
            return refusal
    return None


def _judge(effect: KernelEffect, actor: str, field: str) -> Refusal | None:
    place = f"{field}.binding_snapshot"
    try:
        binding = read_source_binding(effect.payload.get("binding_snapshot"))
        place = f"{field}.{APPROVAL}"
        check_approval(binding, effect.payload.get(APPROVAL))
    except BindingRefused as refused:
        named = f"{place}.{refused.field}" if refused.field else place
        refusal = Refusal(refused.code, named, str(refused))
        is_predicate = refused.code == NOT_SUPPORTED
        return replace(refusal, receipt_kind=NOT_SUPPORTED) if is_predicate else refusal
    if binding.is_critical and actor != "user":
        return Refusal("envelope_actor_unauthorized", place, "a user approves of what is critical")
    return None
