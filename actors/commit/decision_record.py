"""Writes decisions of operators to the log, each in the transaction of its unit."""

from actors.commit.unit_context import CommitContext
from actors.commit.units import IntentUnit
from actors.errors import DecisionRefused
from actors.orchestrator.intents import RecordDecision
from kernel.model.result import RejectedResult
from kernel.records.operator_decisions import Decide, OperatorDecision


def decide_in(context: CommitContext) -> Decide:
    """Return a function that writes a decision in this transaction and returns its operation's id.

    It raises `DecisionRefused` with the code of the kernel's refusal.
    """

    def decide(decision: OperatorDecision) -> str:
        # A new key each time: the same may be decided twice.
        intent = RecordDecision(
            intent_key=context.transaction.host.new_id(),
            verb=decision.verb,
            targets=decision.targets,
            decided_by=decision.decided_by,
            reason=decision.reason,
        )
        result = IntentUnit(intent, None).run(context)
        if isinstance(result, RejectedResult):
            raise DecisionRefused(result.rejection.reason_code, result.rejection.message)
        return result.operation_id

    return decide
