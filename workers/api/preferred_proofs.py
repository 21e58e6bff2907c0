"""Answers to `Prefer: proof` (RFC 7240): each result with the proof that its row is in the log."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from fastapi import Request

from kernel.proof.verification import ProofInvalid
from workers.api.operation_results import EnvelopeDocument, ResultDocument
from workers.api.services import Services
from workers.views.log_proofs import elimination_proof, inclusions

_PREFERENCE = "proof"


def prefers_proof(request: Request) -> bool:
    """Tell whether whoever asks prefers an answer with proofs."""
    stated = ",".join(request.headers.getlist("prefer"))
    return any(part.partition(";")[0].strip().lower() == _PREFERENCE for part in stated.split(","))


async def add_proofs(
    services: Services, results: Sequence[ResultDocument | EnvelopeDocument]
) -> None:
    """Add to each result that is on the record the proof that it is, all under one tree head."""
    recorded = [result for result in results if result["validation_result"] == "accepted"]
    sequences = [int(result["ec_sequence_number"]) for result in recorded]
    if sequences:
        proofs = await services.read(lambda view: inclusions(view, sequences))
        for result, proof in zip(recorded, proofs, strict=True):
            result["inclusion_proof"] = proof


async def add_elimination_proof(services: Services, answer: dict[str, Any]) -> None:
    """Add to the answer of an elimination the proof that its tombstone is on the record."""
    event_id = answer["audit_event_id"]
    # What was eliminated stays so, whether or not its anchor can still be shown.
    with suppress(ProofInvalid):
        proof = await services.read(lambda view: elimination_proof(view, event_id))
        answer["elimination_proof"] = proof
