"""Judges whether the effects of an envelope compose its verb (V3).

V3: the verb is known and its effects compose it (§3.3, §3.6, K4, K29).

V3: a binding states what it means, and no more than this version knows (§13.8, §14.3, §15.3).

1. A binding is created in its first generation; nothing of it is in force without one.
2. The snapshot of a generation is a binding: structural selectors, one included at least, a target
   kind, a corpus, a priority, a resource policy. A selection that it states beyond that is refused
   and never ignored (INV-K-SELECTOR-1).
3. A generation that runs as critical states who approved of it. A user alone may state that.

V3: an extraction that ends with a part of its fields says with which (INV-EXT-3, §16.6).

The state machine itself is the store's (`kernel/records/extraction.py`). These rules are asked of
new steps alone: a log that was recorded without it replays as it was (K30).

V3: a fire of a binding writes what its target kind writes, as evidence (§13.5, §13.6).

1. The orchestrator alone says that an operation is a fire, and it alone emits a manifest.
2. A fire names the generation that fired, and is composed of the one effect kind of that
   generation's target kind (INV-K-TARGET-1).
3. It writes evidence: a candidate, an observation. A ruling, a confirmed relationship or a
   confirmed membership is an operation of its own, by whoever adjudicates (INV-K-OUTCOME-1).

See decision kernel/0285.

V3: what takes a node takes what hangs on it, and says so effect by effect (§3.3, §4.3.1).

`retract`, `soft_delete` and `collapse` are a node write and a cascade. The cascade is stated: each
active edge of the node is removed and each standing membership rejected or soft-deleted by an
effect of the same operation, so that overlays, conflicts, the log and undoing see every one of
them. A refusal names what is left out, so that it can be added. At most as much may hang on the
nodes as an operation has effects; where it is more, edges are removed before (decision
kernel/0238).
"""

from collections.abc import Iterable
from dataclasses import replace

from pydantic import ValidationError

from kernel.algebra.effects import EFFECT_KINDS, MAKING_EDGES
from kernel.algebra.verbs import OPERATION_KINDS, ROLLBACK, SEMANTIC_VERBS, SemanticVerb
from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.model.bindings.dispatch import TARGETS
from kernel.model.bindings.selectors import NOT_SUPPORTED, BindingRefused
from kernel.model.bindings.source_binding import check_approval, read_source_binding
from kernel.model.envelope import MAX_EFFECTS, BindingFire, Envelope, KernelEffect
from kernel.model.extraction_result import ExtractionCompleteness
from kernel.model.problems import first_problem
from kernel.model.receipt import MANIFEST_RECEIPT, SIMULATION_RECEIPTS
from kernel.model.simulation import SIMULATE
from kernel.transaction.checks.check import Refusal, Submission, Verdict, printable_excerpt

_COMPOSITION = "envelope_verb_composition_invalid"

Shape = tuple[str, bool, str | None]
"""Of an effect: its kind, whether it undoes another, and the receipt that it emits."""


def check_verb(submission: Submission) -> Verdict:
    """Refuse unknown kinds and verbs, missing primitives and forbidden ones."""
    envelope = submission.envelope
    shapes = tuple(
        [
            (effect.effect_kind, effect.undoes is not None, effect.receipt_subkind)
            for effect in envelope.primitive_effects
        ]
    )
    refusal = judge_verb(envelope.semantic_intent, envelope.operation_kind, shapes)
    return refusal or _judge_arguments(SEMANTIC_VERBS[envelope.semantic_intent], envelope)


def _judge_arguments(verb: SemanticVerb, envelope: Envelope) -> Refusal | None:
    rules = verb.arguments.by_kind
    kinds = {effect.effect_kind for effect in envelope.primitive_effects} if rules else set()
    for index, effect in enumerate(envelope.primitive_effects):
        arguments = None if effect.undoes else rules.get(effect.effect_kind)
        broken = None if arguments is None else arguments.first_broken_field(effect.payload, kinds)
        if broken is not None:
            stated = effect.payload.get(broken)
            shown = "nothing" if stated is None else printable_excerpt(stated)
            return Refusal(
                _COMPOSITION,
                f"primitive_effects.{index}.payload.{broken}",
                f"{verb.name} does not admit {shown} as {broken} of a {effect.effect_kind}",
            )
    return None


