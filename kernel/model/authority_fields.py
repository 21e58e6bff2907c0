"""Reads the fields of a node from which follows when an authority is computed (§8.2, §8.5)."""

from collections.abc import Mapping
from typing import Any

from kernel.values.host import parse_time_us

COMPUTED_FIELDS = (
    "cu_authority",
    "cu_authority_computed_at",
    "cu_authority_input_versions",
    "cu_authority_inputs",
)
"""What `recalculate_authority` alone writes."""

EAGER = "eager_on_parent_update"
"""The default: every change of an input asks for a recompute."""

NIGHTLY = "scheduled_nightly_only"
"""Only the nightly tick asks, and whoever asks by name."""

LAZY = "lazy_on_query"
"""The strategy of earlier versions, which is refused."""


def waits_for_the_tick(payload: Mapping[str, Any]) -> bool:
    """Tell whether an understanding waits for the nightly tick."""
    return payload.get("cu_authority_strategy") == NIGHTLY


def last_decay_us(payload: Mapping[str, Any]) -> int | None:
    """Return when what feeds an authority last decayed, by its `last_decay_at`.

    Raises:
        ValueError: when that is not a time.
    """
    stated = payload.get("last_decay_at")
    if stated is None:
        return None
    if not isinstance(stated, str):
        raise ValueError("not a text")  # noqa: TRY004 - the same to whoever asks
    return parse_time_us(stated)
