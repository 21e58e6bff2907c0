"""The priorities of work: what each queue calls them, and on which capacity they draw.

Three share capacity (§14.2). A queue has names of its own, each of which draws as one of the three.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

CapacityPriority = Literal["background", "user_initiated", "critical"]

CAPACITY_PRIORITIES: Final[tuple[CapacityPriority, ...]] = (
    "background",
    "user_initiated",
    "critical",
)
"""The capacity priorities of §14.2, the least first."""

PRIORITIES_OF: Final[Mapping[str, Mapping[str, CapacityPriority]]] = MappingProxyType(
    {
        # §8.3
        "authority-recompute": {
            "user_initiated_critical": "critical",
            "user_active_session": "user_initiated",
            "high_access_frequency": "user_initiated",
            "background_normal": "background",
            "background_low_priority": "background",
        },
        # §14.2
        "binding-evaluation": {
            "critical": "critical",
            "user_initiated": "user_initiated",
            "background": "background",
        },
        # A person's reentry or cancellation, the work of an ingest, the sweeps.
        "extraction-transition": {
            "user_initiated": "user_initiated",
            "normal": "user_initiated",
            "background": "background",
        },
    }
)
"""The priorities of each queue, the most urgent first; a name means the same in every queue."""

_CAPACITY_PRIORITY_OF: Final[Mapping[str, CapacityPriority]] = MappingProxyType(
    {name: capacity for names in PRIORITIES_OF.values() for name, capacity in names.items()}
)


def capacity_priority_of(priority: str) -> CapacityPriority:
    """Return as which of the three a priority of any queue draws; an unknown one is background."""
    return _CAPACITY_PRIORITY_OF.get(priority, "background")
