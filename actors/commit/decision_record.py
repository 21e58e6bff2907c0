"""Puts what somebody decides on the log, in the transaction of its unit."""

from actors.commit.unit_context import CommitContext
from actors.commit.units import IntentUnit
from actors.errors import DecisionRefused
from actors.orchestrator.intents import RecordDecision
from kernel.model.result import RejectedResult
from kernel.records.operator_decisions import Decide, OperatorDecision


def decide_in(context: CommitContext) -> Decide:
    """Return what puts a decision on the log of a transaction.

    It raises `DecisionRefused` with the code of the kernel's refusal.
    """

    def decide(decision: OperatorDecision) -> str:
        # The same may be decided again after something else was.
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
