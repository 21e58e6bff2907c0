"""Adds to answers what `Prefer: proof` and `Prefer: durability=witnessed` ask of recorded rows.

A wait is bounded by `wait`, 30 s at most, and by how many may wait in a process. A row
that is not witnessed in time stands, and the answer says why it is not (decision workers/0305).
With both preferences the proof leads to the root of the checkpoint that was witnessed.
"""

from collections.abc import Sequence
from typing import Any

from fastapi import Request

from kernel.audit.proofs import elimination
from kernel.proof.verification import ProofInvalid
from kernel.records.access.readable_view import OF_EVERYTHING, ReadableView
from workers.api.middleware.admission import place_given_back
from workers.api.operation_results import EnvelopeDocument, ResultDocument, ResultsDocument
from workers.api.preferences import NONE, Preferences, preferences_of
from workers.api.services import Services
from workers.publication.witnessed_waits import Durability
from workers.views.log_proofs import (
    DurabilityDocument,
    elimination_proof,
    inclusions,
)

_NOTHING_PUBLISHED = Durability(
    reason_code="witnesses_not_set", message="this gateway publishes nothing"
)


def prefers_proof(request: Request) -> bool:
    """Tell whether whoever asks prefers an answer with proofs."""
    return preferences_of(request).proof


async def add_preferred(
    preferences: Preferences,
    services: Services,
    document: EnvelopeDocument | ResultsDocument,
    results: Sequence[ResultDocument | EnvelopeDocument],
) -> None:
    """Add to an answer what is preferred to be known of the results that are on the record."""
    sequences = (
        [] if preferences == NONE else [sequence for _, sequence in _recorded_operations(results)]
    )
    if not sequences:
        return
    durability = await _wait_for_witnesses(services, max(sequences), preferences.witnessed_within_s)
    if durability is not None:
        document["durability"] = durability_document(durability)
    if preferences.proof:
        await add_proofs(services, results, _size_of(durability))


async def add_proofs(
    services: Services,
    results: Sequence[ResultDocument | EnvelopeDocument],
    size: int | None = None,
) -> None:
    """Add to each result that is on the record the proof that it is, all under one tree head."""
    recorded = _recorded_operations(results)
    if not recorded:
        return
    sequences = [sequence for _, sequence in recorded]
    # Of what the caller has written itself, and together with what others have.
    whole = services.for_reader(OF_EVERYTHING)
    proofs = (
        await whole.proofs.of(sequences, whole.read)
        if size is None
        else await whole.read(lambda view: inclusions(view, sequences, size))
    )
    for (result, _), proof in zip(recorded, proofs, strict=True):
        result["inclusion_proof"] = proof


async def add_preferred_of_elimination(
    preferences: Preferences, services: Services, answer: dict[str, Any]
) -> None:
    """Add to the answer of an elimination what is preferred to be known of its tombstone."""
    event_id = answer["audit_event_id"]

    def sequence(view: ReadableView) -> int:
        return int(elimination(view, event_id).row["ec_sequence_number"])

    # What was eliminated stays so, whether or not its anchor can still be shown.
    try:
        anchored = await services.read(sequence)
    except ProofInvalid:
        return
    durability = await _wait_for_witnesses(services, anchored, preferences.witnessed_within_s)
    if durability is not None:
        answer["durability"] = durability_document(durability)
    if preferences.proof:
        size = _size_of(durability)
        answer["elimination_proof"] = await services.read(
            lambda view: elimination_proof(view, event_id, size)
        )


async def durability_of_row(
    request: Request, services: Services, sequence: int, size: int | None
) -> tuple[DurabilityDocument | None, int | None]:
    """Return the durability of a row where the request prefers it, and the size of the tree.

    The tree is that of the witnessed checkpoint, unless a size is asked for.
    """
    within_s = preferences_of(request).witnessed_within_s
    durability = await _wait_for_witnesses(services, sequence, within_s)
    if durability is None:
        return None, size
    return durability_document(durability), size or _size_of(durability)


def durability_document(durability: Durability) -> DurabilityDocument:
    """Return what is known of a row as JSON has it."""
    note = durability.note
    return {
        "state": "committed" if note is None else "witnessed",
        "reason_code": durability.reason_code,
        "message": durability.message,
        "checkpoint": None if note is None else note.decode(),
    }


async def _wait_for_witnesses(
    services: Services, size: int, within_s: int | None
) -> Durability | None:
    if within_s is None:
        return None
    if services.publishing is None:
        return _NOTHING_PUBLISHED
    with place_given_back():
        return await services.publishing.wait_for_witnesses(size, within_s)


def _size_of(durability: Durability | None) -> int | None:
    return None if durability is None or durability.note is None else durability.size


def _recorded_operations(results: Sequence[Any]) -> list[tuple[Any, int]]:
    return [
        (result, int(result["ec_sequence_number"]))
        for result in results
        if result["validation_result"] == "accepted"
    ]
