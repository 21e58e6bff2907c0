"""The handler of bindings: evaluates as many as capacity and fan-out allow (§14.1, §14.3).

The evaluation itself is behind the port `BindingEvaluator`; a worker without one gives an item up
as `binding_evaluator_missing` (decision workers/0018). Before the evaluation come the fan-out of
the event and the capacity. An evaluation holds a lease of its own (`binding_evaluation`,
`ROTULUS_BINDING_SLOTS`), taken at its capacity priority for the batch and renewed as its claims
are, so that a killed worker keeps nobody waiting for longer than a claim. Without a lease
`kernel.pressure.course_of` decides: a critical binding runs, a user's runs after a pause, and the
rest of the background is suspended in the queue, in the order of suspension. A binding to which
capacity was refused under way comes back a second later, because its lease says that there is some.

Every `BindingOutcomeRecord` goes to an observer, by default the process's log; one that is not
pending stands on the receipt that closes the request as well.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import anyio
import anyio.to_thread
import structlog

from kernel.ledger.ledger import Ledger, Request
from kernel.priorities import CAPACITY_PRIORITIES, CapacityPriority, capacity_priority_of
from kernel.work.contents import BINDING_QUEUE, BindingEvaluation
from kernel.work.ready_requests import FanOut, fan_out_of
from kernel.work.reports import (
    BindingEvaluated,
    BindingOutcomeRecord,
    CapacityRejected,
    WorkReport,
)
from kernel.work.requests import read_content
from queues.items import Claim
from queues.lease_holder import LeaseHolder
from workers.worker.batches import ClaimResult, Handler, settlement_of
from workers.worker.gateway_reports import GatewayReporter, Outcome
from workers.worker.handlers.binding_evaluator import (
    EVALUATION_S_MAX,
    BindingCapacity,
    BindingEvaluator,
    Evaluated,
    MidEvaluationRejection,
)
from workers.worker.handlers.extraction import REPORTS_PATH, report_given_up

EVALUATOR_MISSING = "binding_evaluator_missing"
SUSPENDED = "binding_suspended_capacity_pressure"
REJECTED = "capacity_rejected_mid_evaluation"
DEFERRED = "binding_deferred_fan_out_limit"

REJECTED_DELAY_MS = 1000
"""Pause after which a binding is tried again to which capacity was refused under way."""

_log = structlog.get_logger(__name__)


_PENDING_SUSPENDED = Evaluated("pending", SUSPENDED)
_PENDING_REJECTED = Evaluated("pending", REJECTED)


def log_outcome(outcome: BindingOutcomeRecord) -> None:
    """Write an outcome to the process's log."""
    _log.info("binding_outcome", **outcome.model_dump(mode="json", exclude_none=True))


def _outcome_of(request: Request, evaluated: Evaluated) -> BindingOutcomeRecord:
    evaluation: BindingEvaluation = read_content(request)
    return BindingOutcomeRecord(
        outcome_id=f"outcome:{request.request_id}",
        source_event_id=evaluation.source_event_id,
        binding_id=evaluation.binding_id,
        target_kind=evaluation.target_kind,
        outcome_state=evaluated.outcome_state,
        outcome_target_ref=evaluated.outcome_target_ref,
        outcome_reason_code=evaluated.outcome_reason_code,
    )


@dataclass(frozen=True, slots=True)
class _Due:
    """A claim whose request is open."""

    claim: Claim
    request: Request

    @property
    def capacity_priority(self) -> CapacityPriority:
        return capacity_priority_of(self.request.priority)


