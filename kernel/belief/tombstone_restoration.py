"""Takes a session up again whose tombstones live in a store (seed 000 §6).

The audit says what was decided, the store what is eliminated. An elimination is written to the
store before its audit entry, so a crash in between leaves a store that is ahead of the audit by
tombstones that nobody was told of. A tombstone cannot be taken back, so an audit entry of its own
adopts it; the author sends the elimination again and is told that nothing was left to apply
(decision kernel/0158).

Every other difference means that the store is another one, or has lost something, and the session
is refused. Replaying never writes to the store.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kernel.belief.elimination_store import RecoveredState
from kernel.belief.errors import BeliefError
from kernel.belief.events import BeliefEvent
from kernel.belief.session import BeliefSession

ADOPTED_SOURCE = "elimination-store"
"""Source of the entry by which a session adopts tombstones that only its store has."""

IDS_SHOWN_MAX = 100


@dataclass(frozen=True, slots=True)
class RestoredSession:
    """A session that agrees with its store, and the entry that is still to be recorded."""

    session: BeliefSession
    adopted: BeliefEvent | None


def restore_session(
    session_id: str,
    recovered: RecoveredState,
    audit_events: Iterable[bytes],
    *,
    event_id: str,
    ts: str,
) -> RestoredSession:
    """Replay a session's audit and hold it against its store; both arguments stay as they are.

    `event_id` and `ts` are those of the entry that adopts, if one is needed.

    Raises:
        CorruptBeliefEvent: when an entry is not what its hash, its chain or its replay says.
        BeliefError: INVALID_REQUEST without entries; CONFLICT for the audit of another session, a
            store with another universe or without something that the audit has eliminated, or one
            that went on after the session had ended.
    """
    session = BeliefSession.restore(audit_events)
    if session.session_id != session_id:
        details = {"expected": session_id, "found": session.session_id}
        raise BeliefError("CONFLICT", "the audit is that of another session", details)
    parted = recovered.survivors | recovered.eliminated == recovered.hypothesis_ids
    if not parted or not recovered.survivors.isdisjoint(recovered.eliminated):
        raise BeliefError("CONFLICT", "what the store recovered contradicts itself")
    universe = frozenset(session.universe.ids)
    if recovered.hypothesis_ids != universe:
        raise _conflict("the store has another universe", recovered.hypothesis_ids ^ universe)
    survivors = session.survivors
    lost = recovered.survivors - survivors
    if lost:
        raise _conflict("the store lacks what the audit has eliminated", lost)
    ahead = survivors - recovered.survivors
    if not ahead:
        return RestoredSession(session, None)
    if session.terminated:
        raise _conflict("the store went on after the session had ended", ahead)
    result = session.eliminate(
        ADOPTED_SOURCE,
        f"ahead-of:{session.head_event_hash}",
        ahead,
        {"reason": "in the store before its audit entry was written"},
        event_id=event_id,
        ts=ts,
    )
    return RestoredSession(session, result.event)


def _conflict(message: str, ids: Iterable[str]) -> BeliefError:
    return BeliefError("CONFLICT", message, {"hypotheses": sorted(ids)[:IDS_SHOWN_MAX]})
