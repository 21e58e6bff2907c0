"""Evaluates as many bindings as capacity and fan-out allow (§14.1, §14.3).

The evaluation itself is behind the port `BindingEvaluator` (decision workers/0121). Before it come
the fan-out of the event and the capacity. An evaluation holds a lease of its own
(`binding_evaluation`, `ROTULUS_BINDING_SLOTS`), taken at its capacity priority for the batch and
renewed as its claims are, so that a killed worker keeps nobody waiting for longer than a claim.
Without a lease `course_of` decides: a critical binding runs, a user's runs after a pause, and the
rest of the background is suspended in the queue, in the order of suspension. A binding to which
capacity was refused under way comes back a second later, because its lease says that there is some.

The evaluations of a batch are handed in together. The gateway evaluates again as it records, and
where the record has moved on in between the item comes back at once.

Every `BindingOutcomeRecord` goes to an observer, by default the process's log, and stands on a
receipt of the record.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import anyio
import anyio.to_thread
import structlog

from kernel.ledger.ledger import Ledger, Request
from kernel.model.bindings.outcomes import REJECTED, SUSPENDED, BindingOutcomeRecord
from kernel.values.errors import LedgerUnavailable
from kernel.values.priorities import CAPACITY_PRIORITIES, CapacityPriority, capacity_priority_of
from kernel.work.contents import BINDING_QUEUE, BindingEvaluation
from kernel.work.ready_requests import FanOut, fan_out_of
from kernel.work.reports import (
    BindingEvaluated,
    BindingSuspended,
    CapacityRejected,
    WorkReport,
)
from kernel.work.requests import read_content
from queues.leases.lease_holder import LeaseHolder
from queues.queue.items import Claim
from workers.worker.attempts import ErrorTexts, log_fields
from workers.worker.batch_progress import note_progress
from workers.worker.batches import (
    ClaimResult,
    Handler,
    attempt_fields,
    failed_claim,
    leave_closed,
    settlement_of,
)
from workers.worker.gateway_reports import REPORTS_PATH, GatewayReporter, Outcome
from workers.worker.handlers.binding_evaluator import (
    EVALUATION_S_MAX,
    BindingCapacity,
    BindingEvaluator,
    Evaluated,
    MidEvaluationRejection,
)

DEFERRED = "binding_deferred_fan_out_limit"

REJECTED_DELAY_MS = 1000
"""Pause after which a binding is tried again to which capacity was refused under way."""

_log = structlog.get_logger(__name__)


def log_outcome(outcome: BindingOutcomeRecord) -> None:
    """Write an outcome to the process's log."""
    _log.info("binding_outcome", **outcome.model_dump(mode="json", exclude_none=True))


def _pending(request: Request, reason: str) -> BindingOutcomeRecord:
    evaluation: BindingEvaluation = read_content(request)
    return BindingOutcomeRecord(
        outcome_id=f"outcome:{request.request_id}",
        source_event_id=evaluation.source_event_id,
        binding_id=evaluation.binding_id,
        target_kind=evaluation.target_kind,
        outcome_state="pending",
        outcome_reason_code=reason,
    )


@dataclass(frozen=True, slots=True)
class _Due:
    """A claim whose request is open."""

    claim: Claim
    request: Request

    @property
    def capacity_priority(self) -> CapacityPriority:
        return capacity_priority_of(self.request.priority)


@dataclass(frozen=True, slots=True)
class _Evaluated:
    """A claim, and what its binding was evaluated to."""

    due: _Due
    evaluated: Evaluated


