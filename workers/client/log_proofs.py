"""Asks a gateway for proofs over the log and verifies them here: its word is not taken.

A tree head is the gateway's statement until it is compared with one that was kept: keep a head and
ask later with `grown_from` whether the log only grew since.
"""

import json
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Self
from urllib.parse import quote

from .gateway_http import GatewayHttp
from .merkle_proofs import LogProofInvalid, leaf_hash, verify_consistency, verify_inclusion

PREFER_PROOF = {"Prefer": "proof"}

OUTCOMES = ("work_request_closed", "authority_recompute_dead_lettered")
"""Kinds of receipt that are the outcome of a request."""

_PAYLOAD_DOMAIN = b"rotulus/payload/v1\x00"
_SALT_BYTES = 32

WITNESSED_WITHIN_S = 10
"""For how long a gateway waits for witnesses unless another time is asked for; 30 s at most."""


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


@dataclass(frozen=True, slots=True)
class OutcomeProof:
    """The outcome of a request, and the row of the operation that seals its receipt's range."""

    receipt: dict[str, Any]
    """What is recorded of the outcome: `outcome`, and `handler_result` or `result`."""

    inclusion: InclusionProof

    @classmethod
    def verified(cls, document: Mapping[str, Any], request_id: str) -> Self:
        """Read a proof as a gateway states it.

        Raises:
            LogProofInvalid: the outcome is not in the log, or is that of another request.
        """
        try:
            inclusion = InclusionProof.verified(document["inclusion"])
            commitment = json.loads(inclusion.row)["envelope_payload_blob_ref"]
            sealed = _sealed_range(_open_commitment(commitment, document["envelope"]))
            stored = document["receipt"].encode()
            receipt = dict(json.loads(stored))
            place = int(receipt["receipt_sequence"]) - sealed.first
            path = tuple(bytes.fromhex(node) for node in document["receipt_path"])
            leaf = leaf_hash(sha256(stored).digest())
            verify_inclusion(leaf, place, sealed.count, path, sealed.root)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise LogProofInvalid(f"this is no proof of an outcome: {error}") from error
        if receipt.get("request_id") != request_id or receipt.get("receipt_kind") not in OUTCOMES:
            raise LogProofInvalid("the proof is that of another request")
        return cls(receipt, inclusion)


@dataclass(frozen=True, slots=True)
class _SealedRange:
    first: int
    count: int
    root: bytes


def _open_commitment(commitment: str, opening: Mapping[str, str]) -> Any:
    """Return what a row commits to by a salted commitment."""
    salt, content = bytes.fromhex(opening["salt"]), opening["content"].encode()
    framed = b"".join((_PAYLOAD_DOMAIN, salt, len(content).to_bytes(8, "big"), content))
    if len(salt) != _SALT_BYTES or sha256(framed).hexdigest() != commitment:
        raise ValueError("the row commits to another envelope")
    return json.loads(content)


def _sealed_range(envelope: Mapping[str, Any]) -> _SealedRange:
    [effect] = envelope["primitive_effects"]
    stated = effect["payload"]
    is_seal = effect["receipt_subkind"] == "receipts_sealed"
    if envelope["semantic_intent"] != "receipts_seal" or not is_seal:
        raise ValueError("the operation is no seal of receipts")
    first, last = int(stated["first_receipt"]), int(stated["last_receipt"])
    return _SealedRange(first, last - first + 1, bytes.fromhex(stated["root_hash"]))


@dataclass(frozen=True, slots=True)
class WitnessedRow:
    """A row of the log under a checkpoint that witnesses have cosigned, as the gateway says.

    The proof leads to the size and the root that the checkpoint states, which is verified here.
    The signatures of `checkpoint` are not: give it, with the policy of the witnesses, to
    `rotulus checkpoint verify` or to any reader of C2SP tlog-checkpoint.
    """

    proof: InclusionProof
    checkpoint: bytes
    """A signed note."""

    message: str
    """How many of the witnesses have cosigned, as the gateway counts them."""


