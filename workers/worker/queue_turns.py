"""Picks the queue that a slot drains next.

The earliest deadline over all queues goes first: time makes everything urgent. A queue whose
deadlines are all long past could keep the others waiting for as long as it is behind, so every
fourth turn goes to the queue that was served longest ago. Such a turn does not believe that a queue
is empty, because an undecodable item at its head may hide what is behind it.
"""

from collections.abc import Mapping

FAIR_EVERY = 4
"""One turn of this many ignores the deadlines."""


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
    """Tell whether a turn goes to the queue that was served longest ago."""
    return turn % FAIR_EVERY == 0
