"""Orders clearances: up to which visibility class somebody reads (§7.2, §12.1, K35).

The classes are a lattice in one line, so a clearance is the most restrictive class that may be
read. `everything` is above them: no overlay limits who has it.
"""

from collections.abc import Iterable
from typing import Final, Literal, get_args

from kernel.values.visibility import LEAST_RESTRICTIVE

Clearance = Literal["public_open", "work_product_internal", "firewalled", "sealed", "everything"]
CLEARANCES: Final[tuple[str, ...]] = get_args(Clearance)
"""The classes in their order, and above them everything."""

EVERY_CLASS: Final = "everything"

LOWEST_CLEARANCE: Final = LEAST_RESTRICTIVE


def widest_clearance(clearances: Iterable[str]) -> str:
    """Return the clearance by which most is read, the lowest where there is none."""
    return max(clearances, key=CLEARANCES.index, default=LOWEST_CLEARANCE)
