"""Replays an audit trail, and compares the session that is shown with it (seed 001 §7)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kernel.belief.errors import BeliefError, CorruptBeliefEvent
from kernel.belief.session import BeliefSession
from kernel.values.canonical import canonicalize


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of a replay."""

    snapshot: dict[str, Any] | None
    """The session that the trail gives; None where it gives none."""

    head_event_hash: str | None
    events: int
    differences: tuple[str, ...]
    """The differences, empty where everything agrees."""

    def document(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        return {
            "replays": not self.differences,
            "events": self.events,
            "head_event_hash": self.head_event_hash,
            "differences": list(self.differences),
            "snapshot": self.snapshot,
        }


def replay_audit(events: Iterable[Any], shown: dict[str, Any] | None = None) -> Replayed:
    """Carry out every event again, to the byte, and compare with the snapshot that is shown."""
    documents = list(events)
    try:
        session = BeliefSession.restore(canonicalize(document) for document in documents)
    except (BeliefError, CorruptBeliefEvent, ValueError) as error:
        return Replayed(None, None, len(documents), (str(error),))
    snapshot = session.snapshot()
    differences = (
        tuple(
            f"{name}: replayed {snapshot.get(name)!r}, shown {shown.get(name)!r}"
            for name in sorted(snapshot.keys() | shown.keys())
            if snapshot.get(name) != shown.get(name)
        )
        if shown is not None
        else ()
    )
    return Replayed(snapshot, session.head_event_hash, len(documents), differences)
