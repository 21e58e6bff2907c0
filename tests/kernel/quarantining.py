"""Helpers of the tests of quarantines: damage, an audit that records it, and the end of one."""

from typing import Any

from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.quarantine import SequenceRange
from kernel.model.result import SubmissionResult
from kernel.records.legal_holds import Grounds
from kernel.records.operator_decisions import DECIDED_RECEIPT, OperatorDecision
from kernel.records.quarantine_lifts import lift_quarantine
from kernel.transaction.kernel import Kernel
from kernel.verify import verify
from kernel.verify.recent import AuditMark, audit_since
from kernel.verify.violation import record_violation
from tests.kernel.build import effect, envelope, informed

GROUNDS = Grounds("the disk was exchanged", "ada")


def change(ledger: Ledger, sequence: int, content: bytes | None = None) -> None:
    """Change bytes of a row in memory, as somebody at a database could."""
    stored = row_of(ledger, sequence)["row_bytes"]
    changed = stored.replace(b'"actor"', b'"acter"') if content is None else content
    with ledger.store.transaction() as tables:
        tables.update(schema.kernel_event_log, (sequence,), {"row_bytes": changed})


def quarantined(ledger: Ledger, sequence: int, content: bytes | None = None) -> str:
    """Damage a row and have an audit find it; return the quarantine."""
    damage = row_of(ledger, sequence)["row_bytes"] + b" " if content is None else content
    change(ledger, sequence, damage)
    audited(ledger)
    return standing(ledger)[-1]


def row_of(ledger: Ledger, sequence: int) -> Any:
    with ledger.view() as view:
        return view.log_row_at(sequence)


def audited(ledger: Ledger, mark: AuditMark | None = None) -> AuditMark:
    """Audit as a worker does, and record what is found as the gateway does; return the mark."""
    mark = mark or AuditMark()
    while True:
        with ledger.view() as view:
            audit = audit_since(view, mark)
        if audit.verification.ok:
            return audit.mark
        with ledger.transaction() as transaction:
            assert record_violation(transaction, audit.verification, once=True)


def ranges(ledger: Ledger) -> tuple[SequenceRange, ...]:
    return ledger.read(lambda view: view.quarantines().ranges)


def lift(ledger: Ledger, quarantine_id: str, grounds: Grounds = GROUNDS) -> bool:
    """Lift a quarantine as the runtime does, by an operation."""
    with ledger.transaction() as transaction:

        def decide(decision: OperatorDecision) -> str:
            stated = {"decided_by": decision.decided_by, "reason": decision.reason}
            receipt = effect("receipt_only", **stated) | {"receipt_subkind": DECIDED_RECEIPT}
            document = envelope(decision.verb, [receipt], target_refs=list(decision.targets))
            new_id = transaction.host.new_id()
            document |= {"operation_id": new_id, "idempotency_key": f"lift:{new_id}"}
            result = Kernel().submit(transaction, informed(transaction, document), "orchestrator")
            assert isinstance(result, SubmissionResult), result
            return result.operation_id

        return lift_quarantine(transaction, quarantine_id, grounds, decide)


def standing(ledger: Ledger) -> list[str]:
    return ledger.read(lambda view: [each.quarantine_id for each in view.quarantines().standing])


def kinds_found(ledger: Ledger) -> set[tuple[str, str]]:
    with ledger.view() as view:
        return {(finding.table, finding.key) for finding in verify(view).findings}
