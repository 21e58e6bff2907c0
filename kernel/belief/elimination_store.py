"""Defines the five methods behind which a store of tombstones stands (seed 000).

What every store promises:

1. A tombstone is never taken back; writing it again changes nothing.
2. The universe of a session is fixed when it is created. The same creation again changes nothing.
3. Survivors and tombstones are two parts of the universe. An id outside of it may be named and is
   answered like one that was eliminated before, but is never among either.
4. The answer of a call is kept for as long as the store keeps anything.
5. Any number of threads may call it at once.

A store decides nothing: whoever calls `eliminate` has asked CMBSCore first.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from kernel.belief.errors import BeliefError
from kernel.belief.limits import check_text


@dataclass(frozen=True, slots=True)
class EliminationProvenance:
    """Who eliminated and why, each in 1 to 512 characters.

    Raises:
        BeliefError: INVALID_REQUEST for text outside of these bounds.
    """

    source_id: str
    trigger: str

    def __post_init__(self) -> None:
        check_text("provenance.source_id", self.source_id)
        check_text("provenance.trigger", self.trigger)


@dataclass(frozen=True, slots=True)
class StoreResult:
    """What an elimination did; the two sets together are the ids that it named."""

    applied: frozenset[str]
    """Eliminated by this call."""
    already_eliminated: frozenset[str]
    """Eliminated before, or not in the universe: nothing changed for them."""


@dataclass(frozen=True, slots=True)
class RecoveredState:
    """Everything that a store knows of a session, as of one moment."""

    hypothesis_ids: frozenset[str]
    """The universe."""
    eliminated: frozenset[str]
    survivors: frozenset[str]


class EliminationStore(Protocol):
    """A store of eliminations outside; each of its five methods may wait for a disk or a network.

    All but the first raise BeliefError SESSION_NOT_FOUND for a session that was never created, and
    a store somewhere else raises EliminationStoreUnavailable.
    """

    def create_session(self, session_id: str, hypothesis_ids: Iterable[str]) -> None:
        """Fix the universe of a session, of which nothing is eliminated yet.

        Raises:
            BeliefError: SESSION_EXISTS when it was created with another universe;
                INVALID_REQUEST for an id outside of 1 to 512 characters.
        """

    def eliminate(
        self, session_id: str, eliminated: Iterable[str], provenance: EliminationProvenance
    ) -> StoreResult:
        """Write tombstones; they are kept when this returns.

        A call that failed may have written some; the same call again writes the rest.
        """

    def get_survivors(self, session_id: str) -> frozenset[str]:
        """Return the universe without its tombstones."""

    def get_eliminated(self, session_id: str) -> frozenset[str]:
        """Return the tombstones."""

    def recover(self, session_id: str) -> RecoveredState:
        """Return universe, tombstones and survivors of one moment."""


def session_not_found(session_id: str) -> BeliefError:
    """Build the refusal of a session that a store does not have."""
    return BeliefError("SESSION_NOT_FOUND", "no such session", {"session_id": session_id})


def universe_differs(session_id: str) -> BeliefError:
    """Build the refusal of a second universe for one session."""
    details = {"session_id": session_id}
    return BeliefError("SESSION_EXISTS", "the session has another universe", details)


class EliminationStoreUnavailable(Exception):
    """The store did not answer. It may have written the tombstones; the same call again is safe."""

    code = "elimination_store_unavailable"
