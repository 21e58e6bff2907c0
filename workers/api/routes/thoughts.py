"""Serves thoughts and rounds (seed 002): a session's steps in their order, its root, its proofs.

Every step may be sent again and is answered as it was. A step that does not come next is refused
with 409 and a code that names what is missing.
"""

from typing import Annotated, TypeVar
from uuid import UUID

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field

from actors import messages
from actors.commit.thought_units import (
    AuditSessionDocument,
    MerkleRootDocument,
    ThoughtDocument,
)
from actors.error_codes import status_of
from kernel.model.result import RejectedResult
from kernel.model.thought_receipts import THOUGHT_NAME_CHARS_MAX
from kernel.proof.thought_chain import ThoughtType
from workers.api.errors import respond
from workers.api.json_routes import json_router
from workers.api.services import Given

CONTENT_CHARS_MAX = 64 << 10
"""Characters of one thought."""

_NAME = r"^[^\x00-\x1f]+$"
_Name = Annotated[str, Field(min_length=1, max_length=THOUGHT_NAME_CHARS_MAX, pattern=_NAME)]

router = json_router("write.thoughts", prefix="/v1/thoughts", tags=["thoughts"])


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class StartBody(_Body):
    """The task that a session of thoughts is about."""

    task_id: _Name


class ThoughtBody(_Body):
    """A thought; known by its id in its session when it comes again."""

    thought_id: _Name
    thought_type: ThoughtType
    content: Annotated[str, Field(max_length=CONTENT_CHARS_MAX)]


@router.post("/{session_id}")
async def thought_record(
    session_id: UUID, body: ThoughtBody, services: Given
) -> ThoughtDocument | Response:
    """Record a thought; its content is kept under a salted commitment."""
    message = messages.RecordThought(body.thought_id, body.thought_type, body.content)
    return answer_or_refusal(await services.sessions.ask(str(session_id), message))


@router.post("/{session_id}/start")
async def audit_session_start(
    session_id: UUID, body: StartBody, services: Given
) -> AuditSessionDocument | Response:
    """Begin a session of thoughts for a task."""
    message = messages.StartAuditSession(body.task_id)
    return answer_or_refusal(await services.sessions.ask(str(session_id), message))


@router.post("/{session_id}/verify")
async def audit_verify_chain(session_id: UUID, services: Given) -> AuditSessionDocument | Response:
    """Read the chain of a session again, from its first thought, and record that it holds."""
    message = messages.VerifyThoughtChain()
    return answer_or_refusal(await services.sessions.ask(str(session_id), message))


@router.post("/{session_id}/finalize")
async def merkle_finalize(session_id: UUID, services: Given) -> MerkleRootDocument | Response:
    """Seal a session that is verified up to its closing reflection, and return its root."""
    return answer_or_refusal(
        await services.sessions.ask(str(session_id), messages.FinalizeMerkle())
    )


@router.post("/{session_id}/end")
async def audit_session_end(session_id: UUID, services: Given) -> AuditSessionDocument | Response:
    """End a session that was finalized."""
    return answer_or_refusal(
        await services.sessions.ask(str(session_id), messages.EndAuditSession())
    )


Answer = TypeVar("Answer")


def answer_or_refusal(answer: Answer | RejectedResult) -> Answer | Response:
    """Return an answer, or the response of an operation that the kernel refused."""
    if not isinstance(answer, RejectedResult):
        return answer
    response = respond(answer.rejection.reason_code, answer.rejection.message, answer.document())
    if response.status_code >= status_of("internal"):
        response.status_code = 422
    return response