class BindingHandler(Handler):
    """Turns claims into outcomes of bindings."""

    def __init__(
        self,
        ledger: Ledger,
        reporter: GatewayReporter,
        capacity: BindingCapacity,
        evaluator: BindingEvaluator,
        now_us: Callable[[], int],
        texts: ErrorTexts,
        observe: Callable[[BindingOutcomeRecord], None] = log_outcome,
    ) -> None:
        """`observe` is called with every outcome, pending ones included."""
        self._observe = observe
        self._texts = texts
        self._ledger = ledger
        self._reporter = reporter
        self._capacity = capacity
        self._evaluator = evaluator
        self._now_us = now_us

    async def handle(self, claims: Sequence[Claim]) -> list[ClaimResult]:
        """Evaluate what may be evaluated now and say how each claim ends."""
        due, plans = await anyio.to_thread.run_sync(self._read, claims)
        there = {evaluation.claim.key for evaluation in due}
        gone = [claim for claim in claims if claim.key not in there]
        settled = await leave_closed(self._ledger, gone)
        admitted = [
            evaluation
            for evaluation in due
            if evaluation.request.request_id in plans[evaluation.request.item_key].admitted
        ]
        settled += self._defer(
            [evaluation for evaluation in due if evaluation not in admitted], plans
        )
        return settled + await self._evaluate_all(admitted)

    async def least_capacity(self) -> CapacityPriority:
        """Return the least priority that would not be suspended at once; no less is claimed."""
        return await self._capacity.least_capacity()

    async def renew(self) -> None:
        """Keep the slots in which evaluations run."""
        await self._capacity.renew()

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

    async def _evaluate_all(self, admitted: Sequence[_Due]) -> list[ClaimResult]:
        """Evaluate one after another in one slot, the most urgent first, and suspend the rest."""
        settled = list[ClaimResult]()
        evaluated = list[_Evaluated]()
        suspended: Sequence[_Due] = ()
        urgency = CAPACITY_PRIORITIES[::-1]
        waiting = sorted(
            admitted, key=lambda evaluation: urgency.index(evaluation.capacity_priority)
        )
        async with self._capacity.holder() as holder:
            for place, due in enumerate(waiting):
                course = await self._capacity.course(holder, due.capacity_priority)
                if course.action == "suspend":
                    suspended = waiting[place:]
                    break
                if course.action == "throttle":
                    await anyio.sleep(course.for_ms / 1000)
                result = await self._evaluate(due, holder)
                if isinstance(result, ClaimResult):
                    settled.append(result)
                else:
                    evaluated.append(result)
                note_progress()
            settled += await self._hand_in(evaluated, holder)
        return settled + await self._suspend(suspended)

    async def _suspend(self, suspended: Sequence[_Due]) -> list[ClaimResult]:
        """Let items wait for capacity; the record tells of it once for each."""
        for due in suspended:
            self._observe(_pending(due.request, SUSPENDED))
        reports = [BindingSuspended(request_id=due.request.request_id) for due in suspended]
        # Whether it could be recorded changes nothing for the item.
        await self._report([due.claim for due in suspended], reports)
        return [ClaimResult(due.claim, "suspended", SUSPENDED) for due in suspended]

    async def _evaluate(self, due: _Due, holder: LeaseHolder) -> _Evaluated | ClaimResult:
        """Evaluate, or return how the claim ends without an outcome."""
        try:
            with anyio.move_on_after(EVALUATION_S_MAX) as limit:
                evaluated = await self._evaluator.evaluate(due.request)
        except MidEvaluationRejection as rejection:
            return await self._hand_in_rejection(due, rejection, holder)
        except LedgerUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - one binding's failure is not its batch's
            described = await self._texts.of(error, "binding_evaluation_failed")
            _log.error(
                "binding_not_evaluated",
                request_id=due.claim.key,
                attempt=due.claim.attempt,
                worker=self._texts.worker_id,
                **log_fields(described),
            )
            return failed_claim(due.claim, described)
        if limit.cancelled_caught:
            return ClaimResult(due.claim, "failed", "binding_evaluation_timeout")
        self._observe(evaluated.outcome)
        return _Evaluated(due, evaluated)

    async def _hand_in(
        self, evaluated: Sequence[_Evaluated], holder: LeaseHolder
    ) -> list[ClaimResult]:
        """Report what was evaluated, and say how each claim ends."""
        reports = [
            BindingEvaluated(
                request_id=item.due.request.request_id,
                outcome=item.evaluated.outcome,
                evaluated_on=item.evaluated.evaluated_on,
                particulars=item.evaluated.particulars,
                **attempt_fields(item.due.claim, self._texts.worker_id, self._now_us()),
            )
            for item in evaluated
        ]
        answers = await self._report([item.due.claim for item in evaluated], reports)
        settled = []
        for item, answer in zip(evaluated, answers, strict=True):
            if answer["outcome"] == "out_of_capacity":
                rejection = MidEvaluationRejection()
                settled.append(await self._hand_in_rejection(item.due, rejection, holder))
            else:
                settled.append(settlement_of(item.due.claim, answer, rejection_is_final=True))
        return settled

    async def _hand_in_rejection(
        self, due: _Due, rejection: MidEvaluationRejection, holder: LeaseHolder
    ) -> ClaimResult:
        """Record that capacity was refused; the item comes back at its retry's priority."""
        self._observe(_pending(due.request, REJECTED))
        report = CapacityRejected(
            request_id=due.request.request_id,
            binding_evaluation_id=rejection.binding_evaluation_id,
            retry_eligible=rejection.retry_eligible,
            capacity_signal_at_rejection=await self._capacity.signal(holder, due.capacity_priority),
        )
        [handed_in] = await self._report([due.claim], [report])
        if handed_in["outcome"] != "recorded":
            return settlement_of(due.claim, handed_in, rejection_is_final=True)
        if not rejection.retry_eligible:
            return ClaimResult(due.claim, "failed", REJECTED, final=True)
        if due.capacity_priority == "critical":
            # The record asks for it as background from now on, and the relay sends it as that.
            return ClaimResult(due.claim, "done")
        return ClaimResult(due.claim, "put_off", REJECTED, REJECTED_DELAY_MS)

    async def _report(
        self, claims: Sequence[Claim], reports: Sequence[WorkReport]
    ) -> list[Outcome]:
        shared = {"queue": BINDING_QUEUE}
        bodies = [report.model_dump(mode="json") for report in reports]
        return await self._reporter.batch(REPORTS_PATH, "reports", bodies, shared, claims)
