"""Whose turn it is among the queues that a slot drains.

The earliest deadline goes first, over all queues: time makes everything urgent. A queue whose
deadlines are all long past could keep the others waiting for as long as it is behind, so every few
turns go to whoever was served longest ago. Such a turn does not believe that a queue is empty:
what stands at its head in Redis, and hides what is behind, may be nothing that can be read.
"""

from collections.abc import Mapping

FAIR_EVERY = 4
"""One turn of so many does not ask for deadlines."""


def turn_order(
    deadlines: Mapping[str, int | None], last_served: Mapping[str, int], turn: int
) -> list[str]:
    """Return the queues in the order in which to try them.

    Args:
        deadlines: by queue, of what it would serve next; None where nothing is ready, which comes
            last unless the turn is fair.
        last_served: by queue, the turn in which it was served.
        turn: the number of this one.
    """
    if is_fair(turn):
        return sorted(deadlines, key=lambda name: last_served.get(name, -1))

    def place(name: str) -> tuple[bool, int, int]:
        deadline, served = deadlines[name], last_served.get(name, -1)
        return deadline is None, deadline or 0, served

    return sorted(deadlines, key=place)


def is_fair(turn: int) -> bool:
    """Tell whether a turn goes to whoever was served longest ago, whatever the deadlines."""
    return turn % FAIR_EVERY == 0
