"""V3: the verb is known and its effects compose it (§3.3, §3.6, K4, K29)."""

from kernel.algebra.effects import EFFECT_KINDS
from kernel.algebra.verbs import OPERATION_KINDS, ROLLBACK, SEMANTIC_VERBS, SemanticVerb
from kernel.checks.check import Refusal, Submission, Verdict
from kernel.model.envelope import MAX_EFFECTS, KernelEffect
from kernel.model.receipt import SIMULATION_RECEIPTS
from kernel.model.simulation import SIMULATE

_COMPOSITION = "envelope_verb_composition_invalid"


def check(submission: Submission) -> Verdict:
    """Refuse unknown kinds and verbs, missing primitives and forbidden ones."""
    envelope = submission.envelope
    verb = SEMANTIC_VERBS.get(envelope.semantic_intent)
    if verb is None:
        return Refusal(
            "envelope_unknown_semantic_verb",
            "semantic_intent",
            f"no verb {envelope.semantic_intent}",
        )
    operation_kind = OPERATION_KINDS.get(envelope.operation_kind)
    if operation_kind is None or operation_kind.verb != verb.name:
        return Refusal(
            _COMPOSITION, "operation_kind", f"{envelope.operation_kind} does not speak {verb.name}"
        )
    if len(envelope.primitive_effects) > MAX_EFFECTS and verb.name != ROLLBACK:
        return Refusal(
            "envelope_schema_invalid", "primitive_effects", f"more than {MAX_EFFECTS} effects"
        )
    for index, effect in enumerate(envelope.primitive_effects):
        refusal = _check_effect(verb, effect, f"primitive_effects.{index}")
        if refusal is not None:
            return refusal
    declared = frozenset(effect.effect_kind for effect in envelope.primitive_effects)
    missing = [one for one in verb.requires if not verb.satisfied_by(one, declared)]
    alone = verb.name == ROLLBACK  # the companions of what is undone are undone with it
    companions = (EFFECT_KINDS[name].companion for name in sorted(declared) if not alone)
    missing += [one for one in companions if one is not None and one not in declared]
    if missing:
        return Refusal(
            "envelope_verb_decomposition_missing_primitive",
            "primitive_effects",
            f"{verb.name} requires {missing[0]}",
        )
    return None


def _check_effect(verb: SemanticVerb, effect: KernelEffect, field: str) -> Refusal | None:
    undoes = verb.name == ROLLBACK and effect.effect_kind != "receipt_only"
    if undoes != (effect.undoes is not None):
        return Refusal(
            _COMPOSITION,
            f"{field}.undoes",
            f"an effect of {ROLLBACK} says what it undoes, and no other does",
        )
    if effect.effect_kind not in EFFECT_KINDS:
        return Refusal(_COMPOSITION, f"{field}.effect_kind", f"no kind {effect.effect_kind}")
    if effect.effect_kind in verb.forbids:
        return Refusal(
            "envelope_verb_decomposition_forbidden_primitive",
            f"{field}.effect_kind",
            f"{verb.name} forbids {effect.effect_kind}",
        )
    subkind = effect.receipt_subkind
    # What a simulation says is said by simulations alone, and they say nothing else.
    if subkind and (subkind in SIMULATION_RECEIPTS) != (verb.name == SIMULATE):
        return Refusal(
            _COMPOSITION, f"{field}.receipt_subkind", f"{verb.name} does not emit {subkind}"
        )
    return None
