"""Defines the tools of sessions of thoughts, by seed 002; those that write are off by default."""

from typing import Annotated, Any, ClassVar
from uuid import UUID

from pydantic import Field

from kernel.model.thought_receipts import THOUGHT_NAME_CHARS_MAX, THOUGHTS_MAX
from kernel.proof.thought_chain import ThoughtType
from workers.client.typed.thoughts import merkle_verify
from workers.mcp.tool import Document, Tool, ToolContext, ToolRefused
from workers.questions.thoughts import ProveThought, Session
from workers.views.thoughts import chain_view

CONTENT_CHARS_MAX = 64 << 10

_Name = Annotated[
    str, Field(min_length=1, max_length=THOUGHT_NAME_CHARS_MAX, pattern=r"^[^\x00-\x1f]+$")
]


class _OfThoughts(Tool):
    action: ClassVar[str] = "read.thoughts"
    session_id: Session

    async def step(self, context: ToolContext, part: str, **body: Any) -> Document:
        """Ask the gateway for the next step of the session."""
        try:
            session_id = UUID(self.session_id)
        except ValueError:
            raise ToolRefused("session_id: is a UUID", code="INVALID_REQUEST") from None
        answer: Document = await context.post(f"/v1/thoughts/{session_id}{part}", body)
        return answer


class AuditVerifyChain(_OfThoughts):
    """Read the chain of a session of thoughts again from its first thought.

    With `record` the record states that it holds, which finalizing needs; that writes.
    """

    record: bool = False

    async def result(self, context: ToolContext) -> Document:
        """Return the length and the head of a chain that holds."""
        if self.record:
            session = await self.step(context, "/verify")
            return {"summary": f"verified and recorded: {session['verified_count']}", **session}
        chain = await context.read(lambda view: chain_view(view, self.session_id))
        return {"summary": f"the chain of {chain['thought_count']} thoughts holds", **chain}


class MerkleVerify(_OfThoughts):
    """Prove that a thought is in its session, and verify the proof against the session's seal."""

    is_exact: ClassVar[bool] = True
    sequence: Annotated[int, Field(ge=1, le=THOUGHTS_MAX, description="Place of the thought.")]

    async def result(self, context: ToolContext) -> Document:
        """Return the proof, and the names of those who signed the seal."""
        question = ProveThought(session_id=self.session_id, sequence=self.sequence)
        proof = await context.read(question.answer)
        signers = [verifier.name for verifier in merkle_verify(proof)]
        summary = f"thought {self.sequence} is in the sealed session"
        return {"summary": summary, "is_verified": True, "signed_by": signers, **proof}


class AuditSessionStart(_OfThoughts):
    """Begin a session of thoughts for a task. Writes."""

    writes: ClassVar[bool] = True
    action: ClassVar[str] = "write.thoughts"
    task_id: _Name

    async def result(self, context: ToolContext) -> Document:
        """Return the session."""
        session = await self.step(context, "/start", task_id=self.task_id)
        return {"summary": session["state"], **session}


class ThoughtRecordTool(_OfThoughts):
    """Record a thought; the same `thought_id` again is the same thought. Writes."""

    writes: ClassVar[bool] = True
    action: ClassVar[str] = "write.thoughts"
    thought_id: _Name
    thought_type: ThoughtType
    content: Annotated[str, Field(max_length=CONTENT_CHARS_MAX)]

    async def result(self, context: ToolContext) -> Document:
        """Return the thought as it is on the record."""
        stated = self.model_dump(include={"thought_id", "thought_type", "content"})
        thought = await self.step(context, "", **stated)
        return {"summary": f"thought {thought['sequence']} is on the record", **thought}


class MerkleFinalize(_OfThoughts):
    """Seal a session that is verified up to its closing reflection; its root is final. Writes."""

    writes: ClassVar[bool] = True
    action: ClassVar[str] = "write.thoughts"
    is_exact: ClassVar[bool] = True

    async def result(self, context: ToolContext) -> Document:
        """Return the root and the seal."""
        return {"summary": "finalized", **await self.step(context, "/finalize")}


class AuditSessionEnd(_OfThoughts):
    """End a session of thoughts that was finalized. Writes."""

    writes: ClassVar[bool] = True
    action: ClassVar[str] = "write.thoughts"

    async def result(self, context: ToolContext) -> Document:
        """Return the session."""
        session = await self.step(context, "/end")
        return {"summary": session["state"], **session}
