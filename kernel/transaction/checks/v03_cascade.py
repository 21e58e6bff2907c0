"""V3: what takes a node takes what hangs on it, and says so effect by effect (§3.3, §4.3.1).

`retract`, `soft_delete` and `collapse` are a node write and a cascade. The cascade is stated: each
active edge of the node is removed and each standing membership rejected or soft-deleted by an
effect of the same operation, so that overlays, conflicts, the log and undoing see every one of
them. What is left out is named, so that it can be added. At most as much may hang on the nodes as
an operation has effects; where it is more, edges are removed before (decision kernel/0238).
"""

from collections.abc import Iterable

from kernel.algebra.effects import EFFECT_KINDS, MAKING_EDGES
from kernel.ledger.ledger import LedgerView
from kernel.model.envelope import MAX_EFFECTS, Envelope, KernelEffect
from kernel.transaction.checks.check import Refusal, Submission, Verdict

TAKING_VERBS = frozenset({"retract", "soft_delete", "collapse"})

_TAKING = frozenset({"node_write", "node_retract"})
"""Effects that take a node, whose state these verbs hold to retracted or soft-deleted."""

_REMOVING_EDGES = frozenset({"edge_remove", "detach_source_binding"})
_MEMBERSHIPS = frozenset({"membership_write", "membership_state_transition"})

NAMED_MAX = 64
"""Refs that a refusal names."""


def check(submission: Submission) -> Verdict:
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
    stated = _stated(envelope)
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


def _stated(envelope: Envelope) -> set[str]:
    """Return the edges and memberships that an envelope takes away."""
    stated = set()
    for effect in envelope.primitive_effects:
        if effect.effect_kind in _REMOVING_EDGES:
            stated.add(str(effect.target_ref))
        elif EFFECT_KINDS[effect.effect_kind].canonical in _MEMBERSHIPS:
            stated.add(f"{effect.payload.get('corpus_id')}|{effect.target_ref}")
    return stated
