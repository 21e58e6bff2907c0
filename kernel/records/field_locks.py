"""Refuses writes of locked fields of a node, but by `metadata_field_override` (§4.3).

A lock is extended by whoever may write the node, and taken off by `metadata_field_override` alone,
whose receipt says so (INV-J-METADATA-LOCK-1).
"""

from kernel.algebra.arguments import FIELD_LOCK
from kernel.ledger.ledger import Document
from kernel.model.authority_fields import COMPUTED_FIELDS
from kernel.records.record import Operation
from kernel.values.errors import EffectInapplicable

OVERRIDE = "metadata_field_override"

_NEVER_LOCKED = frozenset({*COMPUTED_FIELDS, "node_kind", "visibility_class"})
"""A kind never changes and a class never falls, locked or not, and neither is a field of a payload;
the computed fields are written by `recalculate_authority` alone."""

_LOCKED_MAX = 256
_NAME_MAX = 512


def check_unlocked(before: Document, fields: Document, operation: Operation) -> None:
    """Refuse a write of a locked field, and one that shrinks the lock."""
    locked = before.get(FIELD_LOCK)
    if not isinstance(locked, list) or not locked or operation.semantic_intent == OVERRIDE:
        return
    for name in fields:
        if name == FIELD_LOCK:
            stays = isinstance(fields[name], list) and all(
                value in fields[name] for value in locked
            )
            refused = name in locked or not stays
        else:
            refused = name in locked
        if refused:
            raise EffectInapplicable(
                f"{name} is locked", code="metadata_field_locked", field=f"payload.{name}"
            )


def check_lock(after: Document, stated: Document) -> None:
    """Refuse a lock that is no list of fields, or that names a field which no lock binds."""
    if FIELD_LOCK not in stated:
        return
    locked = after[FIELD_LOCK]
    are_names = (
        isinstance(locked, list) and len(locked) <= _LOCKED_MAX and all(map(_is_name, locked))
    )
    if not are_names or not frozenset(locked).isdisjoint(_NEVER_LOCKED):
        raise EffectInapplicable(
            f"field_lock is a list of at most {_LOCKED_MAX} names of fields,"
            f" none of them of {', '.join(sorted(_NEVER_LOCKED))}",
            code="field_lock_invalid",
            field=f"payload.{FIELD_LOCK}",
        )


def changed_fields(before: Document, after: Document) -> Document:
    """Return the fields of a payload that differ from the one before."""
    names = before | after
    return {name: after.get(name) for name in names if before.get(name) != after.get(name)}


def _is_name(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name) <= _NAME_MAX
