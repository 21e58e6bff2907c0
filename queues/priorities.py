"""The five priorities of authority work, most urgent first.

An item's deadline is the moment it was asked for plus the service target of its priority, and
the earliest deadline is served first: no priority starves, for time makes every item urgent.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Priority:
    """A row of the table."""

    name: str
    rank: int
    """0 is the most urgent; also the number of the ready set."""
    service_target_ms: int


_SECOND_MS: Final = 1_000
_MINUTE_MS: Final = 60 * _SECOND_MS
_HOUR_MS: Final = 60 * _MINUTE_MS

PRIORITIES: Final[tuple[Priority, ...]] = (
    Priority("user_initiated_critical", 0, 5 * _SECOND_MS),
    Priority("user_active_session", 1, 30 * _SECOND_MS),
    Priority("high_access_frequency", 2, 5 * _MINUTE_MS),
    Priority("background_normal", 3, _HOUR_MS),
    # Best effort; the deadline only keeps it from waiting for ever.
    Priority("background_low_priority", 4, 24 * _HOUR_MS),
)

PRIORITY_BY_NAME: Final[dict[str, Priority]] = {row.name: row for row in PRIORITIES}
