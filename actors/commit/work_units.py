"""Records requests of work, their cancelling, and reports of workers (§14.3, §16.5, K19).

A worker names the request and its outcome. The content of the request is read from the record,
never taken from the worker, and an outcome is recorded only while the request has none.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from actors.commit.binding_units import (
    close_unevaluated,
    record_evaluation,
    record_rejection,
    record_suspension,
)
from actors.commit.decision_record import decide_in
from actors.commit.extraction_units import (
    Reported,
    abandon_extraction,
    begin_extraction,
    cancel_extraction,
    fail_extraction,
    finish_extraction,
    restart_extraction,
)
from actors.commit.unit_context import CommitContext
from actors.commit.units import DeadLetterUnit, IntentUnit
from actors.orchestrator.intents import RecordExtractionTransition
from kernel.algebra.verbs import REQUEST_CANCEL, REQUEST_PRIORITIZE
from kernel.authority.requests import AUTHORITY_QUEUE
from kernel.ledger.ledger import LedgerView, Request
from kernel.ledger.receipts import purge_expired
from kernel.model.result import RejectedResult
from kernel.records.extraction import attempt_of, last_attempt
from kernel.records.operator_decisions import OperatorDecision, record_decision
from kernel.retention.archival import ArchivalStep, PreparedStep, take_step
from kernel.values.canonical import digest
from kernel.verify import Verification
from kernel.verify.violation import record_violation
from kernel.work.attempts import AttemptReport, RetryPause, follow_policy, record_attempt
from kernel.work.contents import EXTRACTION_QUEUE, ExtractionTransition
from kernel.work.dead_letters import DeadLetterDismissal, dismiss, requeue
from kernel.work.errors import WorkRefused
from kernel.work.outcomes import (
    close,
    open_request,
    prioritize,
    recorded_request,
    storable,
)
from kernel.work.pauses import PauseDecision, pause, resume
from kernel.work.queue_kinds import (
    QUEUE_KINDS,
    is_built_in,
    is_extraction_task,
    is_requestable,
)
from kernel.work.registrations import QueueRegistration, register
from kernel.work.reports import (
    AttemptFailed,
    AttemptSnoozed,
    BindingEvaluated,
    BindingSuspended,
    CapacityRejected,
    ExtractionBegun,
    ExtractionFailed,
    ExtractionFinished,
    TransitionDue,
    WorkerLost,
    WorkFinished,
    WorkReport,
)
from kernel.work.requests import (
    WorkReceipt,
    WorkRequest,
    WorkStatus,
    enqueue_from_outside,
    read_content,
    status_of,
)
from kernel.work.retry_policy import RetryPolicy
from kernel.work.routing_marks import open_marks, record_page


@dataclass(frozen=True, slots=True)
class RequestWorkUnit:
    """Ask for work: all of the requests, or none."""

    requests: tuple[WorkRequest, ...]
    by_worker: bool = False
    """Whether it is a worker that asks, for schedules too."""

    def run(self, context: CommitContext) -> tuple[WorkReceipt, ...]:
        """Record them; raises `WorkRefused`."""
        by_worker = self.by_worker
        return enqueue_from_outside(context.transaction, self.requests, by_worker=by_worker)


@dataclass(frozen=True, slots=True)
class RegisterQueuesUnit:
    """Record the queues that a worker serves: all of them, or none."""

    registrations: tuple[QueueRegistration, ...]
    served: frozenset[str]
    """The queues that workers serve now."""

    is_new: bool
    """Whether the worker has begun, or repeats what it stated before."""

    def run(self, context: CommitContext) -> int:
        """Return how many were recorded; raises `WorkRefused`."""
        named = self.served | {each.queue for each in self.registrations}
        recorded = (
            register(context.transaction, each, named, is_new=self.is_new)
            for each in self.registrations
        )
        return sum(recorded)


@dataclass(frozen=True, slots=True)
class RoutePageUnit:
    """Route bindings and artifacts on from the first mark that stands."""

    def run(self, context: CommitContext) -> bool:
        """Record its next page; False, and nothing recorded, where no mark stands."""
        marks = open_marks(context.transaction, limit=1)
        return bool(marks) and record_page(context.transaction, marks[0])


@dataclass(frozen=True, slots=True)
class RestartExtractionUnit:
    """Begin an extraction anew whose source was changed under it (INV-EXT-6)."""

    extraction_run_id: str

    def run(self, context: CommitContext) -> Reported:
        """Cancel the run and ask for another; `closed`, and nothing recorded, where it is over."""
        return restart_extraction(context, self.extraction_run_id)


@dataclass(frozen=True, slots=True)
class CancelRequestUnit:
    """Take a request back, unless it has its outcome."""

    request_id: str
    reason: str
    decided_by: str = ""

    def run(self, context: CommitContext) -> tuple[bool, WorkStatus]:
        """Return whether this call cancelled it, and its state.

        Raises `WorkRefused`, `DecisionRefused`.

        The run of an extraction that a worker performs is cancelled with it. What the record itself
        asks for is not cancelled while it is open (decision kernel/0480).
        """
        before = status_of(context.transaction, self.request_id)
        if before is not None and before.state != "open":
            return False, before
        if before is not None and not is_requestable(before.queue):
            message = f"the record asks for {self.request_id}, and it ends when its work is done"
            raise WorkRefused("work_request_not_cancellable", message, "request_id")
        request = open_request(context.transaction, self.request_id)
        if request is not None:
            decision = OperatorDecision(
                REQUEST_CANCEL,
                (self.request_id,),
                storable(self.decided_by),
                storable(self.reason),
            )
            said = record_decision(decision, decide_in(context))
            if is_extraction_task(request):
                cancel_extraction(context, request, self.reason)
            close_unevaluated(context, request, "cancelled", self.reason, said)
        status = status_of(context.transaction, self.request_id)
        assert status is not None, "what was closed is there"  # noqa: S101 - for the types
        return request is not None, status


@dataclass(frozen=True, slots=True)
class PrioritizeUnit:
    """Let an open request wait at another priority of its queue."""

    request_id: str
    priority: str
    reason: str = ""
    decided_by: str = ""

    def run(self, context: CommitContext) -> tuple[bool, WorkStatus]:
        """Return whether this call changed it, and its state.

        Nothing changes where it has its outcome, or waits at that priority.

        Raises `WorkRefused`, `DecisionRefused`.
        """
        transaction = context.transaction
        request = recorded_request(transaction, self.request_id)
        kind = QUEUE_KINDS.get(request.queue)
        if kind is None or not kind.has_priority(self.priority):
            message = f"{request.queue} has no priority {self.priority!r}"
            raise WorkRefused("queue_unknown_priority", message, "priority")
        is_open = transaction.open_request(self.request_id) is not None
        changes = is_open and request.priority != self.priority
        if changes:
            decision = OperatorDecision(
                REQUEST_PRIORITIZE,
                (self.request_id,),
                storable(self.decided_by),
                storable(self.reason),
            )
            said = record_decision(decision, decide_in(context))
            prioritize(transaction, request, self.priority, said)
        status = status_of(transaction, self.request_id)
        assert status is not None, "it is recorded"  # noqa: S101 - for the types
        return changes, status


@dataclass(frozen=True, slots=True)
class RequeueUnit:
    """Ask anew for what was given up: all of it, or nothing."""

    queue: str
    request_ids: tuple[str, ...]
    decided_by: str = ""

    def run(self, context: CommitContext) -> list[WorkReceipt]:
        """Record them; raises `WorkRefused`, `DecisionRefused`."""
        return requeue(
            context.transaction,
            self.queue,
            self.request_ids,
            self.decided_by,
            decide_in(context),
        )


@dataclass(frozen=True, slots=True)
class DismissUnit:
    """Settle what was given up without asking for it anew: all of it, or nothing."""

    queue: str
    request_ids: tuple[str, ...]
    dismissal: DeadLetterDismissal

    def run(self, context: CommitContext) -> int:
        """Record it and return how many were not dismissed before.

        Raises `WorkRefused`, `DecisionRefused`.
        """
        return dismiss(
            context.transaction, self.queue, self.request_ids, self.dismissal, decide_in(context)
        )


@dataclass(frozen=True, slots=True)
class PauseUnit:
    """Pause a queue or one of its priorities, or resume it."""

    decision: PauseDecision
    paused: bool

    def run(self, context: CommitContext) -> bool:
        """Record the decision; False where it was so already.

        Raises `WorkRefused`, `DecisionRefused`.
        """
        record = pause if self.paused else resume
        return record(context.transaction, self.decision, decide_in(context))


@dataclass(frozen=True, slots=True)
class WorkReportUnit:
    """Record a worker's report about a request."""

    report: WorkReport

    def run(self, context: CommitContext) -> Reported:
        """Record the report and return its outcome; one that comes too late leaves no trace."""
        try:
            request = open_request(context.transaction, self.report.request_id)
        except WorkRefused:
            return _record_unasked(context, self.report)
        if request is None:
            return "closed", None
        return _REPORTS[type(self.report)](context, request, self.report)


