"""Records sessions of thoughts and rounds, for programs (seed 002)."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from kernel.proof.eta_tree import verify_eta_path
from kernel.proof.seals import check_signatures
from kernel.proof.signing_keys import NoteVerifier
from kernel.proof.thought_chain import ThoughtType, content_hash
from kernel.proof.verification import ProofInvalid
from workers.client.typed.gateway import GatewayClient

Document = dict[str, Any]


class ThoughtClient:
    """One session of thoughts on a gateway.

    Every method raises `GatewayError` with the server's code for what it refuses. Every step may be
    sent again after any failure and takes effect once.
    """

    def __init__(self, gateway: GatewayClient, session_id: UUID | str) -> None:
        self._gateway = gateway
        self._path = f"/v1/thoughts/{UUID(str(session_id))}"

    async def audit_session_start(self, task_id: str) -> Document:
        """Begin the session for a task."""
        return await self._post("/start", {"task_id": task_id})

    async def thought_record(
        self, thought_id: str, thought_type: ThoughtType, content: str
    ) -> Document:
        """Record a thought; durable when this returns."""
        body = {"thought_id": thought_id, "thought_type": thought_type, "content": content}
        return await self._post("", body)

    async def audit_verify_chain(self) -> Document:
        """Have the chain read again from its first thought."""
        return await self._post("/verify")

    async def merkle_finalize(self) -> Document:
        """Seal the session and return its root, its seal and who signed it."""
        return await self._post("/finalize")

    async def audit_session_end(self) -> Document:
        """End the session."""
        return await self._post("/end")

    async def thoughts(self, *, after: int = 0, limit: int = 100) -> Document:
        """Return where the session stands and a page of its thoughts."""
        answer: Document = await self._gateway.get(self._path, after=after, limit=limit)
        return answer

    async def proof(self, sequence: int) -> Document:
        """Return the path from a thought to the root in the session's seal."""
        answer: Document = await self._gateway.get(f"{self._path}/proof/{sequence}")
        return answer

    async def _post(self, part: str, body: Any = None) -> Document:
        answer: Document = await self._gateway.post(self._path + part, {} if body is None else body)
        return answer


def merkle_verify(proof: Mapping[str, Any]) -> list[NoteVerifier]:
    """Check a thought's proof against its seal alone, and return the keys that signed the seal.

    The count is the seal's (P1). That the seal is on the log, and that one of the keys counts, is
    for whoever asks to check.

    Raises:
        ProofInvalid: the thought is not in the session as the seal states it.
    """
    seal, thought = proof["seal"], proof["thought"]
    leaf = content_hash(proof["record"].encode())
    if leaf != thought["content_hash"] or thought["session_id"] != seal["session_id"]:
        raise ProofInvalid("the record is that of another thought")
    verify_eta_path(
        bytes.fromhex(leaf),
        thought["sequence"] - 1,
        seal["leaf_count"],
        [bytes.fromhex(node) for node in proof["path"]],
        bytes.fromhex(seal["eta_root"]),
    )
    return check_signatures(seal, proof["signatures"])
