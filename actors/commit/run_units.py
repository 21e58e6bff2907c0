"""Defines the unit that seals a run (seed 003, L4): its digests become an operation of the log."""

from dataclasses import dataclass
from typing import Any, Self

from typing_extensions import TypedDict

from actors.commit.unit_context import CommitContext
from actors.orchestrator.intents import SealRun
from kernel.landscape.record_anchors import anchor_groups, take_in_earlier
from kernel.landscape.record_chain import Entry
from kernel.landscape.runtime.records import digest_of_stretch
from kernel.landscape.runtime.stretches import RuntimeRun, last_sealed_row
from kernel.landscape.seals import check_over, seal_body, seal_of
from kernel.ledger.ledger import LedgerView
from kernel.ledger.store.tables import Row
from kernel.model.landscape_receipts import RunSealed
from kernel.model.result import RejectedResult
from kernel.values.canonical import digest


class RunSealDocument(TypedDict):
    """What the log states of a run."""

    run_id: str
    record_count: int
    run_digest: str
    ec_sequence_number: str


@dataclass(frozen=True, slots=True)
class SealRunUnit:
    """Seal a run that has ended, with what `kernel.landscape.seals.seal_to_state` computed.

    The records are read before the transaction, in a snapshot: nothing is added to a run that is
    over, and whoever changes a record past the recorder is found by verification.
    """

    stated: dict[str, Any]

    def run(self, context: CommitContext) -> RunSealDocument | RejectedResult:
        """Seal it; one that is sealed is answered with its seal."""
        run_id = self.stated["run_id"]
        seal = seal_of(context.transaction, run_id)
        if seal is None:
            # Somebody may have let it go on since it was read.
            check_over(context.transaction, run_id)
            anchor_groups(context.transaction)
            rejected = _seal(context, self.stated)
            if rejected is not None:
                return rejected
            seal = seal_of(context.transaction, run_id)
        return seal_document(seal or {})


@dataclass(frozen=True, slots=True)
class AnchorGroupsUnit:
    """State the newest group of records of runs in a receipt, where none states it."""

    def run(self, context: CommitContext) -> bool:
        """Record the receipt; tell whether there was something to state."""
        return anchor_groups(context.transaction)


@dataclass(frozen=True, slots=True)
class TakeRunInUnit:
    """Take a run that was recorded before there were groups into their chain.

    Its groups were made in a snapshot.
    """

    run_id: str
    groups: tuple[dict[str, Entry], ...]

    def run(self, context: CommitContext) -> bool:
        """Append its groups; tell whether it was in none."""
        return take_in_earlier(context.transaction, self.run_id, self.groups)


@dataclass(frozen=True, slots=True)
class SealRuntimeRunUnit:
    """Seal a stretch of the log as a run of the runtime (ruling L1), where it still follows.

    Its records were made in a snapshot. Outcomes that are recorded behind its last row belong to
    it, so where that was the head, nothing may have been recorded since.
    """

    stated: dict[str, Any]
    first: int
    last: int
    receipts: int | None
    """The receipts on the record when it was read; None where another row followed its last."""

    @classmethod
    def read(cls, view: LedgerView, stretch: RuntimeRun) -> Self:
        """Make the records of a stretch, as a snapshot has them; linear in its rows."""
        made, head = digest_of_stretch(view, stretch), view.head()
        ends_at_head = head.ec_sequence_number == stretch.last
        receipts = head.receipt_sequence if ends_at_head else None
        return cls(seal_body(made), stretch.first, stretch.last, receipts)

    def run(self, context: CommitContext) -> RunSealDocument | RejectedResult | None:
        """Seal it; None where another gateway was first, or something came meanwhile."""
        if last_sealed_row(context.transaction) != self.first - 1:
            return None
        head = context.transaction.head_now
        now = (head.ec_sequence_number, head.receipt_sequence)
        if self.receipts is not None and now != (self.last, self.receipts):
            return None
        rejected = _seal(context, self.stated)
        if rejected is not None:
            return rejected
        return seal_document(seal_of(context.transaction, self.stated["run_id"]) or {})


def _seal(context: CommitContext, stated: dict[str, Any]) -> RejectedResult | None:
    intent = SealRun(
        intent_key=digest(["seal_run", stated["run_id"]]), seal=RunSealed.model_validate(stated)
    )
    document = context.orchestrator.construct(
        intent, context.transaction, actor="system", session_id=None
    )
    result = context.kernel.submit(context.transaction, document, "orchestrator", id_is_drawn=True)
    return result if isinstance(result, RejectedResult) else None


def seal_document(seal: Row) -> RunSealDocument:
    """Return a seal by its row."""
    return {
        "run_id": seal["run_id"],
        "record_count": seal["record_count"],
        "run_digest": seal["run_digest"],
        "ec_sequence_number": str(seal["ec_sequence_number"]),
    }
