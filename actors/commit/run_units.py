"""The unit that seals a run (seed 003, L4): its digests become an operation of the log."""

from dataclasses import dataclass
from typing import Any

from typing_extensions import TypedDict

from actors.commit.unit_context import CommitContext
from actors.orchestrator.intents import SealRun
from kernel.canonical import digest
from kernel.landscape.seals import check_over, seal_of
from kernel.ledger.tables import Row
from kernel.model.landscape_receipts import RunSealed
from kernel.model.result import RejectedResult


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
            intent = SealRun(
                intent_key=digest(["seal_run", run_id]), seal=RunSealed.model_validate(self.stated)
            )
            document = context.orchestrator.construct(
                intent, context.transaction, actor="system", session_id=None
            )
            result = context.kernel.submit(
                context.transaction, document, "orchestrator", id_is_drawn=True
            )
            if isinstance(result, RejectedResult):
                return result
            seal = seal_of(context.transaction, run_id)
        return seal_document(seal or {})


def seal_document(seal: Row) -> RunSealDocument:
    """Return a seal by its row."""
    return {
        "run_id": seal["run_id"],
        "record_count": seal["record_count"],
        "run_digest": seal["run_digest"],
        "ec_sequence_number": str(seal["ec_sequence_number"]),
    }