@dataclass(frozen=True, slots=True)
class RetryPolicyUnit:
    """Let requests that wait for their next attempt wait by another policy, a page of them."""

    queue: str
    policy: RetryPolicy

    def run(self, context: CommitContext) -> int:
        """Give up those that have failed too often for it, and return how many those are."""
        given_up = follow_policy(context.transaction, self.queue, self.policy)
        for request_id, reason in given_up:
            request = recorded_request(context.transaction, request_id)
            _give_up(context, request, (), reason)
        return len(given_up)


def _record_transition(context: CommitContext, request: Request, report: TransitionDue) -> Reported:
    """The step is recorded and its request closed, in one transaction."""
    if request.queue != EXTRACTION_QUEUE:
        return "unknown", None
    content = read_content(request)
    if not isinstance(content, ExtractionTransition):
        return "unknown", None
    run, number = content.extraction_run_id, content.attempt_number
    view = context.transaction
    last = last_attempt(view, run)
    attempts = 0 if last is None else last["attempt_number"]
    if number > attempts + 1 or _waits_for_a_cancellation(view, content):
        return "early", None
    step = dict(request.document["content"])
    del step["extraction_run_id"]
    if number > 1 and content.parent_operation_id is None:
        before = attempt_of(view, run, number - 1)
        step["parent_operation_id"] = None if before is None else before["operation_id"]
    intent = RecordExtractionTransition(
        intent_key=digest([run, number]), extraction_run_id=run, step=step
    )
    result = IntentUnit(intent, None, "system").run(context)
    if isinstance(result, RejectedResult):
        return "rejected", result
    operation_id = result.operation_id
    close(view, request.request_id, "completed", operation_id=operation_id, attempt=report)
    return "completed", result


