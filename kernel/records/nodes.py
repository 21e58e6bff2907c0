"""Keeps graph nodes: a payload of fields under an id, with a state and a visibility class (§4.3.1).

A create writes a node that was not there. Every other write merges its fields into the payload
that is there. A visibility class rises, whatever becomes of the sources, and is stated no lower
than that of a source; a visibility_change alone lowers it, down to the sources' (INV-PROV-TAINT-1).
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from kernel.algebra.arguments import FIELD_LOCK
from kernel.ledger import schema
from kernel.ledger.ledger import Document
from kernel.model.authority_fields import COMPUTED_FIELDS, EAGER, LAZY, NIGHTLY, last_decay_us
from kernel.model.bindings.artifacts import COMPLETED_PHASES, PhaseRefused, check_completed
from kernel.model.envelope import KernelEffect
from kernel.model.node_kinds import CLAIM, SOURCE_ARTIFACT, SOURCE_BINDING, UNDERSTANDING
from kernel.records.comparison import Comparison, SameThing
from kernel.records.field_locks import changed_fields, check_lock, check_unlocked
from kernel.records.node_dispositions import DISPOSITIONS, Dispose, raise_visibility
from kernel.records.record import Applied, Operation, write_record
from kernel.records.typed import stamp
from kernel.values.errors import EffectInapplicable
from kernel.values.spans import sources_in
from kernel.values.visibility import LEAST_RESTRICTIVE, is_lowered

_AUTHORITY_FIELDS = {CLAIM: ("authority",), UNDERSTANDING: ("override_authority",)}
"""The fields that feed an authority, by node kind: a number from 0 to 1, or null."""

_JUDGED_FIELDS = frozenset(
    {
        *(COMPLETED_PHASES, FIELD_LOCK, "identity_key", "cu_authority_strategy", "last_decay_at"),
        *COMPUTED_FIELDS,
        *(name for names in _AUTHORITY_FIELDS.values() for name in names),
    }
)
"""Fields of a payload that may hold only what they are for, or only under some verb."""

_MAY_CREATE = frozenset({"merge", "split", "supersede", "source_binding_create"})
"""Verbs that write a node that is there, or one that is new."""

_RETRACTABLE = frozenset({"active", "soft_deleted", "retracted"})

_Move = tuple[str, frozenset[str]]

_MOVE_OF_VERB: Mapping[str, _Move] = MappingProxyType(
    {
        "retract": ("retracted", _RETRACTABLE),
        "collapse": ("retracted", _RETRACTABLE),
        "soft_delete": ("soft_deleted", frozenset({"active", "soft_deleted"})),
        "restore": ("active", frozenset({"soft_deleted", "retracted"})),
        "source_binding_disable": ("disabled", frozenset({"active", "disabled"})),
    }
)
"""The state to which a node_write of a verb leads, and those from which it does (§3.3).

