"""V3: a fire of a binding writes what its target kind writes, as evidence (§13.5, §13.6).

1. The orchestrator alone says that an operation is a fire, and it alone emits a manifest.
2. A fire names the generation that fired, and is composed of the one effect kind of that
   generation's target kind (INV-K-TARGET-1).
3. What it writes is evidence: a candidate, an observation. A ruling, a confirmed relationship or a
   confirmed membership is an operation of its own, by whoever adjudicates (INV-K-OUTCOME-1).

See decision kernel/0285.
"""

from kernel.ledger import schema
from kernel.model.bindings.dispatch import TARGETS
from kernel.model.bindings.source_binding import read_source_binding
from kernel.model.envelope import BindingFire, KernelEffect
from kernel.model.receipt import MANIFEST_RECEIPT
from kernel.transaction.checks.check import Refusal, Submission, Verdict

_UNAUTHORIZED = "envelope_actor_unauthorized"
_FIELD = "binding_fire"


def check(submission: Submission) -> Verdict:
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
        return Refusal(_UNAUTHORIZED, _FIELD, "the runtime alone says that a binding fired")
    return _judge(submission, fire)


def _judge(submission: Submission, fire: BindingFire) -> Refusal | None:
    snapshot_id = f"{fire.binding_id}|{fire.binding_generation_id}"
    record = submission.transaction.record(schema.binding_generation_snapshots, snapshot_id)
    if record is None:
        message = f"{fire.binding_id} has no generation {fire.binding_generation_id}"
        return Refusal("binding_generation_unknown", f"{_FIELD}.binding_generation_id", message)
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
