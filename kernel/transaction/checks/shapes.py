"""Leaves out the checks that an envelope's shape makes needless (decision kernel/0240).

Some questions are answered by an envelope's shape alone: its verb, the kinds of its effects, and
which fields are stated. The answer is the same for every envelope of that shape, so it is found
once, with the rules of the checks themselves, and kept. A check that cannot refuse an envelope of a
shape, and records nothing with it, is not made; in doubt it is made, as every check is of a shape
that is not kept. So a refusal, and the order of refusals, is what it is without this table.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from kernel.algebra.effects import EFFECT_KINDS, canonical_kind
from kernel.algebra.verbs import EPOCH_CLOSE, EPOCH_OPEN, OPERATION_KINDS, SEMANTIC_VERBS
from kernel.model.envelope import ACTORS, MAX_EFFECTS, REVERSIBILITIES, KernelEffect
from kernel.model.receipt import MANIFEST_RECEIPT, RECEIPT_KINDS
from kernel.model.simulation import SIMULATE
from kernel.records.conflicts.writes import is_compared
from kernel.records.overlays.access import OVERRIDE
from kernel.records.overlays.overlay import EMBEDDED, FIELDS
from kernel.records.overlays.resolution import SHARE_LINK_SESSION
from kernel.records.sources import READING, RECLASSIFICATION
from kernel.transaction.checks.causality import check_causality, check_epoch, check_implication
from kernel.transaction.checks.check import Check, Submission, Submitter
from kernel.transaction.checks.conflicts import COMPUTED, check_conflicts
from kernel.transaction.checks.evidence import (
    GROUNDING,
    JUDGED_KINDS,
    check_outcomes,
    check_source_spans,
    may_ground,
)
from kernel.transaction.checks.idempotency import check_supersession
from kernel.transaction.checks.order import CHECKS
from kernel.transaction.checks.overlays import check_overlays, states_overlay
from kernel.transaction.checks.reversibility import check_effect, check_inverse, check_reversibility
from kernel.transaction.checks.schema import (
    check_actor,
    check_derived_names,
    check_model_outputs,
    check_operation_id,
)
from kernel.transaction.checks.taint import check_isolation, check_taint
from kernel.transaction.checks.verbs import (
    ADVANCE,
    CREATE,
    EXTRACTION_STEP,
    TAKING_VERBS,
    check_bindings,
    check_cascade,
    check_extractions,
    check_fires,
    check_verb,
    judge_verb,
)
from kernel.transaction.outbound import goes_outside
from kernel.values.visibility import VISIBILITY_CLASSES

Checks = tuple[tuple[str, Check], ...]

SHAPES_MAX = 1024
"""Shapes that are kept; where there are more, the table begins anew."""

EFFECTS_MAX = 16
"""Shapes of effects in a shape that is kept."""

_VALUE_CHARS_MAX = 64

_RULED = [rule for verb in SEMANTIC_VERBS.values() for rule in verb.arguments.by_kind.values()]

TELLING_FIELDS = frozenset(
    {
        *("node_kind", "visibility_class", "to_state", "edge_type", "state", EMBEDDED, *FIELDS),
        *GROUNDING,
        *(name for reading in READING.values() for name in reading),
        *(name for rule in _RULED for name in (*rule.values, *rule.stated, *(rule.only or ()))),
        *(name for rule in _RULED for name in (*rule.never, *rule.beside)),
    }
)
"""Fields of a payload on whose presence an answer depends."""


class EffectShape(NamedTuple):
    """What an answer may depend on of an effect."""

    kind: str
    reversibility: str
    inverse: str | None
    compensation: str | None
    receipt: str | None
    descriptor: str | None
    """Empty where it is blank, None where there is none."""

    undoes: bool
    fields: frozenset[str]
    """Those of `TELLING_FIELDS` that the payload has."""

    has_others: bool
    """Whether the payload has other fields as well."""

    node_kind: str | None
    visibility_class: str | None
    to_state: str | None
    edge_type: str | None

    def payload(self) -> dict[str, Any]:
        """Return the payload as far as it is known; a field of any value has None."""
        stated = dict.fromkeys(self.fields)
        for name in ("node_kind", "visibility_class", "to_state", "edge_type"):
            if name in stated:
                stated[name] = getattr(self, name)
        return stated

    def effect(self) -> KernelEffect:
        """Return an effect of this shape, for rules that ask for nothing else of it."""
        return KernelEffect.model_construct(
            effect_id="",
            schema_version=1,
            effect_kind=self.kind,
            reversibility=self.reversibility,
            inverse_operation_kind=self.inverse,
            compensating_operation_kind=self.compensation,
            external_effect_descriptor=self.descriptor,
            receipt_subkind=self.receipt,
            payload=self.payload(),
        )


class Shape(NamedTuple):
    """What an answer may depend on of an envelope, who submits it, and the overlays in force."""

    submitter: Submitter
    actor: str
    operation_kind: str
    verb: str
    effects: tuple[EffectShape, ...]
    """Each shape once."""

    has_too_many: bool
    """Whether there are more effects than an operation may have."""

    repeats_id: bool
    """Whether two effects have one id."""

    supersedes: bool
    in_epoch: bool
    has_parents: bool
    cites: bool
    """Whether it names sources, or has read something."""

    is_tainted: bool
    """Whether it states a taint, or a class of its output."""

    has_outputs: bool
    adjudicates: bool
    of_share_link: bool
    fires: bool
    """Whether it says that it is a fire of a binding."""

    is_implied: bool
    """Whether it says that a detector implied it."""

    overlays: bool
    """Whether any overlay is in force."""


def remaining_checks(submission: Submission) -> Checks:
    """Return the checks that may refuse an envelope, or record something with it, in order."""
    try:
        key = _key_of(submission)
        left = KEPT.get(key)
    except TypeError:  # a payload's value that cannot be a key
        return CHECKS
    if left is None:
        left = _judge(key)
    return left


KEPT: dict[tuple[Any, ...], Checks] = {}
"""The checks that are left, by the values of a shape."""


def _key_of(submission: Submission) -> tuple[Any, ...]:
    """Return the values of a `Shape`, which cost less than the shape itself."""
    envelope = submission.envelope
    effects = envelope.primitive_effects
    telling = TELLING_FIELDS.intersection
    shapes = [
        (
            effect.effect_kind,
            effect.reversibility,
            effect.inverse_operation_kind,
            effect.compensating_operation_kind,
            effect.receipt_subkind,
            (outside := effect.external_effect_descriptor) and (outside.strip() and "stated"),
            effect.undoes is not None,
            fields := telling(payload := effect.payload),
            len(payload) > len(fields),
            payload.get("node_kind"),
            payload.get("visibility_class"),
            payload.get("to_state"),
            payload.get("edge_type"),
        )
        for effect in effects
    ]
    return (
        submission.submitter,
        envelope.actor,
        envelope.operation_kind,
        envelope.semantic_intent,
        # No predicate counts effects: those of one shape are judged once, whatever their number.
        tuple(dict.fromkeys(shapes)),
        len(effects) > MAX_EFFECTS,
        len({effect.effect_id for effect in effects}) < len(effects),
        envelope.supersedes is not None,
        envelope.epoch_id is not None,
        bool(envelope.causal_parent_operation_ids),
        bool(envelope.source_refs or envelope.read_set_refs),
        bool(envelope.source_visibility_taint)
        or envelope.resolved_output_visibility_class is not None,
        bool(envelope.recorded_model_outputs),
        bool(envelope.adjudicates_receipt_ids),
        envelope.actor_session_kind == SHARE_LINK_SESSION,
        envelope.binding_fire is not None,
        envelope.implication is not None,
        submission.transaction.has_overlays(),
    )


def _judge(key: tuple[Any, ...]) -> Checks:
    shape = Shape._make(key)
    if not _is_keepable(shape):
        return CHECKS
    shape = shape._replace(effects=tuple(map(EffectShape._make, shape.effects)))
    left = tuple(
        (name, check)
        for name, check in CHECKS
        if check not in CANNOT_REFUSE or not CANNOT_REFUSE[check](shape)
    )
    if len(KEPT) >= SHAPES_MAX:
        KEPT.clear()
    KEPT[key] = left
    return left


def _is_keepable(shape: Shape) -> bool:
    """Tell whether a shape may stay in memory: few effects, names of registries, short values."""
    return (
        shape.actor in ACTORS
        and len(shape.effects) <= EFFECTS_MAX
        and shape.verb in SEMANTIC_VERBS
        and shape.operation_kind in OPERATION_KINDS
        and all(map(_is_known, map(EffectShape._make, shape.effects)))
    )


def _is_known(effect: EffectShape) -> bool:
    kinds = (effect.kind, effect.inverse, effect.compensation)
    values: tuple[object, ...] = (
        *(effect.node_kind, effect.visibility_class),
        *(effect.to_state, effect.edge_type),
    )
    return (
        effect.kind in EFFECT_KINDS
        and effect.reversibility in REVERSIBILITIES
        and all(kind is None or kind in EFFECT_KINDS for kind in kinds)
        and (effect.receipt is None or effect.receipt in RECEIPT_KINDS)
        and all(
            value is None or (isinstance(value, str) and len(value) <= _VALUE_CHARS_MAX)
            for value in values
        )
    )


def _composes(shape: Shape) -> bool:
    """V3: the effects compose the verb, and their arguments are decided by what is known."""
    if shape.has_too_many:
        return False
    names = tuple((effect.kind, effect.undoes, effect.receipt) for effect in shape.effects)
    if judge_verb(shape.verb, shape.operation_kind, names) is not None:
        return False
    rules = SEMANTIC_VERBS[shape.verb].arguments.by_kind
    kinds = {effect.kind for effect in shape.effects}
    for effect in shape.effects:
        arguments = rules.get(effect.kind)
        if arguments is None:
            continue
        known = arguments.values.keys() <= {"node_kind", "to_state", "edge_type"}
        beyond = arguments.only is not None and effect.has_others
        if not known or beyond or arguments.first_broken_field(effect.payload(), kinds) is not None:
            return False
    return True


def _grounds_nothing(shape: Shape) -> bool:
    """V6: no effect could change what an understanding rests on."""
    return not any(
        effect.undoes or may_ground(shape.verb, effect.effect()) for effect in shape.effects
    )


def _is_public(shape: Shape) -> bool:
    """V8: it is made of nothing, states no taint, and writes nodes of known classes."""
    if shape.cites or shape.is_tainted or shape.has_outputs or shape.verb == SIMULATE:
        return False
    for effect in shape.effects:
        if effect.undoes or effect.kind == RECLASSIFICATION:
            return False
        if not READING[effect.kind].keys().isdisjoint(effect.fields):
            return False
        states_class = "visibility_class" in effect.fields
        is_known = not states_class or effect.visibility_class in VISIBILITY_CLASSES
        if canonical_kind(effect.kind) == "node_write" and not is_known:
            return False
    return True


def _is_not_overlaid(shape: Shape) -> bool:
    """V9: no overlay is in force or written, none is overridden, and nothing goes outside."""
    trusted = (
        shape.submitter == "orchestrator" and shape.actor != "agent" and not shape.of_share_link
    )
    return not (shape.overlays or shape.has_outputs) and not any(
        effect.undoes
        or states_overlay(effect.effect())
        or (effect.receipt == OVERRIDE and not trusted)
        or goes_outside(effect.effect())
        for effect in shape.effects
    )


def _is_classified(shape: Shape) -> bool:
    """V10: each effect says how it can be undone, as the registry does for what is known of it."""
    return not shape.repeats_id and not any(
        canonical_kind(effect.kind) == "membership_state_transition"
        or (EFFECT_KINDS[effect.kind].overrides and effect.node_kind is None)
        or check_effect(effect.effect(), effect.node_kind, "") is not None
        for effect in shape.effects
    )


CANNOT_REFUSE: Mapping[Check, Callable[[Shape], bool]] = MappingProxyType(
    {
        check_actor: lambda shape: shape.submitter == "orchestrator" and not shape.supersedes,
        check_operation_id: lambda shape: shape.submitter == "orchestrator",
        check_derived_names: lambda shape: (
            shape.submitter == "orchestrator" and not shape.supersedes
        ),
        check_model_outputs: lambda shape: not shape.has_outputs,
        check_supersession: lambda shape: not shape.supersedes,
        check_verb: _composes,
        check_bindings: lambda shape: (
            shape.verb != CREATE and not any(effect.kind == ADVANCE for effect in shape.effects)
        ),
        check_fires: lambda shape: (
            not shape.fires
            and not any(effect.receipt == MANIFEST_RECEIPT for effect in shape.effects)
        ),
        check_extractions: lambda shape: (
            not any(effect.kind == EXTRACTION_STEP for effect in shape.effects)
        ),
        check_cascade: lambda shape: shape.verb not in TAKING_VERBS,
        check_epoch: lambda shape: (
            not shape.in_epoch and shape.verb not in (EPOCH_OPEN, EPOCH_CLOSE)
        ),
        check_causality: lambda shape: shape.supersedes or not shape.has_parents,
        check_implication: lambda shape: not shape.is_implied,
        check_source_spans: _grounds_nothing,
        check_outcomes: lambda shape: (
            not any(effect.kind in JUDGED_KINDS for effect in shape.effects)
        ),
        check_isolation: lambda shape: shape.submitter == "orchestrator" and not shape.has_outputs,
        check_taint: _is_public,
        check_overlays: _is_not_overlaid,
        check_reversibility: _is_classified,
        check_inverse: lambda shape: not any(effect.undoes for effect in shape.effects),
        check_conflicts: lambda shape: (
            not shape.adjudicates
            and (
                shape.supersedes
                or shape.verb in COMPUTED
                or not any(is_compared(effect.kind) for effect in shape.effects)
            )
        ),
    }
)
"""By check: whether it passes every envelope of a shape.

Times, keys, scopes, the policy and capacity are asked of each envelope.
"""
