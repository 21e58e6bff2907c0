"""What puts an operator's decision on the log of a transaction that a test has open."""

from actors.commit.decision_record import decide_in
from actors.commit.unit_context import CommitContext
from actors.orchestrator.orchestrator import Orchestrator
from kernel.ledger.ledger import LedgerTransaction
from kernel.records.operator_decisions import Decide
from kernel.transaction.kernel import Kernel


def deciding(transaction: LedgerTransaction) -> Decide:
    return decide_in(CommitContext(transaction, Kernel(), Orchestrator(transaction.host)))