class NotWitnessed(Exception):
    """The row is on the record, and witnesses have not cosigned it in time.

    `code` is the gateway's reason: `witnesses_not_in_time`, `witnesses_not_set`,
    `waits_full`, `gateway_stopping`, or why it publishes nothing. The same may be asked
    again: an operation that is submitted again under its key is waited for and not repeated.
    """

    def __init__(
        self, code: str, message: str, proof: InclusionProof, result: Mapping[str, Any]
    ) -> None:
        super().__init__(message)
        self.code = code
        self.proof = proof
        """The verified proof that the row is in the log, under a head that nobody cosigned."""

        self.result = dict(result)
        """The gateway's answer to the submission; empty where a row was asked for."""


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

    async def outcome(self, queue: str, request_id: str, size: int | None = None) -> OutcomeProof:
        """Return the verified proof of the outcome of a request, in the tree now or of a size.

        A gateway that has not sealed the outcome yet answers `outcome_not_sealed`; ask again after
        a few seconds.

        Raises:
            LogProofInvalid: what the gateway answers proves nothing.
        """
        path = f"/v1/queues/{queue}/requests/{quote(request_id, safe='')}/proof"
        proof = OutcomeProof.verified(await self._get(path, tree_size=size), request_id)
        if size not in (None, proof.inclusion.head.size):
            raise LogProofInvalid("the proof is that of another size")
        return proof

    async def witnessed(self, sequence: int, within_s: int = WITNESSED_WITHIN_S) -> WitnessedRow:
        """Return a row under a witnessed checkpoint, waiting for witnesses for so many seconds.

        Raises:
            NotWitnessed: they have not cosigned it in time.
            LogProofInvalid: what the gateway answers proves nothing.
        """
        path, headers = f"/v1/tree/inclusion/{sequence}", _prefer_witnessed(within_s)
        document = await self._gateway.ask_document("GET", path, headers=headers)
        proof = InclusionProof.verified(document)
        if proof.sequence != sequence:
            raise LogProofInvalid("the proof is that of another row")
        return _witnessed_row(document, proof, {})

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
        result: dict[str, Any] = await self._gateway.ask_document(
            "POST", path, json=envelope, headers=PREFER_PROOF
        )
        return result, proof_of_result(result)

    async def submit_witnessed(
        self, session_id: str, envelope: Mapping[str, Any], within_s: int = WITNESSED_WITHIN_S
    ) -> tuple[dict[str, Any], WitnessedRow]:
        """Submit an envelope and return the result with its row under a witnessed checkpoint.

        It is sent again after failures, under its idempotency key.

        Raises:
            NotWitnessed: the operation is on the record; witnesses have not cosigned it in time.
            LogProofInvalid: the operation may be on the record, the answer does not prove it.
        """
        path = f"/v1/sessions/{session_id}/envelopes"
        headers = _prefer_witnessed(within_s)
        result: dict[str, Any] = await self._gateway.ask_document(
            "POST", path, json=envelope, headers=headers
        )
        return result, _witnessed_row(result, proof_of_result(result), result)

    async def _get(self, path: str, **query: int | None) -> Any:
        params = {name: value for name, value in query.items() if value is not None}
        return await self._gateway.ask_document("GET", path, params=params)


def _prefer_witnessed(within_s: int) -> dict[str, str]:
    return {"Prefer": f"proof, durability=witnessed, wait={within_s}"}


def _witnessed_row(
    document: Mapping[str, Any], proof: InclusionProof, result: Mapping[str, Any]
) -> WitnessedRow:
    """Return the row of a proof as witnessed, where the gateway says so of the proof's tree.

    Raises:
        NotWitnessed: the gateway says that it is not.
        LogProofInvalid: the checkpoint is of another tree, or there is none.
    """
    try:
        durability = document["durability"]
        state, message = durability["state"], str(durability["message"])
        if state != "witnessed":
            raise NotWitnessed(str(durability["reason_code"]), message, proof, result)
        checkpoint = durability["checkpoint"].encode()
        _, size, root = checkpoint.split(b"\n")[:3]
        stated = TreeHead(int(size), b64decode(root, validate=True))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LogProofInvalid(f"the answer has no checkpoint: {error}") from error
    if stated != proof.head:
        raise LogProofInvalid("the checkpoint is that of another tree than the proof's")
    return WitnessedRow(proof, checkpoint, message)
