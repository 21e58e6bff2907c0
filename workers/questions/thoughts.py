"""Asks for sessions of thoughts, their chains, roots and proofs, and for rounds (seed 002)."""

from typing import Annotated, Any, ClassVar, Final
from uuid import UUID

from pydantic import AfterValidator, Field

from actors.commit.thought_units import AuditSessionDocument, MerkleRootDocument
from kernel.model.thought_receipts import THOUGHTS_MAX
from kernel.records.access.readable_view import ReadableView
from workers.questions.fields import Limit, PageByNumber
from workers.questions.question import Question
from workers.views.thoughts import (
    RoundsDocument,
    ThoughtProofDocument,
    ThoughtsDocument,
    root_view,
    rounds_document,
    session_view,
    thought_proof,
    thoughts_document,
)

SUBJECT: Final = "thoughts"


def _canonical(name: str) -> str:
    """Return a UUID in its one form; any other name as it is."""
    try:
        return str(UUID(name))
    except ValueError:
        return name


Session = Annotated[
    str,
    Field(pattern=r"^[0-9A-Za-z-]{1,64}$", description="Id of a session of thoughts, a UUID."),
    AfterValidator(_canonical),
]
"""Sessions that the runtime names have a colon, and are nobody else's."""


class ListThoughts(Question):
    """List the thoughts of a session in order, each with its content and hashes.

    `session` says where the session stands; go on while `next_after` is given.
    """

    paths: ClassVar = ("/v1/thoughts/{session_id}",)
    subject: ClassVar = SUBJECT
    rows: ClassVar = "thoughts"
    rows_read: ClassVar = 20
    place: ClassVar = "sequence"

    session_id: Session
    after: Annotated[int, Field(ge=0, le=THOUGHTS_MAX, description="Go on after this thought.")] = 0
    limit: Limit = 100

    def answer(self, view: ReadableView) -> ThoughtsDocument:
        """Return a page of thoughts, and where the session stands."""
        return thoughts_document(view, self.session_id, after=self.after, limit=self.limit)

    def summary(self, document: Any) -> str:
        """Return how many are shown of how many, and the state of the session."""
        count, session = len(document["thoughts"]), document["session"]
        return f"{count} of {session['thought_count']} thoughts; {session['state']}"


class GetThoughtSession(Question):
    """Show where a session of thoughts stands."""

    paths: ClassVar = ("/v1/thoughts/{session_id}/status",)
    subject: ClassVar = SUBJECT

    session_id: Session

    def answer(self, view: ReadableView) -> AuditSessionDocument:
        """Return the session."""
        return session_view(view, self.session_id)

    def summary(self, document: Any) -> str:
        """Return its state, and how many thoughts it has."""
        return f"{document['state']}: {document['thought_count']} thoughts"


class MerkleRoot(Question):
    """Read the Merkle root of a session of thoughts with its seal; null until it is finalized."""

    paths: ClassVar = ("/v1/thoughts/{session_id}/root",)
    subject: ClassVar = SUBJECT
    is_exact: ClassVar = True

    session_id: Session

    def answer(self, view: ReadableView) -> MerkleRootDocument:
        """Return the root."""
        return root_view(view, self.session_id)

    def summary(self, document: Any) -> str:
        """Return whether it is final."""
        return "finalized" if document["merkle_root"] else "not finalized yet"


class ProveThought(Question):
    """Return the path from a thought to the root of its session, and the seal with the count."""

    paths: ClassVar = ("/v1/thoughts/{session_id}/proof/{sequence}",)
    subject: ClassVar = SUBJECT
    is_exact: ClassVar = True

    session_id: Session
    sequence: Annotated[int, Field(ge=1, le=THOUGHTS_MAX, description="Place of the thought.")]

    def answer(self, view: ReadableView) -> ThoughtProofDocument:
        """Return the proof."""
        return thought_proof(view, self.session_id, self.sequence)

    def summary(self, document: Any) -> str:
        """Return which thought it proves."""
        return f"thought {document['thought']['sequence']} is in the sealed session"


class ListRounds(PageByNumber):
    """List rounds, each with the sessions of thoughts that its seal holds."""

    paths: ClassVar = ("/v1/rounds",)
    subject: ClassVar = SUBJECT
    rows: ClassVar = "rounds"
    place: ClassVar = "round_number"

    def answer(self, view: ReadableView) -> RoundsDocument:
        """Return a page of rounds."""
        return rounds_document(view, after=self.after, limit=self.limit)
