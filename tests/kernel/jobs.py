"""Jobs of a plug-in's queue at the kernel: asked for, answered, and nothing else on the record."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import BaseModel

from actors.commit.receipt_units import SealReceiptsUnit
from actors.commit.run_units import AnchorGroupsUnit
from actors.commit.unit_context import CommitContext
from actors.commit.work_units import WorkReportUnit
from actors.orchestrator.orchestrator import Orchestrator
from kernel.ledger.ledger import Ledger
from kernel.records.receipt_seals import range_to_seal
from kernel.transaction.kernel import Kernel
from kernel.values.priorities import QueuePriority
from kernel.work import queue_kinds
from kernel.work.queue_kinds import QueueKind
from kernel.work.reports import WorkFinished
from kernel.work.requests import WorkRequest, enqueue_from_outside

QUEUE = "images"


class Image(BaseModel):
    """What a job is about."""

    image: str


@contextmanager
def plugin_queue() -> Iterator[None]:
    """Have the queue of a plug-in in the table of this process."""
    rows = queue_kinds._kinds  # noqa: SLF001 - they stay otherwise
    rows[QUEUE] = QueueKind(
        QUEUE, Image, "image", (QueuePriority("normal", "background", 60),), "normal"
    )
    try:
        yield
    finally:
        del rows[QUEUE]


def unit(ledger: Ledger, piece: Any) -> Any:
    """Run a unit in a transaction of its own."""
    with ledger.transaction() as transaction:
        orchestrator = Orchestrator(transaction.host)
        return piece.run(CommitContext(transaction, Kernel(), orchestrator))


def ask_for_job(ledger: Ledger, name: str) -> str:
    """Ask for a job and return its request."""
    with plugin_queue(), ledger.transaction() as transaction:
        request = WorkRequest(QUEUE, name, {"image": name})
        [receipt] = enqueue_from_outside(transaction, [request])
    return receipt.request_id


def do_jobs(ledger: Ledger, *results: dict[str, Any]) -> list[str]:
    """Ask for a job for each result and answer it; return the requests."""
    requests = []
    for result in results:
        asked_before = ledger.read(lambda view: view.head().request_sequence)
        request_id = ask_for_job(ledger, f"image-{asked_before}")
        with plugin_queue():
            unit(ledger, WorkReportUnit(WorkFinished(request_id=request_id, result=result)))
        requests.append(request_id)
    return requests


def seal_receipts(ledger: Ledger, *, for_outcomes: bool = False) -> Any:
    """Anchor the groups of records of runs, and seal the next range of receipts, as a gateway does.

    Each is done where it is due.
    """
    unit(ledger, AnchorGroupsUnit())
    with ledger.view() as view:
        due = range_to_seal(view, for_outcomes=for_outcomes)
    return None if due is None else unit(ledger, SealReceiptsUnit(due))