A quarantine ends by its own compensation alone: a node that could be retracted out of one could be
restored out of it (decision kernel/0201). Under other verbs `state` is a field like others.
"""

_MOVE_WHERE_STATED: Mapping[str, _Move] = MappingProxyType(
    {"source_binding_update": ("active", frozenset({"active", "disabled"}))}
)
"""The same for verbs that move a node only where the effect states a state (§13.2)."""

_BINDING_VERBS = frozenset(
    {"source_binding_create", "source_binding_update", "source_binding_disable"}
)
"""The verbs that write bindings and nothing else; no other verb writes one."""

_COMPARED_KINDS = frozenset(
    {"node_write", "node_retract", "rescope", "review_disposition", "quarantine", "unquarantine"}
)
_NOT_COMPARED = frozenset({"node_kind", "visibility_class", "merge_provenance"})


def _comparable_fields(kind: str, payload: Document) -> Document | None:
    if kind not in _COMPARED_KINDS:
        return None
    return {name: value for name, value in payload.items() if name not in _NOT_COMPARED}


COMPARISON = Comparison(
    _comparable_fields,
    lambda record: dict(record["payload"]),
    same_thing=SameThing("identity_key", lambda fields: fields.get("identity_key")),
)

_KEY_MAX = 512


def apply_node_write(effect: KernelEffect, operation: Operation) -> Applied:
    """Create or change a node, or set its state to retracted."""
    return _write(effect, operation, DISPOSITIONS.get(effect.effect_kind))


def apply_node_write_1(effect: KernelEffect, operation: Operation) -> Applied:
    """Do the same where a visibility_change never lowers a class, as in version 1 of the rules."""
    dispose = DISPOSITIONS.get(effect.effect_kind)
    if effect.effect_kind == "visibility_change":
        dispose = raise_visibility
    return _write(effect, operation, dispose)


def _write(effect: KernelEffect, operation: Operation, dispose: Dispose | None) -> Applied:
    node_id = _target(effect)
    before = operation.transaction.node(node_id)
    creates = operation.semantic_intent == "create"
    if dispose is not None:
        record = _node_after_disposition(dispose, effect, operation, before)
        if effect.effect_kind == "visibility_change":
            check_provenance(record, sources_in(record["payload"]), operation)
        return write_record(operation, schema.nodes, node_id, record)
    if before is None:
        if not creates and operation.semantic_intent not in _MAY_CREATE:
            raise EffectInapplicable(
                f"no node {node_id}", code="node_not_found", field="target_ref"
            )
        record = _new_record(effect, operation, node_id)
        check_provenance(record, sources_in(record["payload"]), operation)
    else:
        if creates:
            raise EffectInapplicable(
                f"node {node_id} exists", code="node_already_exists", field="target_ref"
            )
        record = _update_record(effect, operation, before)
        known = sources_in(before["payload"])
        added = [ref for ref in sources_in(record["payload"]) if ref not in known]
        check_provenance(record, added, operation)
    _check_binding(record["node_kind"], operation)
    if not _JUDGED_FIELDS.isdisjoint(effect.payload):
        _check_fields(effect, operation, before, record)
    return write_record(operation, schema.nodes, node_id, record)


def _check_fields(
    effect: KernelEffect, operation: Operation, before: Document | None, record: Document
) -> None:
    """Refuse a field of `_JUDGED_FIELDS` that is not what it may be."""
    _check_phases(effect, before, record)
    _check_computed(effect, operation)
    check_lock(record["payload"], effect.payload)
    _check_identity(effect.payload)
    _check_authorities(record["node_kind"], effect.payload)
    _check_strategy(record["node_kind"], effect.payload)
    _check_decay(effect.payload)


def _node_after_disposition(
    dispose: Dispose,
    effect: KernelEffect,
    operation: Operation,
    before: Document | None,
) -> Document:
    if before is None:
        raise EffectInapplicable(
            f"no node {effect.target_ref}", code="node_not_found", field="target_ref"
        )
    after = dispose(before, effect.payload)
    check_unlocked(
        before["payload"], changed_fields(before["payload"], after["payload"]), operation
    )
    return {**after, "version": before["version"] + 1, **stamp(operation)}


def _new_record(effect: KernelEffect, operation: Operation, node_id: str) -> Document:
    payload = dict(effect.payload)
    node_kind = payload.pop("node_kind", None)
    if not isinstance(node_kind, str) or not node_kind:
        raise EffectInapplicable(
            "a new node needs a kind", code="node_kind_missing", field="payload.node_kind"
        )
    return {
        "node_id": node_id,
        "node_kind": node_kind,
        "state": "active",
        "visibility_class": payload.pop("visibility_class", LEAST_RESTRICTIVE),
        "version": 1,
        "payload": payload,
        "created_by_operation_id": operation.operation_id,
        "updated_by_operation_id": operation.operation_id,
        "updated_at": operation.applied_at,
    }


def _update_record(effect: KernelEffect, operation: Operation, before: Document) -> Document:
    fields = dict(effect.payload)
    if fields.pop("node_kind", before["node_kind"]) != before["node_kind"]:
        raise EffectInapplicable(
            "a node keeps its kind", code="node_kind_changed", field="payload.node_kind"
        )
    visibility = fields.pop("visibility_class", before["visibility_class"])
    if is_lowered(before["visibility_class"], visibility):
        raise EffectInapplicable(
            f"{before['visibility_class']} cannot become {visibility}",
            code="visibility_class_lowered",
            field="payload.visibility_class",
        )
    state = _state_after(effect, operation, before["state"])
    if operation.semantic_intent in (*_MOVE_OF_VERB, *_MOVE_WHERE_STATED):
        fields.pop("state", None)
    check_unlocked(before["payload"], fields, operation)
    record = {
        **before,
        "state": state,
        "visibility_class": visibility,
        "version": before["version"] + 1,
        "payload": {**before["payload"], **fields},
        "updated_by_operation_id": operation.operation_id,
        "updated_at": operation.applied_at,
    }
    record.pop("retracted_by_operation_id", None)
    if state == "retracted":
        record["retracted_by_operation_id"] = operation.operation_id
    return record


def _state_after(effect: KernelEffect, operation: Operation, state: str) -> str:
    """Return the state to which a write leads, which is the same under most verbs."""
    verb = operation.semantic_intent
    move = _MOVE_OF_VERB.get(verb)
    if move is None and "state" in effect.payload:
        move = _MOVE_WHERE_STATED.get(verb)
    to_state, from_states = (state, None) if move is None else move
    stated = effect.payload.get("state", to_state)
    if effect.effect_kind == "node_retract":
        to_state, from_states, stated = "retracted", _RETRACTABLE, "retracted"
    if from_states is not None and (stated != to_state or state not in from_states):
        raise EffectInapplicable(
            f"{operation.semantic_intent} does not make a node that is {state} {stated}",
            code="node_state_disallowed",
            field="payload.state",
        )
    return to_state


def check_provenance(record: Document, sources: Iterable[str], operation: Operation) -> None:
    """Refuse a class below that of a source; a source that is no longer named keeps its effect."""
    for ref in sources:
        source = operation.transaction.node(ref)
        if source is not None and is_lowered(
            source["visibility_class"], record["visibility_class"]
        ):
            raise EffectInapplicable(
                f"{ref} is {source['visibility_class']}, what is drawn from it is no less",
                code="visibility_class_lowered",
                field="payload.visibility_class",
            )


def _check_computed(effect: KernelEffect, operation: Operation) -> None:
    if operation.semantic_intent == "recalculate_authority":
        return
    for name in COMPUTED_FIELDS:
        if name in effect.payload:
            raise EffectInapplicable(
                f"{name} is written by recalculate_authority alone",
                code="computed_field_written",
                field=f"payload.{name}",
            )


def _check_binding(node_kind: str, operation: Operation) -> None:
    """Refuse to write a binding under a verb that does not say so, or anything else under one."""
    if (node_kind == SOURCE_BINDING) != (operation.semantic_intent in _BINDING_VERBS):
        raise EffectInapplicable(
            f"{operation.semantic_intent} does not write a {node_kind}",
            code="binding_verb_required",
            field="semantic_intent",
        )


def _check_phases(effect: KernelEffect, before: Document | None, record: Document) -> None:
    if record["node_kind"] != SOURCE_ARTIFACT or COMPLETED_PHASES not in effect.payload:
        return
    try:
        check_completed(before, record)
    except PhaseRefused as refused:
        place = ".".join(filter(None, ("payload", COMPLETED_PHASES, refused.field)))
        raise EffectInapplicable(str(refused), code=refused.code, field=place) from None


def _check_identity(fields: Document) -> None:
    identity = fields.get("identity_key")
    if identity is not None and not (isinstance(identity, str) and 0 < len(identity) <= _KEY_MAX):
        raise EffectInapplicable(
            f"identity_key is a text of 1 to {_KEY_MAX} characters",
            code="identity_key_invalid",
            field="payload.identity_key",
        )


def _check_authorities(node_kind: str, fields: Document) -> None:
    for name in _AUTHORITY_FIELDS.get(node_kind, ()):
        value = fields.get(name, 0)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and not (number and 0 <= value <= 1):
            raise EffectInapplicable(
                f"{name} is a number from 0 to 1",
                code="authority_out_of_range",
                field=f"payload.{name}",
            )


def _check_strategy(node_kind: str, fields: Document) -> None:
    """Refuse a strategy that would compute an authority on reading (INV-A-AUTHORITY-EAGER-1)."""
    strategy = fields.get("cu_authority_strategy", EAGER)
    if node_kind != UNDERSTANDING or strategy in (EAGER, NIGHTLY):
        return
    field = "payload.cu_authority_strategy"
    if strategy == LAZY:
        raise EffectInapplicable(
            "an authority is never computed on reading",
            code="cu_authority_strategy_non_conformant",
            field=field,
        )
    raise EffectInapplicable(
        f"a strategy is {EAGER} or {NIGHTLY}", code="cu_authority_strategy_invalid", field=field
    )


def _check_decay(fields: Document) -> None:
    try:
        last_decay_us(fields)
    except ValueError:
        raise EffectInapplicable(
            "last_decay_at is an ISO 8601 time that names its offset",
            code="last_decay_at_invalid",
            field="payload.last_decay_at",
        ) from None


def _target(effect: KernelEffect) -> str:
    if effect.target_ref is None:
        raise EffectInapplicable(
            "a node effect names its node", code="effect_target_missing", field="target_ref"
        )
    return effect.target_ref
