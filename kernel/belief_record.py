"""Belief events on the record: stored as they were hashed, anchored in the kernel's chain (B6).

The events of a session are a chain of their own. With every durable batch the session's node is
annotated with the head of that chain, so one verification covers both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from kernel.belief.events import BeliefEvent
from kernel.belief.limits import check_text, invalid
from kernel.canonical import canonicalize
from kernel.ledger import schema
from kernel.ledger.ledger import LedgerTransaction, LedgerView
from kernel.model.node_kinds import SESSION_NODE_PREFIX

SURVIVORS_SHOWN_MAX = 12
MAX_SESSION_ID_CHARS = 384
"""So that the id of the session's node is an id that an intent may name."""


@dataclass(frozen=True, slots=True)
class BeliefBatch:
    """Events of one session in order, and where the session stands after them."""

    session_id: str
    title: str
    first_index: int
    events: tuple[tuple[str, str, bytes], ...]
    """(event_id, event_hash, event bytes) of each."""

    n_universe: int
    n_survivors: int
    survivors_shown: Sequence[str]
    """The first few, for whoever lists sessions."""

    survivors_hash: str

    @property
    def head_event_hash(self) -> str:
        """The hash of the newest event."""
        return self.events[-1][1]

    @property
    def n_events(self) -> int:
        """How many events the session has after this batch."""
        return self.first_index + len(self.events)

    def anchor(self) -> dict[str, Any]:
        """Return the fields with which the session's node is annotated."""
        return {
            "head_event_hash": self.head_event_hash,
            "n_events": self.n_events,
            "n_survivors": self.n_survivors,
            "survivors_hash": self.survivors_hash,
        }


def session_node_id(session_id: str) -> str:
    """Return the node that stands for a belief session in the graph."""
    return f"{SESSION_NODE_PREFIX}{session_id}"


def check_session_id(session_id: str) -> None:
    """Refuse an id that the record could not hold.

    Raises:
        BeliefError: INVALID_REQUEST.
    """
    check_text("session_id", session_id)
    if len(session_id) > MAX_SESSION_ID_CHARS:
        raise invalid("session_id", f"must have at most {MAX_SESSION_ID_CHARS} characters")
    if "\x00" in session_id:
        raise invalid("session_id", "must not hold the character U+0000")


def declared_universe(view: LedgerView, session_id: str) -> frozenset[str] | None:
    """Return the hypotheses that a session was declared over, None where it was not declared.

    Raises:
        CorruptBeliefEvent: when the declaration is not what its hash says.
    """
    row = view.tables.get(schema.belief_events, session_id, 0)
    if row is None:
        return None
    return frozenset(BeliefEvent.from_bytes(row["event_bytes"]).payload["hypotheses"])


def record_belief(transaction: LedgerTransaction, batch: BeliefBatch) -> None:
    """Append the events of a batch and renew the session's summary row.

    Raises:
        DuplicateKey: when an event with this index exists: somebody else wrote to the session.
    """
    for offset, (event_id, event_hash, content) in enumerate(batch.events):
        transaction.tables.insert(
            schema.belief_events,
            {
                "session_id": batch.session_id,
                "event_index": batch.first_index + offset,
                "event_id": event_id,
                "event_hash": event_hash,
                "event_bytes": content,
            },
        )
    transaction.tables.put(
        schema.belief_sessions,
        {
            "session_id": batch.session_id,
            "title": batch.title,
            "n_universe": batch.n_universe,
            "n_survivors": batch.n_survivors,
            "n_events": batch.n_events,
            "head_event_hash": batch.head_event_hash,
            "survivors_shown": canonicalize(list(batch.survivors_shown)),
            "updated_at_us": transaction.head_now.committed_at_us,
        },
    )


def shown_survivors(content: bytes) -> list[str]:
    """Read the survivors that a summary row shows."""
    names: list[str] = orjson.loads(content)
    return names
