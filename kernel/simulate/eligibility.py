"""Judges whether an operation may be simulated at all (§11.4): by its kind and its effects.

Judged on the document as it came, because the answer must not depend on the rest of it being well
formed.
"""

from typing import Any

from kernel.algebra.effects import EFFECT_KINDS
from kernel.algebra.simulation_support import NOT_SIMULATABLE, simulation_support_level
from kernel.model.receipt import Receipt

STATED_MAX = 512

NOT_SUPPORTED = "simulation_not_supported_for_operation_kind"


def ineligible(document: object) -> Receipt | None:
    """Return the receipt of an operation that cannot be simulated, None for one that can."""
    known = document if isinstance(document, dict) else {}
    kind = repeatable(known.get("operation_kind"))
    if simulation_support_level(kind) == NOT_SIMULATABLE:
        reason = "operation_kind_marked_not_simulatable_v1_6"
    elif _has_untyped_effect(known.get("primitive_effects")):
        reason = "operation_has_untyped_effects"
    else:
        return None
    body = {
        "operation_kind": kind,
        "reason": reason,
        "reason_code": reason,
        "operation_to_simulate": repeatable(known.get("operation_id")),
    }
    return Receipt(NOT_SUPPORTED, body)


def repeatable(value: Any) -> str:
    """Return a text that a receipt can hold, an empty one for what it cannot."""
    if type(value) is not str or len(value) > STATED_MAX:
        return ""
    try:
        value.encode()
    except UnicodeEncodeError:
        return ""
    return value


def _has_untyped_effect(effects: object) -> bool:
    """An effect is typed when its kind is in the registry (§11.4)."""
    if not isinstance(effects, list):
        return True
    for effect in effects:
        kind = effect.get("effect_kind") if isinstance(effect, dict) else None
        if not isinstance(kind, str) or kind not in EFFECT_KINDS:
            return True
    return False
