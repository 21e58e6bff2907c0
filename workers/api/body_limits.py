"""How large the body of each route may be: its bytes, its values, its objects and arrays.

Reading JSON is one call that keeps the interpreter to itself, at worst for as long as these limits
allow. So the values of a body are counted in its bytes before it is read (413,
`request_too_large`). A text costs what its length is; a value costs as much as a hundred
characters, an object or an array far more. Lengths of lists and texts are limited as the OpenAPI
document states them, and an envelope nests 32 levels deep at most (a receipt of V1).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kernel.belief.limits import MAX_HYPOTHESES
from kernel.model.envelope import MAX_ENVELOPE_BYTES

MAX_BODY_BYTES = 8 << 20
"""Bytes of any body."""


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """The limits of one body."""

    body_bytes: int = MAX_BODY_BYTES
    values: int = 300_000
    """Values of every kind, counted as commas, brackets and braces outside texts."""

    containers: int = 100_000
    """Objects and arrays."""


BULK = BodyLimits()
UNIVERSE = BodyLimits(values=MAX_HYPOTHESES + 100_000)
"""Limits of a route that takes as many ids as a session may have hypotheses."""

INTENTS = BodyLimits(containers=12_000)
"""As many spans as one understanding may rest on, or inputs; each becomes a model, all at once.

A worker whose batch is larger sends it in halves.
"""

ENVELOPE = BodyLimits(body_bytes=2 * MAX_ENVELOPE_BYTES)
"""Twice the limit of an envelope's canonical form, so that blanks and escapes have room."""

_LIMITS_BY_LAST_PART: Mapping[str, BodyLimits] = MappingProxyType(
    {
        "sessions": UNIVERSE,
        "eliminate": UNIVERSE,
        "envelopes": ENVELOPE,
        "operations": INTENTS,
        "recomputed": INTENTS,
        "work": INTENTS,
        "simulations": ENVELOPE,
    }
)


def limits_of(path: str) -> BodyLimits:
    """Return the limits of the body that is sent to a path."""
    return _LIMITS_BY_LAST_PART.get(path.rpartition("/")[2], BULK)