def _waits_for_a_cancellation(view: LedgerView, content: ExtractionTransition) -> bool:
    """Whether the run that this one replaces is still to be cancelled (INV-EXT-6)."""
    replaced = content.replaces_extraction_run_id
    if replaced is None:
        return False
    last = last_attempt(view, replaced)
    return last is None or last["current_state"] != "cancelled"


def _record_unasked(context: CommitContext, report: WorkReport) -> Reported:
    """Record what became of work that the record itself asks for; of others nothing is known."""
    if not isinstance(report, AttemptReport):
        return "unknown", None
    try:
        recorded_request(context.transaction, report.request_id)
    except WorkRefused:
        return "unknown", None
    request = context.transaction.open_request(report.request_id)
    return ("closed", None) if request is None else _record_attempt(context, request, report)


def _record_attempt(context: CommitContext, request: Request, report: AttemptReport) -> Reported:
    verdict = record_attempt(context.transaction, request, report)
    if isinstance(verdict, RetryPause):
        return "waits", verdict
    _give_up(context, request, report.joined, verdict.reason)
    return "completed", None


def _give_up(
    context: CommitContext, request: Request, joined: tuple[str, ...], reason: str
) -> None:
    """Close a request as a dead letter, with those that were joined to it in one item."""
    if request.queue == AUTHORITY_QUEUE:
        DeadLetterUnit(request.item_key, reason, (request.request_id, *joined)).run(context)
    elif is_extraction_task(request):
        abandon_extraction(context, request, reason)
    else:
        close_unevaluated(context, request, "dead_letter", reason)


def _finish_work(context: CommitContext, request: Request, report: WorkFinished) -> Reported:
    """Close the request with what its handler returned; built-in queues have rules of their own."""
    if is_built_in(request.queue):
        return "unknown", None
    close(
        context.transaction,
        request.request_id,
        "completed",
        handler_result=report.result,
        attempt=report,
    )
    return "completed", None


_REPORTS: Mapping[type, Callable[[CommitContext, Request, Any], Reported]] = MappingProxyType(
    {
        TransitionDue: _record_transition,
        BindingEvaluated: record_evaluation,
        BindingSuspended: record_suspension,
        CapacityRejected: record_rejection,
        ExtractionBegun: begin_extraction,
        ExtractionFinished: finish_extraction,
        ExtractionFailed: fail_extraction,
        WorkFinished: _finish_work,
        AttemptFailed: _record_attempt,
        AttemptSnoozed: _record_attempt,
        WorkerLost: _record_attempt,
    }
)


@dataclass(frozen=True, slots=True)
class RetentionSweepUnit:
    """Delete the receipts that are kept for a time and whose time is over (§17.2)."""

    def run(self, context: CommitContext) -> dict[str, int]:
        """Return how many went; again none does."""
        return {"ephemeral_receipts": purge_expired(context.transaction)}


@dataclass(frozen=True, slots=True)
class ArchivalUnit:
    """Take a step of archival that was prepared (§17.7)."""

    prepared: PreparedStep

    def run(self, context: CommitContext) -> ArchivalStep:
        """Return what was done; nothing where others have done it."""
        return take_step(context.transaction, self.prepared)


@dataclass(frozen=True, slots=True)
class AuditUnit:
    """Leave a receipt of what an audit of the chains found, once for the same findings (§17.5)."""

    verification: Verification

    def run(self, context: CommitContext) -> str | None:
        """Return the receipt's id, None where it is there already."""
        return record_violation(context.transaction, self.verification, once=True)
