"""The handler of extractions: steps of a run, which the gateway records in their order (§16.5).

The step is on the record with its request, so the worker only reports that it is due. The relay
sends a step when the one before has its outcome.
"""

from collections.abc import Sequence

from kernel.work.contents import EXTRACTION_QUEUE
from kernel.work.reports import GivenUp, TransitionDue
from queues.items import Claim
from workers.worker.batches import ClaimResult, Handler, settlement_of
from workers.worker.gateway_reports import GatewayReporter, told_of

REPORTS_PATH = "/internal/work"


class TransitionHandler(Handler):
    """Turns claims into recorded steps."""

    def __init__(self, reporter: GatewayReporter) -> None:
        self._reporter = reporter

    async def handle(self, claims: Sequence[Claim]) -> list[ClaimResult]:
        """Report each step as due and say how each claim ends."""
        reports = [TransitionDue(request_id=claim.key).model_dump() for claim in claims]
        shared = {"queue": EXTRACTION_QUEUE}
        outcomes = await self._reporter.batch(REPORTS_PATH, "reports", reports, shared, claims)
        return [
            # A state machine that refuses a step refuses it again.
            settlement_of(claim, outcome, rejection_is_final=True)
            for claim, outcome in zip(claims, outcomes, strict=True)
        ]

    async def give_up(self, claim: Claim, code: str) -> None:
        """Record the request as a dead letter."""
        await report_given_up(self._reporter, EXTRACTION_QUEUE, claim, code)


async def report_given_up(reporter: GatewayReporter, queue: str, claim: Claim, code: str) -> None:
    """Record the request of an item as a dead letter; raises `GatewayError`."""
    report = GivenUp(request_id=claim.key, error_signature=code[:200])
    body = {"reports": [report.model_dump()], "queue": queue, **told_of([claim])}
    await reporter.post(REPORTS_PATH, body)
