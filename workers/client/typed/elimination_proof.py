"""Verifies the proof of a tombstone, as a gateway states it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import orjson

from kernel.proof.proof_file import ELIMINATE_VERB, ProofFileInvalid, read_anchored_event
from workers.client.log_proofs import InclusionProof
from workers.client.merkle_proofs import LogProofInvalid


@dataclass(frozen=True, slots=True)
class EliminationProof:
    """A tombstone, and the row of the operation that anchors its session behind it."""

    event: Mapping[str, Any]
    """The audit event, without its hash."""

    inclusion: InclusionProof

    @classmethod
    def verified(cls, document: Mapping[str, Any], event_id: str) -> Self:
        """Read the proof of a tombstone as a gateway states it.

        Raises:
            LogProofInvalid: the event is not in the log, or is another one.
        """
        try:
            inclusion = InclusionProof.verified(document["inclusion"])
            row = orjson.loads(inclusion.row)
            event = read_anchored_event(row, document["envelope"], document["events"])
            is_meant = event["event_id"] == event_id and event["verb"] == ELIMINATE_VERB
        except (ProofFileInvalid, ValueError, KeyError, TypeError, AttributeError) as error:
            raise LogProofInvalid(f"this is no proof of an elimination: {error}") from error
        if not is_meant:
            raise LogProofInvalid("the proof is that of another event")
        return cls(event, inclusion)