def judge_verb(
    semantic_intent: str, operation_kind: str, shapes: tuple[Shape, ...]
) -> Refusal | None:
    """Judge a verb by the kinds that compose it; what their payloads state is another question."""
    verb = SEMANTIC_VERBS.get(semantic_intent)
    if verb is None:
        return Refusal(
            "envelope_unknown_semantic_verb",
            "semantic_intent",
            f"no verb {printable_excerpt(semantic_intent)}",
        )
    spoken = OPERATION_KINDS.get(operation_kind)
    if spoken is None or spoken.verb != verb.name:
        return Refusal(
            _COMPOSITION,
            "operation_kind",
            f"{printable_excerpt(operation_kind)} does not speak {verb.name}",
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
    missing = [name for name in verb.requires if not verb.is_satisfied_by(name, declared)]
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
        return Refusal(_COMPOSITION, f"{field}.effect_kind", f"no kind {printable_excerpt(kind)}")
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


CREATE, UPDATE = "source_binding_create", "source_binding_update"
ADVANCE = "binding_generation_advance"
APPROVAL = "critical_approval"
_MISSING_PRIMITIVE = "envelope_verb_decomposition_missing_primitive"
_TARGETS_DIFFER = "binding_generation_of_another"


def check_bindings(submission: Submission) -> Verdict:
    """Refuse a binding without a generation, and a generation that is no binding."""
    envelope = submission.envelope
    advances = [
        (place, effect)
        for place, effect in enumerate(envelope.primitive_effects)
        if effect.effect_kind == ADVANCE and effect.undoes is None
    ]
    if envelope.semantic_intent == CREATE and not advances:
        return Refusal(
            _MISSING_PRIMITIVE, "primitive_effects", f"{CREATE} states the first generation"
        )
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
        refusal = _judge_binding(effect, envelope.actor, f"{field}.payload") or _judge_approval(
            effect.payload.get(APPROVAL), envelope.principal, f"{field}.payload.{APPROVAL}"
        )
        if refusal is not None:
            return refusal
    return None


def _judge_approval(approval: object, principal: str | None, field: str) -> Refusal | None:
    """Refuse an approval in the name of others; a key speaks for a user and for no architect."""
    if principal is None or not isinstance(approval, dict):
        return None
    for name, stands in (("approved_by", principal), ("approver_role", "user")):
        if approval.get(name) != stands:
            message = f"{name} is {stands} where {principal} approves of it"
            return Refusal("principal_differs", f"{field}.{name}", message)
    return None


def _judge_binding(effect: KernelEffect, actor: str, field: str) -> Refusal | None:
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


EXTRACTION_STEP = "extraction_state_transition"
COMPLETENESS = "extraction_completeness"
MISSING = "extraction_completeness_missing"
INVALID = "extraction_completeness_contradicted"


def check_extractions(submission: Submission) -> Verdict:
    """Refuse a degraded step without its completeness, and one that contradicts its state."""
    for place, effect in enumerate(submission.envelope.primitive_effects):
        if effect.effect_kind == EXTRACTION_STEP:
            refusal = _judge_completeness(
                effect.payload, f"primitive_effects.{place}.payload.{COMPLETENESS}"
            )
            if refusal is not None:
                return refusal
    return None


def _judge_completeness(payload: dict[str, object], field: str) -> Refusal | None:
    state, stated = payload.get("current_state"), payload.get(COMPLETENESS)
    # What was complete is taken back as degraded (§16.8): its completeness was stated before.
    ends_in_part = state == "degraded" and payload.get("prior_state") == "running"
    if stated is None:
        message = "a degraded extraction says which fields failed, and why"
        return Refusal(MISSING, field, message) if ends_in_part else None
    try:
        # As JSON has it, with lists where the model has tuples.
        completeness = ExtractionCompleteness.model_validate(stated, strict=False)
    except ValidationError as error:
        name, message = first_problem(error)
        return Refusal(INVALID, f"{field}.{name}" if name else field, message)
    failed = bool(completeness.failed_fields)
    if (state == "degraded" and not failed) or (state == "succeeded" and failed):
        return Refusal(INVALID, field, f"{state} contradicts the fields that failed")
    return None


_UNAUTHORIZED = "envelope_actor_unauthorized"
_FIRE = "binding_fire"


def check_fires(submission: Submission) -> Verdict:
    """Refuse a fire that writes anything but the evidence of its target kind."""
    envelope = submission.envelope
    by_the_orchestrator = submission.submitter == "orchestrator"
    if not by_the_orchestrator:
        for place, effect in enumerate(envelope.primitive_effects):
            if effect.receipt_subkind == MANIFEST_RECEIPT:
                field = f"primitive_effects.{place}.receipt_subkind"
                return Refusal(_UNAUTHORIZED, field, "the runtime alone emits a manifest")
    fire = envelope.binding_fire
    if fire is None:
        return None
    if not by_the_orchestrator:
        return Refusal(_UNAUTHORIZED, _FIRE, "the runtime alone says that a binding fired")
    return _judge_fire(submission, fire)


def _judge_fire(submission: Submission, fire: BindingFire) -> Refusal | None:
    snapshot_id = f"{fire.binding_id}|{fire.binding_generation_id}"
    record = submission.transaction.record(schema.binding_generation_snapshots, snapshot_id)
    if record is None:
        message = f"{fire.binding_id} has no generation {fire.binding_generation_id}"
        return Refusal("binding_generation_unknown", f"{_FIRE}.binding_generation_id", message)
    binding = read_source_binding(record["binding_snapshot"])
    target = TARGETS[binding.target_kind]
    effects = submission.envelope.primitive_effects
    kinds = [effect.effect_kind for effect in effects]
    if kinds != [target.effect_kind]:
        return Refusal(
            "binding_fire_effect_not_of_target",
            "primitive_effects",
            f"a fire of {binding.target_kind} writes one {target.effect_kind} and nothing else",
        )
    [effect] = effects
    for name, value in target.evidence:
        if effect.payload.get(name) != value:
            return _adjudicates(effect, name, value)
    if "corpus_id" in effect.payload and effect.payload["corpus_id"] != binding.corpus_id:
        field = "primitive_effects.0.payload.corpus_id"
        message = f"the binding's corpus is {binding.corpus_id}"
        return Refusal("binding_fire_effect_not_of_target", field, message)
    return None


def _adjudicates(effect: KernelEffect, name: str, value: str) -> Refusal:
    shown = ascii(effect.payload.get(name))[:80]
    return Refusal(
        "binding_fire_adjudicates",
        f"primitive_effects.0.payload.{name}",
        f"a fire is evidence and writes {value}, not {shown}; a person decides what becomes of it",
    )


TAKING_VERBS = frozenset({"retract", "soft_delete", "collapse"})

_TAKING = frozenset({"node_write", "node_retract"})
"""Effects that take a node, whose state these verbs hold to retracted or soft-deleted."""

_REMOVING_EDGES = frozenset({"edge_remove", "detach_source_binding"})
_MEMBERSHIPS = frozenset({"membership_write", "membership_state_transition"})

NAMED_MAX = 64
"""Refs that a refusal names."""


def check_cascade(submission: Submission) -> Verdict:
    """Refuse to take a node and leave something hanging on it, or to hang something on it."""
    envelope = submission.envelope
    if envelope.semantic_intent not in TAKING_VERBS:
        return None
    nodes = dict.fromkeys(
        effect.target_ref
        for effect in envelope.primitive_effects
        if effect.target_ref is not None and effect.effect_kind in _TAKING
    )
    hanging = _hanging_on(submission.transaction, nodes)
    if len(hanging) > MAX_EFFECTS:
        return Refusal(
            "envelope_cascade_too_wide",
            "primitive_effects",
            f"more than {MAX_EFFECTS} edges and memberships hang on what is taken",
        )
    stated = _removed_refs(envelope)
    missing = [ref for ref in hanging if ref not in stated]
    missing += [
        str(effect.target_ref)
        for effect in envelope.primitive_effects
        if effect.effect_kind in MAKING_EDGES and not nodes.keys().isdisjoint(_ends_of(effect))
    ]
    if not missing:
        return None
    return Refusal(
        "envelope_cascade_incomplete",
        "primitive_effects",
        f"{envelope.semantic_intent} leaves {missing[0]} hanging on a node that it takes",
        details={"hanging_refs": missing[:NAMED_MAX]},
    )


def _ends_of(effect: KernelEffect) -> list[str]:
    ends = (effect.payload.get(name) for name in ("source_node_id", "target_node_id"))
    return [end for end in ends if isinstance(end, str)]


def _hanging_on(view: LedgerView, nodes: Iterable[str]) -> list[str]:
    """Return what hangs on the nodes; of more than an operation can state, a part."""
    hanging: dict[str, None] = {}
    for node in nodes:
        limit = MAX_EFFECTS + 1
        hanging |= dict.fromkeys(view.standing_edges(node, limit=limit))
        hanging |= dict.fromkeys(view.standing_memberships(node, limit=limit))
        if len(hanging) > MAX_EFFECTS:
            break
    return [*hanging]


def _removed_refs(envelope: Envelope) -> set[str]:
    """Return the edges and memberships that an envelope takes away."""
    stated = set()
    for effect in envelope.primitive_effects:
        if effect.effect_kind in _REMOVING_EDGES:
            stated.add(str(effect.target_ref))
        elif EFFECT_KINDS[effect.effect_kind].canonical in _MEMBERSHIPS:
            stated.add(f"{effect.payload.get('corpus_id')}|{effect.target_ref}")
    return stated
