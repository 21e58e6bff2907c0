"""Whose turn it is among the queues that a slot drains.

The earliest deadline goes first, over all queues: time makes everything urgent. A queue whose
deadlines are all long past could keep the others waiting for as long as it is behind, so every few
turns go to whoever was served longest ago.
"""

from collections.abc import Mapping

FAIR_EVERY = 4
"""One turn of so many does not ask for deadlines."""


def turn_order(
    deadlines: Mapping[str, int | None], last_served: Mapping[str, int], turn: int
) -> list[str]:
    """Return the queues in the order in which to try them; those with nothing ready come last.

    Args:
        deadlines: by queue, of what it would serve next; None where nothing is ready.
        last_served: by queue, the turn in which it was served.
        turn: the number of this one.
    """
    fair = turn % FAIR_EVERY == 0

    def place(name: str) -> tuple[bool, int, int]:
        deadline, served = deadlines[name], last_served.get(name, -1)
        if fair or deadline is None:
            return deadline is None, served, 0
        return False, deadline, served

    return sorted(deadlines, key=place)
