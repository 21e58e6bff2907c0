"""Shows what detectors have read and what is halted, the same at every door (§19.1)."""

from dataclasses import asdict
from typing import Annotated

from typing_extensions import TypedDict

from kernel.ledger.ledger import Document
from kernel.model.dumped import DumpOf
from kernel.records.access.readable_view import ReadableView
from kernel.records.implications.halts import Halt, halts_of
from kernel.records.implications.runs import runs_of


class DetectorRunDocument(TypedDict):
    """The newest run of a detector; sequences are strings."""

    detector: str
    implication_epoch: int
    after_sequence: str
    through_sequence: str
    operation_id: str
    recorded_at: str


class ImplicationsDocument(TypedDict):
    """How far each detector has read, and a page of the halts that stand."""

    detectors: list[DetectorRunDocument]
    halts: list[Annotated[Document, DumpOf(Halt)]]
    next_after: str | None


def implications_document(
    view: ReadableView, *, after: str = "", limit: int
) -> ImplicationsDocument:
    """Return the newest run of every detector, and a page of the halts that stand."""
    halts = halts_of(view, after=after, limit=limit)
    return {
        "detectors": [
            {
                "detector": run.detector,
                "implication_epoch": run.implication_epoch,
                "after_sequence": str(run.after_sequence),
                "through_sequence": str(run.through_sequence),
                "operation_id": run.operation_id,
                "recorded_at": run.recorded_at,
            }
            for run in runs_of(view)
        ],
        "halts": [asdict(halt) for halt in halts],
        "next_after": halts[-1].halt_id if len(halts) == limit else None,
    }
