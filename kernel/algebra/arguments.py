"""Bounds what a verb's effects may state, beside which kinds they are (§3.3, §3.6, §4.3).

A table by verb and canonical kind. V3 judges it: a name such as `corpus_membership_reject` would
else stand in the log over an effect that confirms. The store judges what depends on the state: from
where a node is restored, which fields are locked.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from kernel.algebra.effects import EFFECT_KINDS

FIELD_LOCK = "field_lock"
"""The field of a node that names its locked fields."""

NODE_COLUMNS = frozenset({"node_kind", "visibility_class"})
"""What every write of a node may state: its own rules bind it under every verb."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """What the payload of an effect of one kind may hold under one verb."""

    values: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))
    """Fields that are stated, each with one of these values."""

    defaults: frozenset[str] = frozenset()
    """Fields of `values` that may be left out: the store's default is among the values."""

    stated: frozenset[str] = frozenset()
    """Fields that are stated, whatever their value."""

    only: frozenset[str] | None = None
    """Where it is stated: the only fields, beside those of every node."""

    never: frozenset[str] = frozenset()
    """Fields that this verb does not write."""

    beside: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Fields that are written only beside an effect of a kind, by its name."""

    def first_broken_field(
        self, payload: Mapping[str, Any], kinds: Collection[str] = ()
    ) -> str | None:
        """Return the first field, by name, that breaks a rule; None where the payload fits.

        `kinds` are those of all the operation's effects.
        """
        broken = {name for name in self.stated if name not in payload}
        broken |= {
            name for name, kind in self.beside.items() if name in payload and kind not in kinds
        }
        broken |= self.never & payload.keys()
        if self.only is not None:
            broken |= payload.keys() - self.only - NODE_COLUMNS
        for name, admitted in self.values.items():
            if name not in payload:
                if name not in self.defaults:
                    broken.add(name)
            elif not isinstance(payload[name], str) or payload[name] not in admitted:
                broken.add(name)
        return min(broken, default=None)


@dataclass(frozen=True, slots=True)
class VerbArguments:
    """What one verb says of its effects' payloads and of the receipts that it states."""

    by_kind: Mapping[str, Arguments] = field(default_factory=lambda: MappingProxyType({}))
    """The arguments of each effect kind, by its name."""

    receipts: frozenset[str] = frozenset()
    """Of these receipts it states one at least; a receipt that names no kind has the verb's."""

    def admits_receipt(self, kind: str) -> bool:
        """Tell whether the verb may state a receipt: one that is no other verb's own."""
        return kind in self.receipts or kind not in _OWNED_RECEIPTS


def _one_of(*values: str) -> frozenset[str]:
    return frozenset(values)


def _moves_to(state: str) -> Arguments:
    """Return the rules of a node write that only sets the node's state, and may say why."""
    return Arguments({"state": _one_of(state)}, only=_one_of("state", "reason"))


def _edges(edge_type: str) -> dict[str, Arguments]:
    """Return the rules of edges of one type: stated at creation, optional at a change."""
    creating = Arguments({"edge_type": _one_of(edge_type)})
    changing = Arguments(creating.values, defaults=_one_of("edge_type"))
    return {
        "edge_write": creating,
        "edge_create": creating,
        "attach_source_binding": creating,
        "edge_reclassify": changing,
    }


def _memberships(*states: str) -> dict[str, Arguments]:
    """Return the rules of memberships that go to these states, by default to candidate."""
    values = {"to_state": _one_of(*states)}
    defaults = _one_of("to_state") if "candidate" in states else frozenset()
    arguments = {"membership_write": Arguments(values, defaults)}
    for name, kind in EFFECT_KINDS.items():
        if kind.canonical == "membership_state_transition":
            arguments[name] = Arguments(values)
    return arguments


_STATE = "state"
"""The field by which a disposition moves a node; under any other verb it would move nothing."""

_MOVES_NO_STATE = Arguments(never=_one_of(FIELD_LOCK, _STATE))

