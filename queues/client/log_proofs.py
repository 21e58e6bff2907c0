"""Proofs over the log, asked of a gateway and verified here: a gateway's word is not taken.

A tree head is the gateway's statement until it is compared with one that was kept: keep a head and
ask later with `grown_from` whether the log only grew since.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Self

from .gateway_http import GatewayHttp
from .merkle_proofs import LogProofInvalid, leaf_hash, verify_consistency, verify_inclusion

PREFER_PROOF = {"Prefer": "proof"}


@dataclass(frozen=True, slots=True)
class TreeHead:
    """The size of the tree over the log, and its root."""

    size: int
    root: bytes

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Read a head as a gateway states it."""
        return cls(int(document["tree_size"]), bytes.fromhex(document["root_hash"]))


@dataclass(frozen=True, slots=True)
class InclusionProof:
    """A row of the log in its stored bytes, and its path to the root of a tree."""

    sequence: int
    row: bytes
    path: tuple[bytes, ...]
    head: TreeHead

    @classmethod
    def verified(cls, document: Mapping[str, Any]) -> Self:
        """Read a proof as a gateway states it.

        Raises:
            LogProofInvalid: the row is not in the tree, or is not the row of that sequence.
        """
        try:
            proof = cls(
                int(document["ec_sequence_number"]),
                document["row"].encode(),
                tuple(bytes.fromhex(node) for node in document["path"]),
                TreeHead.of(document["tree_head"]),
            )
            stated = json.loads(proof.row)["ec_sequence_number"]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise LogProofInvalid(f"this is no inclusion proof: {error}") from error
        if stated != str(proof.sequence):
            raise LogProofInvalid(f"the row is that of sequence {stated}, not {proof.sequence}")
        verify_inclusion(
            leaf_hash(proof.row), proof.sequence - 1, proof.head.size, proof.path, proof.head.root
        )
        return proof


def proof_of_result(result: Mapping[str, Any]) -> InclusionProof:
    """Return the verified proof of a result that was asked for with `Prefer: proof`.

    Raises:
        LogProofInvalid: it has none, or one of another row.
    """
    if "inclusion_proof" not in result:
        raise LogProofInvalid("the answer has no inclusion proof")
    proof = InclusionProof.verified(result["inclusion_proof"])
    if sha256(proof.row).hexdigest() != result.get("row_hash"):
        raise LogProofInvalid("the proof is that of another row than the answer's")
    return proof


class LogProofs:
    """The tree over the log of a gateway; every method raises `GatewayError` for its refusals."""

    def __init__(self, gateway: GatewayHttp) -> None:
        self._gateway = gateway

    async def head(self) -> TreeHead:
        """Return the head of the tree as the gateway states it."""
        return TreeHead.of(await self._get("/v1/tree"))

    async def inclusion(self, sequence: int, size: int | None = None) -> InclusionProof:
        """Return the verified proof that a row is in the tree, now or at a size.

        Raises:
            LogProofInvalid: what the gateway answers proves nothing.
        """
        document = await self._get(f"/v1/tree/inclusion/{sequence}", tree_size=size)
        proof = InclusionProof.verified(document)
        if proof.sequence != sequence or size not in (None, proof.head.size):
            raise LogProofInvalid("the proof is that of another row or size")
        return proof

    async def grown_from(self, old: TreeHead, size: int | None = None) -> TreeHead:
        """Return a head whose tree begins with that of an older head, which was kept.

        Raises:
            LogProofInvalid: the log is not the one of the older head.
        """
        document = await self._get(f"/v1/tree/consistency/{old.size}", tree_size=size)
        try:
            new = TreeHead.of(document["tree_head"])
            path = [bytes.fromhex(node) for node in document["path"]]
        except (ValueError, KeyError, TypeError) as error:
            raise LogProofInvalid(f"this is no consistency proof: {error}") from error
        verify_consistency(old.size, old.root, new.size, new.root, path)
        return new

    async def submit(
        self, session_id: str, envelope: Mapping[str, Any]
    ) -> tuple[dict[str, Any], InclusionProof]:
        """Submit an envelope and return the result with the verified proof of its row.

        It is sent again after failures, under its idempotency key.

        Raises:
            LogProofInvalid: the operation may be on the record, the answer does not prove it.
        """
        path = f"/v1/sessions/{session_id}/envelopes"
        answer = await self._gateway.ask("POST", path, json=envelope, headers=PREFER_PROOF)
        result: dict[str, Any] = answer.json()
        return result, proof_of_result(result)

    async def _get(self, path: str, **query: int | None) -> Any:
        params = {name: value for name, value in query.items() if value is not None}
        return (await self._gateway.ask("GET", path, params=params)).json()
