"""V3: the verb is known and its effects compose it (§3.3, §3.6, K4, K29)."""

from kernel.algebra.effects import EFFECT_KINDS
from kernel.algebra.verbs import OPERATION_KINDS, ROLLBACK, SEMANTIC_VERBS, SemanticVerb
from kernel.model.envelope import MAX_EFFECTS, Envelope
from kernel.model.receipt import SIMULATION_RECEIPTS
from kernel.model.simulation import SIMULATE
from kernel.transaction.checks.check import Refusal, Submission, Verdict, said

_COMPOSITION = "envelope_verb_composition_invalid"

Shape = tuple[str, bool, str | None]
"""Of an effect: its kind, whether it undoes another, and the receipt that it emits."""


def check(submission: Submission) -> Verdict:
    """Refuse unknown kinds and verbs, missing primitives and forbidden ones."""
    envelope = submission.envelope
    shapes = tuple(
        [
            (effect.effect_kind, effect.undoes is not None, effect.receipt_subkind)
            for effect in envelope.primitive_effects
        ]
    )
    refusal = judge(envelope.semantic_intent, envelope.operation_kind, shapes)
    return refusal or _judge_arguments(SEMANTIC_VERBS[envelope.semantic_intent], envelope)


def _judge_arguments(verb: SemanticVerb, envelope: Envelope) -> Refusal | None:
    rules = verb.arguments.by_kind
    kinds = {effect.effect_kind for effect in envelope.primitive_effects} if rules else set()
    for index, effect in enumerate(envelope.primitive_effects):
        arguments = None if effect.undoes else rules.get(effect.effect_kind)
        broken = None if arguments is None else arguments.broken_by(effect.payload, kinds)
        if broken is not None:
            stated = effect.payload.get(broken)
            shown = "nothing" if stated is None else said(stated)
            return Refusal(
                _COMPOSITION,
                f"primitive_effects.{index}.payload.{broken}",
                f"{verb.name} does not admit {shown} as {broken} of a {effect.effect_kind}",
            )
    return None


def judge(semantic_intent: str, operation_kind: str, shapes: tuple[Shape, ...]) -> Refusal | None:
    """Judge a verb by the kinds that compose it; what their payloads state is another question."""
    verb = SEMANTIC_VERBS.get(semantic_intent)
    if verb is None:
        return Refusal(
            "envelope_unknown_semantic_verb", "semantic_intent", f"no verb {said(semantic_intent)}"
        )
    spoken = OPERATION_KINDS.get(operation_kind)
    if spoken is None or spoken.verb != verb.name:
        return Refusal(
            _COMPOSITION, "operation_kind", f"{said(operation_kind)} does not speak {verb.name}"
        )
    if len(shapes) > MAX_EFFECTS and verb.name != ROLLBACK:
        return Refusal(
            "envelope_schema_invalid", "primitive_effects", f"more than {MAX_EFFECTS} effects"
        )
    for index, shape in enumerate(shapes):
        refusal = _judge_effect(verb, shape, f"primitive_effects.{index}")
        if refusal is not None:
            return refusal
    declared = frozenset(kind for kind, _, __ in shapes)
    missing = [name for name in verb.requires if not verb.satisfied_by(name, declared)]
    alone = verb.name == ROLLBACK  # the companions of what is undone are undone with it
    companions = (EFFECT_KINDS[name].companion for name in sorted(declared) if not alone)
    missing += [
        companion for companion in companions if companion is not None and companion not in declared
    ]
    if missing:
        return Refusal(
            "envelope_verb_decomposition_missing_primitive",
            "primitive_effects",
            f"{verb.name} requires {missing[0]}",
        )
    return _judge_receipts(verb, shapes)


def _judge_receipts(verb: SemanticVerb, shapes: tuple[Shape, ...]) -> Refusal | None:
    """Judge whether the receipts are the verb's, and its own is there."""
    own, stated = verb.arguments, set()
    for index, (kind, _, subkind) in enumerate(shapes):
        if kind != "receipt_only":
            continue
        stated.add(subkind or verb.name)
        if not own.admits_receipt(subkind or verb.name):
            place = f"primitive_effects.{index}.receipt_subkind"
            return Refusal(_COMPOSITION, place, f"{verb.name} does not emit {subkind}")
    if own.receipts and not own.receipts & stated:
        names = " or ".join(sorted(own.receipts))
        return Refusal(_COMPOSITION, "primitive_effects", f"{verb.name} states {names}")
    return None


def _judge_effect(verb: SemanticVerb, shape: Shape, field: str) -> Refusal | None:
    kind, undoes, subkind = shape
    if undoes != (verb.name == ROLLBACK and kind != "receipt_only"):
        return Refusal(
            _COMPOSITION,
            f"{field}.undoes",
            f"an effect of {ROLLBACK} says what it undoes, and no other does",
        )
    if kind not in EFFECT_KINDS:
        return Refusal(_COMPOSITION, f"{field}.effect_kind", f"no kind {said(kind)}")
    if kind in verb.forbids:
        return Refusal(
            "envelope_verb_decomposition_forbidden_primitive",
            f"{field}.effect_kind",
            f"{verb.name} forbids {kind}",
        )
    # Simulations alone emit these receipts, and they emit no others.
    if subkind and (subkind in SIMULATION_RECEIPTS) != (verb.name == SIMULATE):
        return Refusal(
            _COMPOSITION, f"{field}.receipt_subkind", f"{verb.name} does not emit {subkind}"
        )
    return None