class BindingHandler(Handler):
    """Turns claims into outcomes of bindings."""

    def __init__(
        self,
        ledger: Ledger,
        reporter: GatewayReporter,
        capacity: BindingCapacity,
        evaluator: BindingEvaluator | None,
        now_us: Callable[[], int],
        observe: Callable[[BindingOutcomeRecord], None] = log_outcome,
    ) -> None:
        """`observe` is called with every outcome, pending ones included."""
        self._observe = observe
        self._ledger = ledger
        self._reporter = reporter
        self._capacity = capacity
        self._evaluator = evaluator
        self._now_us = now_us

    async def handle(self, claims: Sequence[Claim]) -> list[ClaimResult]:
        """Evaluate what may be evaluated now and say how each claim ends."""
        due, plans = await anyio.to_thread.run_sync(self._read, claims)
        there = {evaluation.claim.key for evaluation in due}
        settled = [ClaimResult(claim, "done") for claim in claims if claim.key not in there]
        evaluator = self._evaluator
        if evaluator is None:
            code = EVALUATOR_MISSING
            return settled + [
                ClaimResult(evaluation.claim, "failed", code, final=True) for evaluation in due
            ]
        admitted = [
            evaluation
            for evaluation in due
            if evaluation.request.request_id in plans[evaluation.request.item_key].admitted
        ]
        settled += self._defer(
            [evaluation for evaluation in due if evaluation not in admitted], plans
        )
        return settled + await self._evaluate_all(evaluator, admitted)

    async def least_capacity(self) -> CapacityPriority:
        """Return the least priority that would not be suspended at once; no less is claimed."""
        return await self._capacity.least_capacity()

    async def renew(self) -> None:
        """Keep the slots in which evaluations run."""
        await self._capacity.renew()

    async def give_up(self, claim: Claim, code: str) -> None:
        """Record the request as a dead letter."""
        await report_given_up(self._reporter, BINDING_QUEUE, claim, code)

    def _read(self, claims: Sequence[Claim]) -> tuple[list[_Due], dict[str, FanOut]]:
        """Read the open requests and, for each of their events, what its cycle admits."""
        due, plans = [], {}
        with self._ledger.view() as view:
            for claim in claims:
                request = view.open_request(claim.key)
                if request is None:
                    continue
                due.append(_Due(claim, request))
                if request.item_key not in plans:
                    plans[request.item_key] = fan_out_of(view, request.item_key, self._now_us())
        return due, plans

    def _defer(self, deferred: Sequence[_Due], plans: Mapping[str, FanOut]) -> list[ClaimResult]:
        """Put off bindings of a later cycle of their event until that cycle begins (K.30)."""
        settled = []
        for event in dict.fromkeys(evaluation.request.item_key for evaluation in deferred):
            plan = plans[event]
            _log.warning(
                DEFERRED,
                source_event_id=event,
                bindings_admitted=len(plan.admitted),
                bindings_deferred=len(plan.deferred),
                deferred_evaluation_at_us=plan.deferred_evaluation_at_us,
            )
        for evaluation in deferred:
            until_us = (
                plans[evaluation.request.item_key].deferred_evaluation_at_us or self._now_us()
            )
            delay_ms = max(1, (until_us - self._now_us()) // 1000)
            settled.append(ClaimResult(evaluation.claim, "put_off", DEFERRED, delay_ms))
        return settled

    async def _evaluate_all(
        self, evaluator: BindingEvaluator, admitted: Sequence[_Due]
    ) -> list[ClaimResult]:
        """Evaluate one after another in one slot, the most urgent first, and suspend the rest."""
        settled = list[ClaimResult]()
        urgency = CAPACITY_PRIORITIES[::-1]
        waiting = sorted(
            admitted, key=lambda evaluation: urgency.index(evaluation.capacity_priority)
        )
        async with self._capacity.holder() as holder:
            for place, evaluation in enumerate(waiting):
                course = await self._capacity.course(holder, evaluation.capacity_priority)
                if course.action == "suspend":
                    return settled + [self._suspend(evaluation) for evaluation in waiting[place:]]
                if course.action == "throttle":
                    await anyio.sleep(course.for_ms / 1000)
                settled.append(await self._evaluate(evaluator, evaluation, holder))
        return settled

    def _suspend(self, evaluation: _Due) -> ClaimResult:
        self._observe(_outcome_of(evaluation.request, _PENDING_SUSPENDED))
        return ClaimResult(evaluation.claim, "suspended", SUSPENDED)

    async def _evaluate(
        self, evaluator: BindingEvaluator, due: _Due, holder: LeaseHolder
    ) -> ClaimResult:
        """Evaluate and hand the outcome in."""
        evaluation: BindingEvaluation = read_content(due.request)
        try:
            with anyio.fail_after(EVALUATION_S_MAX):
                evaluated = await evaluator.evaluate(due.request.request_id, evaluation)
            outcome = _outcome_of(due.request, evaluated)
        except MidEvaluationRejection as rejection:
            return await self._hand_in_rejection(due, rejection, holder)
        except TimeoutError:
            return ClaimResult(due.claim, "failed", "binding_evaluation_timeout")
        except Exception as error:  # noqa: BLE001 - one binding's failure is not its batch's
            _log.error("binding_not_evaluated", request_id=due.claim.key, error=repr(error))
            return ClaimResult(due.claim, "failed", "binding_evaluation_failed")
        self._observe(outcome)
        report = BindingEvaluated(request_id=due.request.request_id, outcome=outcome)
        handed_in = await self._report(due.claim, report)
        return settlement_of(due.claim, handed_in, rejection_is_final=True)

    async def _hand_in_rejection(
        self, due: _Due, rejection: MidEvaluationRejection, holder: LeaseHolder
    ) -> ClaimResult:
        """Record that capacity was refused; the item comes back at its retry's priority."""
        self._observe(_outcome_of(due.request, _PENDING_REJECTED))
        report = CapacityRejected(
            request_id=due.request.request_id,
            binding_evaluation_id=rejection.binding_evaluation_id,
            retry_eligible=rejection.retry_eligible,
            capacity_signal_at_rejection=await self._capacity.signal(holder, due.capacity_priority),
        )
        handed_in = await self._report(due.claim, report)
        if handed_in["outcome"] != "recorded":
            return settlement_of(due.claim, handed_in, rejection_is_final=True)
        if not rejection.retry_eligible:
            return ClaimResult(due.claim, "failed", REJECTED, final=True)
        if due.capacity_priority == "critical":
            # The record asks for it as background from now on, and the relay sends it as that.
            return ClaimResult(due.claim, "done")
        return ClaimResult(due.claim, "put_off", REJECTED, REJECTED_DELAY_MS)

    async def _report(self, claim: Claim, report: WorkReport) -> Outcome:
        shared, reports = {"queue": BINDING_QUEUE}, [report.model_dump(mode="json")]
        [handed_in] = await self._reporter.batch(REPORTS_PATH, "reports", reports, shared, [claim])
        return handed_in
