"""Reads simulations as sources: what a preview hands on to what is made of it (§11.9).

A preview is found under its own name or under its operation's. One that cannot be read any more
(its envelope was erased, or its row is quarantined), or that never was, is as restricted as
anything can be: nobody can say that it was not.
"""

from dataclasses import dataclass

from kernel.ledger.ledger import LedgerView
from kernel.model.simulation import PREVIEW_ID_PREFIX, SIMULATE
from kernel.values.visibility import VISIBILITY_CLASSES

MOST_RESTRICTIVE = VISIBILITY_CLASSES[-1]


@dataclass(frozen=True, slots=True)
class SourceSimulation:
    """A simulation that is a source."""

    operation_id: str | None
    """The operation's id; None where there is no such operation on the log."""

    visibility_class: str


def simulation_of(view: LedgerView, ref: str) -> SourceSimulation | None:
    """Return the simulation that a reference names, None where it names something else."""
    is_preview_id = ref.startswith(PREVIEW_ID_PREFIX)
    operation_id = ref.removeprefix(PREVIEW_ID_PREFIX)
    row = view.log_row_of(operation_id)
    if row is None or row["semantic_intent"] != SIMULATE:
        return SourceSimulation(None, MOST_RESTRICTIVE) if is_preview_id else None
    envelope = view.sound_envelope(operation_id) or {}
    stated = envelope.get("resolved_output_visibility_class")
    known = stated in VISIBILITY_CLASSES
    return SourceSimulation(operation_id, str(stated) if known else MOST_RESTRICTIVE)
