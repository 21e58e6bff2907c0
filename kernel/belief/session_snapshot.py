"""Writes down the state of a session as of an event, so that activation need not replay it all.

`SessionState.take_snapshot` cuts one, and the session's actor decides when one is due.

A snapshot is never trusted alone: whoever takes a session up from one holds it against the event
that it names, and replays the trail where a snapshot is missing (decision kernel/0162). Snapshots
of a session are parts of one: each holds the whole state, but of the observations only those since
the snapshot before.
"""

import base64
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from kernel.belief.errors import CorruptBeliefEvent
from kernel.belief.limits import decode_json
from kernel.values.canonical import canonicalize


@dataclass(frozen=True, slots=True)
class SessionSnapshot:
    """The state of a session after a number of its events."""

    n_events: int
    since: int
    """How many events the snapshot before covers, 0 where this is the first."""

    head_event_id: str
    head_event_hash: str
    bitmap: str
    """The bits of what survives, deflated, in base 64."""

    gates: dict[str, Any]
    """What the core is judged by: obligations, terminations, the newest conclusions."""

    observations: list[list[Any]]
    """Place of the event, source and observation of each elimination since the snapshot before."""

    def to_bytes(self) -> bytes:
        """Return the canonical bytes, as they are stored."""
        return canonicalize(asdict(self))

    @classmethod
    def from_bytes(cls, content: bytes) -> "SessionSnapshot":
        """Read a stored snapshot.

        Raises:
            CorruptBeliefEvent: when it has not its shape.
        """
        try:
            document = decode_json(content)
        except (ValueError, RecursionError) as error:
            raise _corrupt(f"cannot be read: {error}") from error
        if not isinstance(document, dict) or document.keys() != {
            field.name for field in fields(cls)
        }:
            raise _corrupt("has other fields")
        return cls(**document)

    @property
    def bits(self) -> bytes:
        """The bitmap itself."""
        try:
            return zlib.decompress(base64.b64decode(self.bitmap, validate=True))
        except (ValueError, zlib.error) as error:
            raise _corrupt(f"has no bitmap: {error}") from error

    def says_what(self, other: "SessionSnapshot") -> bool:
        """Tell whether two snapshots hold the same; equal bits can be deflated in several ways."""
        mine, theirs = asdict(self), asdict(other)
        return (self.bits, mine | {"bitmap": ""}) == (other.bits, theirs | {"bitmap": ""})


def belong_together(parts: Sequence[SessionSnapshot]) -> bool:
    """Tell whether the snapshots of a session are complete: one of them may be gone."""
    return all(
        part.since == before
        for part, before in zip(
            parts, [0, *(previous.n_events for previous in parts)], strict=False
        )
    )


def deflate(bits: bytes) -> str:
    """Return a bitmap as a snapshot holds it."""
    return base64.b64encode(zlib.compress(bits, 1)).decode()


def _corrupt(problem: str) -> CorruptBeliefEvent:
    return CorruptBeliefEvent(f"a snapshot of the session {problem}")