_BINDING = _one_of("SourceBinding")
_NEW_GENERATION = "binding_generation_advance"

BINDING_MEANING = _one_of(
    "selector_list", "target_kind", "corpus_id", "priority", "resource_policy"
)
"""What a binding means, which stands in the snapshot of a generation and not in the node."""

_RULES: Mapping[str, Mapping[str, Arguments]] = {
    "create": _memberships("candidate"),
    # Two nodes become one, or one two, by writing what is left and by retracting what is not.
    "merge": {"node_write": _MOVES_NO_STATE},
    "split": {"node_write": _MOVES_NO_STATE},
    "supersede": _edges("supersedes"),
    "mark_contested": _edges("contradicts"),
    "mark_chain_complete": _edges("chain_complete"),
    # What hangs on a node goes with it, and comes back with it.
    "collapse": {"node_write": _moves_to("retracted"), **_memberships("rejected", "soft_deleted")},
    "retract": {"node_write": _moves_to("retracted"), **_memberships("rejected", "soft_deleted")},
    "soft_delete": {
        "node_write": _moves_to("soft_deleted"),
        **_memberships("rejected", "soft_deleted"),
    },
    "restore": {"node_write": _moves_to("active"), **_memberships("candidate", "confirmed")},
    "field_lock": {"node_write": Arguments(stated=_one_of(FIELD_LOCK), only=_one_of(FIELD_LOCK))},
    "corpus_membership_add": _memberships("candidate"),
    "corpus_membership_confirm": _memberships("confirmed"),
    "corpus_membership_reject": _memberships("rejected"),
    "corpus_membership_defer": _memberships("candidate"),
    "topic_assign": _memberships("candidate", "confirmed"),
    # A binding waits for its intake, in its first generation (§13.2, §15.3).
    "source_binding_create": {
        "node_write": Arguments(
            {"node_kind": _BINDING, "lifecycle_state": _one_of("pending_intake")},
            defaults=_one_of("lifecycle_state"),
            never=_MOVES_NO_STATE.never | BINDING_MEANING,
        ),
        _NEW_GENERATION: Arguments({"binding_generation_id": _one_of("1")}),
    },
    # Enabling a binding again is a generation; disabling it is another verb's (§13.2, §15.3).
    "source_binding_update": {
        "node_write": Arguments(
            {"node_kind": _BINDING, _STATE: _one_of("active")},
            defaults=_one_of("node_kind", _STATE),
            never=_one_of(FIELD_LOCK, "lifecycle_state") | BINDING_MEANING,
            beside={_STATE: _NEW_GENERATION},
        ),
    },
    "source_binding_disable": {"node_write": _moves_to("disabled")},
    "profile_assign": {"node_write": Arguments(stated=_one_of("profile"), only=_one_of("profile"))},
}

_WRITES_LOCKS = _one_of("create", "field_lock", "metadata_field_override")
"""Verbs that may write which fields of a node are locked."""

_RECEIPTS: Mapping[str, frozenset[str]] = {
    "binding_fire_record": _one_of("binding_fire_record", "binding_evaluation_manifest"),
    "search_run_record": _one_of("search_run_record"),
    "profile_assign": _one_of("profile_assign"),
    "metadata_field_override": _one_of("metadata_field_override"),
}
"""Verbs whose meaning is in a receipt of their own: no other receipt stands for it."""

_OWNED_RECEIPTS = frozenset(kind for kinds in _RECEIPTS.values() for kind in kinds)

_LOCKS_ARE_OTHERS = Arguments(never=_one_of(FIELD_LOCK))


def arguments_of(verb: str) -> VerbArguments:
    """Return the rules of a verb; computed once for each, when the registry is made."""
    rules = dict(_RULES.get(verb, {}))
    if verb not in _WRITES_LOCKS:
        for kind in ("node_write", "node_retract", "node_revert_to_prior_authority"):
            rules.setdefault(kind, _LOCKS_ARE_OTHERS)
    return VerbArguments(MappingProxyType(rules), _RECEIPTS.get(verb, frozenset()))
