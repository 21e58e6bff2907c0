"""Bounds the body of each route: its bytes, its values, its objects and arrays.

Reading JSON is one call that keeps the interpreter to itself, at worst for as long as these limits
allow. So the values of a body are counted in its bytes before it is read (413,
`request_too_large`), those of a stream line by line. A text costs what its length is; a value costs
as much as a hundred characters, an object or an array far more. Lengths of lists and texts are
limited as the OpenAPI document states them, and an envelope nests 32 levels deep at most (a receipt
of V1).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kernel.belief.limits import MAX_HYPOTHESES
from kernel.model.envelope import MAX_ENVELOPE_BYTES
from kernel.proof.add_checkpoint import REQUEST_BYTES_MAX
from kernel.proof.add_handover import REQUEST_BYTES_MAX as HANDOVER_BYTES_MAX

MAX_BODY_BYTES = 8 << 20
"""Bytes of any body that is read as a whole."""

STREAM_S_MAX = 600.0
STREAM_LINES_MAX = 100_000
LINES_IN_FLIGHT_MAX = 512
"""Lines of a stream that are read and not answered yet."""

BYTES_IN_FLIGHT_MAX = 2 << 20
"""Bytes of those lines."""


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """How large the body of a request to one route may be, and how it may be nested."""

    body_bytes: int = MAX_BODY_BYTES
    values: int = 300_000
    """Values of every kind, counted as commas, brackets and braces outside texts."""

    containers: int = 100_000
    """Objects and arrays."""

    members: int = 10_000
    """Members of one object: each that no model knows becomes a problem of the answer."""

    held_bytes: int = MAX_BODY_BYTES
    """Bytes of the body that are in memory at once."""

    stream_s: float | None = None
    """Time for the whole of a stream, each piece of which has as long as any other body."""


BULK = BodyLimits()
UNIVERSE = BodyLimits(values=MAX_HYPOTHESES + 100_000)
"""Limits of a route that takes as many ids as a session may have hypotheses."""

INTENTS = BodyLimits(values=100_000, containers=12_000)
"""As many spans as one understanding may rest on, or inputs; each becomes a model, all at once.

A field of metadata as long as may be has a third as many values; with 300,000 of them the loop was
held for 42 ms.

A worker whose batch is larger sends it in halves.
"""

STREAM = BodyLimits(body_bytes=256 << 20, held_bytes=4 << 20, stream_s=STREAM_S_MAX)
LINE = BodyLimits(body_bytes=1 << 20, values=100_000, containers=12_000)
"""Limits of one line of a stream, which holds one intent."""

ENVELOPE = BodyLimits(body_bytes=2 * MAX_ENVELOPE_BYTES)
"""Twice the limit of an envelope's canonical form, so that blanks and escapes have room."""

_LIMITS_BY_LAST_PART: Mapping[str, BodyLimits] = MappingProxyType(
    {
        "add-checkpoint": BodyLimits(body_bytes=REQUEST_BYTES_MAX),
        "add-handover": BodyLimits(body_bytes=HANDOVER_BYTES_MAX),
        "batches": ENVELOPE,
        "sessions": UNIVERSE,
        "eliminate": UNIVERSE,
        "envelopes": ENVELOPE,
        "operations": INTENTS,
        "operations:bulk": STREAM,
        "recomputed": INTENTS,
        "work": INTENTS,
        "simulations": ENVELOPE,
    }
)


def limits_of(path: str) -> BodyLimits:
    """Return the limits of the body that is sent to a path."""
    return _LIMITS_BY_LAST_PART.get(path.rpartition("/")[2], BULK)
