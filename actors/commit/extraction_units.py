"""Takes an extraction's steps that a worker performs, in the transactions of its reports (§16).

A run has one open request while it goes on, so it always comes back to a worker (decision
kernel/0291). Each report of one takes the run as it stands on the record and makes its next step. A
run whose source was changed is restarted without one (decision kernel/0340):

| Report | From | To |
|---|---|---|
| begun | pending, degraded, blocked | running; the request stays open |
| begun | running, and the text has changed | cancelled, and a new run is asked for |
| none: a write has changed the text | running | cancelled, and a new run is asked for |
| finished | running | succeeded or degraded, with the claims |
| finished, failed | running, and the text has changed | cancelled, and a new run is asked for |
| finished, failed | running, and the result does not hold | blocked or abandoned |
| given up | running, blocked | abandoned |

The claims and the step that says what they are written with are one transaction, which closes the
request: a crash before it loses nothing, one after it repeats nothing (decision kernel/0290).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from actors.commit.unit_context import CommitContext
from actors.commit.units import IntentUnit, Submitted
from actors.errors import IntentInvalid
from actors.orchestrator.intents import (
    Extraction,
    Intent,
    RecordExtractedClaim,
    RecordExtractionTransition,
    SourceSpan,
)
from kernel.ledger.ledger import Document, LedgerView, Request
from kernel.model.extraction_result import ExtractionRefused, ExtractionResult, read_extraction
from kernel.model.model_output import CapturedOutput
from kernel.model.result import RejectedResult
from kernel.records.extraction import (
    ENDED,
    REPLACEABLE,
    SOURCE_CHANGED,
    TRANSITIONS,
    attempts_of,
    last_attempt,
)
from kernel.records.running_extractions import has_changed_source
from kernel.values.canonical import digest
from kernel.work.attempts import RetryPause, record_failure
from kernel.work.contents import ExtractionTask
from kernel.work.errors import WorkRefused
from kernel.work.extraction_sources import SourceText, read_source
from kernel.work.extractions.failures import (
    FAILURES,
    REFUSED,
    RESOLVED,
    UNKNOWN,
    Failure,
    ending_of,
)
from kernel.work.extractions.requests import request_reentry, request_replacement
from kernel.work.outcomes import close, storable
from kernel.work.queue_kinds import is_extraction_task
from kernel.work.reports import (
    ExtractionBegun,
    ExtractionFailed,
    ExtractionFinished,
    ReportOutcome,
)
from kernel.work.requests import read_content

Reported = tuple[ReportOutcome, Submitted | RetryPause | None]
"""The outcome of a report, and the result of the operation if there was one, or the pause until the
next attempt."""

RESTARTED: Final = "Extraction restarted because document was updated"
"""The first step of the run that follows one whose source changed says so (INV-EXT-6)."""

REQUEUED: Final = "requeued_by_user"
SUCCEEDED: Final = "all required fields populated"
ATTEMPTS_READ_MAX = 1000
CAPACITY_SHORT: Final = "envelope_capacity_unavailable"

_FACTS = ("source_ref", "source_text_sha256", "extractor", "corpus_id")
"""What every step of a performed run repeats, so that the last one says it."""


class _StepRefusedError(Exception):
    """The kernel refused an operation of a result: all of the result goes back."""

    def __init__(self, intent: Intent) -> None:
        super().__init__()
        self.intent = intent


@dataclass(slots=True)
class _Run:
    """A run as it stands, and the open request that it belongs to."""

    context: CommitContext
    request: Request
    task: ExtractionTask
    last: Document | None
    attempt: ExtractionFinished | None = None
    """What is reported of the attempt, where it came to something."""

    @property
    def state(self) -> str:
        return "pending" if self.last is None else str(self.last["current_state"])

    @property
    def content(self) -> Document:
        content: Document = self.request.document["content"]
        return content

    def step(
        self, current: str, reason: str, outputs: tuple[CapturedOutput, ...] = (), **facts: Any
    ) -> Submitted:
        """Record the next step; the run is as it was where that is refused."""
        intent = self.step_intent(current, reason, outputs, facts)
        result = IntentUnit(intent, None, "system").run(self.context)
        if not isinstance(result, RejectedResult):
            self.last = last_attempt(self.context.transaction, self.task.extraction_run_id)
        return result

    def step_intent(
        self,
        current: str,
        reason: str,
        outputs: tuple[CapturedOutput, ...],
        facts: Mapping[str, Any],
    ) -> RecordExtractionTransition:
        run_id, last = self.task.extraction_run_id, self.last
        number = 1 if last is None else last["attempt_number"] + 1
        step: Document = {
            "attempt_number": number,
            "prior_state": self.state,
            "current_state": current,
            "state_change_reason": storable(reason),
            **{name: last[name] for name in _FACTS if last is not None and name in last},
            **facts,
        }
        if last is not None:
            step["parent_operation_id"] = last["operation_id"]
        # A source that is not there taints nothing, and cannot be named as read.
        is_there = self.context.transaction.node(self.task.source_ref) is not None
        return RecordExtractionTransition(
            intent_key=digest([run_id, number]),
            extraction_run_id=run_id,
            step=step,
            source_refs=(self.task.source_ref,) if is_there else (),
            outputs=outputs,
        )

    def close(self, result: Submitted | None, **stated: Any) -> Reported:
        """Close the request as completed, with the state of the run as its result."""
        operation_id = None if result is None else result.operation_id
        ended = {"extraction_run_id": self.task.extraction_run_id, "extraction_state": self.state}
        close(
            self.context.transaction,
            self.request.request_id,
            "completed",
            operation_id=operation_id,
            result=ended | stated,
            attempt=self.attempt,
        )
        return "completed", result

    def bury(self, reason: str, result: Submitted | None = None) -> Reported:
        """Close the request as a dead letter, which a person may requeue (INV-EXT-4)."""
        operation_id = None if result is None else result.operation_id
        close(
            self.context.transaction,
            self.request.request_id,
            "dead_letter",
            operation_id=operation_id,
            reason=reason,
            attempt=self.attempt,
        )
        return "completed", result

    def fail(self, code: str, failure: Failure | None = None) -> Reported:
        """End the running try as its failure says."""
        ending = ending_of(failure or FAILURES.get(code, UNKNOWN), self._count_blocked())
        if ending.block_reason is None:
            result = self.step("abandoned", code)
            return _refusal_in(result) or self.bury(code, result)
        result = self.step("blocked", code, block_reason=ending.block_reason)
        if isinstance(result, RejectedResult):
            return "rejected", result
        stated: Document = {"block_reason": ending.block_reason, "reason": code}
        if ending.retry_s is not None and self.last is not None:
            stated["reentry_request_id"] = request_reentry(
                self.context.transaction,
                self.content,
                RESOLVED[ending.block_reason],
                after_attempt=self.last["attempt_number"],
                delay_s=ending.retry_s,
                priority=self.request.priority,
                tags=self.request.document.get("tags", {}),
            )
        return self.close(result, **stated)

    def replace(self) -> Reported:
        """Cancel the run because its source has changed, and ask for one that begins anew."""
        result = self.step("cancelled", SOURCE_CHANGED, cancellation_reason=SOURCE_CHANGED)
        return _refusal_in(result) or self.close(result, replaced_by=self._ask_anew(RESTARTED))

    def requeue(self) -> Reported:
        """Ask for a run in the place of this abandoned one, because a person wants it."""
        return self.close(None, replaced_by=self._ask_anew(REQUEUED))

    def _ask_anew(self, cause: str) -> str:
        return request_replacement(
            self.context.transaction,
            self.content,
            cause,
            priority=self.request.priority,
            tags=self.request.document.get("tags", {}),
        )

    def _count_blocked(self) -> int:
        """Count the tries that were blocked and cost one of those that follow by themselves."""
        steps = attempts_of(
            self.context.transaction, self.task.extraction_run_id, limit=ATTEMPTS_READ_MAX
        )
        return sum(
            step["current_state"] == "blocked"
            and not FAILURES.get(step["state_change_reason"], UNKNOWN).waits_for_worker
            for step in steps
        )


def begin_extraction(context: CommitContext, request: Request, report: ExtractionBegun) -> Reported:
    """Record that a run is running; `recorded` where the worker is to go on."""
    run = _run(context, request)
    if run is None:
        return "unknown", None
    if run.state in ENDED:
        return _begin_ended(run)
    if _waits_for_an_end(context.transaction, run.task):
        return "early", None
    last = run.last
    if last is not None and last.get("source_ref") != run.task.source_ref:
        return run.bury("extraction_run_of_another_source")
    source = _read(context.transaction, run.task.source_ref)
    began_with = "" if last is None else last.get("source_text_sha256", "")
    if isinstance(source, SourceText) and began_with not in ("", source.sha256):
        return run.replace()
    result: Submitted | None = None
    if run.state != "running":
        result = run.step("running", run.task.cause, **_facts_of(run, source, report.extractor))
    if isinstance(result, RejectedResult):
        return "rejected", result
    if isinstance(source, ExtractionRefused):
        return run.fail(source.code)
    return "recorded", result


def finish_extraction(
    context: CommitContext, request: Request, report: ExtractionFinished
) -> Reported:
    """Record what an extractor read: its claims, and how complete it is."""
    run = _run(context, request)
    if run is None:
        return "unknown", None
    if run.state != "running" or run.last is None:
        return "early", None
    run.attempt = report
    try:
        source = read_source(context.transaction, run.task.source_ref)
        if source.sha256 != run.last["source_text_sha256"]:
            return run.replace()
        if source.sha256 != report.source_text_sha256:
            # The worker has read the text before the run began to.
            return "early", None
        read = read_extraction(report.result, source.text)
    except ExtractionRefused as refused:
        return run.fail(refused.code)
    return _record_all_or_none(run, read, report)


def fail_extraction(context: CommitContext, request: Request, report: ExtractionFailed) -> Reported:
    """Record why an extraction came to nothing."""
    run = _run(context, request)
    if run is None:
        return "unknown", None
    if report.delivery is not None and report.error is not None:
        record_failure(context.transaction, request, report.delivery, report.error)
    if run.state != "running" or run.last is None:
        return "early", None
    source = _read(context.transaction, run.task.source_ref)
    if isinstance(source, SourceText) and source.sha256 != run.last["source_text_sha256"]:
        return run.replace()
    return run.fail(report.code)


def restart_extraction(context: CommitContext, run_id: str) -> Reported:
    """Cancel a run whose source was changed under it, and ask for one that begins anew.

    `closed`, and nothing recorded, where the source of the run was not changed, or the run is
    running no more.
    """
    last = last_attempt(context.transaction, run_id)
    if last is None or not has_changed_source(context.transaction, run_id):
        return "closed", None
    request = context.transaction.open_request(last["request_id"])
    run = _run(context, request) if request is not None and is_extraction_task(request) else None
    if run is not None and run.task.extraction_run_id == run_id:
        return run.replace()
    # Somebody else performs the run under a request of ours: what begins anew is theirs to say.
    intent = RecordExtractionTransition(
        intent_key=digest([run_id, last["attempt_number"] + 1]),
        extraction_run_id=run_id,
        step={
            "attempt_number": last["attempt_number"] + 1,
            "prior_state": "running",
            "current_state": "cancelled",
            "state_change_reason": SOURCE_CHANGED,
            "cancellation_reason": SOURCE_CHANGED,
            "parent_operation_id": last["operation_id"],
        },
    )
    result = IntentUnit(intent, None, "system").run(context)
    return _refusal_in(result) or ("recorded", result)


def abandon_extraction(context: CommitContext, request: Request, error_signature: str) -> Reported:
    """Abandon a run that no worker can end; the request is a dead letter."""
    run = _run(context, request)
    if run is None:
        return "unknown", None
    result = None
    if (run.state, "abandoned") in TRANSITIONS:
        result = run.step("abandoned", error_signature)
    return run.bury(error_signature, None if isinstance(result, RejectedResult) else result)


def cancel_extraction(context: CommitContext, request: Request, reason: str) -> None:
    """Cancel the run of a request that somebody takes back, before the request is closed.

    Raises:
        WorkRefused: the kernel refuses the step; nothing was changed.
    """
    run = _run(context, request)
    if run is None or (run.state, "cancelled") not in TRANSITIONS:
        return
    result = run.step("cancelled", reason, cancellation_reason=storable(reason))
    if isinstance(result, RejectedResult):
        raise WorkRefused("work_request_invalid", result.rejection.message, "reason")


def _record_all_or_none(run: _Run, read: ExtractionResult, report: ExtractionFinished) -> Reported:
    """Record a result, or what refused it."""
    try:
        with run.context.transaction.savepoint():
            return _record_result(run, read, report)
    except _StepRefusedError as refused:
        # Once more by itself, so that the refusal has its receipt (K5).
        result = IntentUnit(refused.intent, None, "system").run(run.context)
        if not isinstance(result, RejectedResult) or _is_short(result):
            return "rejected", result
        return run.fail(result.rejection.reason_code, REFUSED)
    except IntentInvalid as invalid:
        # The understanding that the claims should feed is none.
        return run.fail(invalid.code, REFUSED)


def _record_result(run: _Run, read: ExtractionResult, report: ExtractionFinished) -> Reported:
    claim_refs = []
    for claim in _claims_of(run, read, report.claim_authority):
        claim_refs.append(claim.node_id)
        if not _is_recorded(run, claim.node_id):
            recorded = IntentUnit(claim, None, "system").run(run.context)
            if isinstance(recorded, RejectedResult):
                raise _StepRefusedError(claim)
    completeness = read.extraction_completeness
    failed = ", ".join(f"{field.field}: {field.reason}" for field in completeness.failed_fields)
    facts: Document = {
        "extraction_completeness": completeness.model_dump(mode="json"),
        "claim_refs": claim_refs,
        "extractor": read.extractor,
    }
    reason = f"fields failed: {failed}" if failed else SUCCEEDED
    intent = run.step_intent(read.state, reason, report.outputs, facts)
    result = IntentUnit(intent, None, "system").run(run.context)
    if isinstance(result, RejectedResult):
        raise _StepRefusedError(intent)
    run.last = last_attempt(run.context.transaction, run.task.extraction_run_id)
    return run.close(result, claims=len(claim_refs))


def _is_recorded(run: _Run, claim_ref: str) -> bool:
    """Tell whether an earlier try of the run has read the same."""
    node = run.context.transaction.node(claim_ref)
    extracted = None if node is None else node["payload"].get("extracted")
    own = isinstance(extracted, dict) and extracted.get("extraction_run_id")
    return own == run.task.extraction_run_id


def _claims_of(
    run: _Run, read: ExtractionResult, authority: float
) -> Iterator[RecordExtractedClaim]:
    """Yield the claim of each value, each once; it is named by what was read where."""
    last, task = run.last, run.task
    assert last is not None, "a run that ends has begun"  # noqa: S101 - for the types
    seen: set[str] = set()
    for value in read.values:
        named = [value.field, value.value, value.role, value.start, value.end]
        node_id = f"claim:{digest([task.extraction_run_id, *named])}"
        if node_id in seen:
            continue
        seen.add(node_id)
        yield RecordExtractedClaim(
            intent_key=node_id,
            node_id=node_id,
            corpus_id=task.corpus_id,
            span=SourceSpan(
                source_ref=task.source_ref, offset=value.start, length=value.end - value.start
            ),
            text=value.words,
            authority=authority,
            understanding_id=task.understanding_id,
            extraction=Extraction(
                extraction_run_id=task.extraction_run_id,
                extractor=read.extractor,
                field=value.field,
                value=value.value,
                role=value.role,
                begun_by_operation_id=last["operation_id"],
                begun_at=last["updated_at"],
            ),
        )


def _run(context: CommitContext, request: Request) -> _Run | None:
    task = read_content(request)
    if not isinstance(task, ExtractionTask):
        return None  # a step that somebody else performs, or a binding
    last = last_attempt(context.transaction, task.extraction_run_id)
    return _Run(context, request, task, last)


def _begin_ended(run: _Run) -> Reported:
    if run.state != "abandoned":
        return run.close(None)
    if "requeues" in run.request.document:
        return run.requeue()
    return run.bury("extraction_run_abandoned")


def _facts_of(run: _Run, source: SourceText | ExtractionRefused, extractor: str) -> Document:
    facts: Document = {
        "source_ref": run.task.source_ref,
        "source_text_sha256": source.sha256 if isinstance(source, SourceText) else "",
        "extractor": extractor,
        "corpus_id": run.task.corpus_id,
        "request_id": run.request.request_id,
    }
    if run.last is None and run.task.replaces_extraction_run_id is not None:
        facts["replaces_extraction_run_id"] = run.task.replaces_extraction_run_id
    return facts


def _read(view: LedgerView, source_ref: str) -> SourceText | ExtractionRefused:
    try:
        return read_source(view, source_ref)
    except ExtractionRefused as refused:
        return refused


def _waits_for_an_end(view: LedgerView, task: ExtractionTask) -> bool:
    """Tell whether the run that this one replaces has still to end."""
    replaced = task.replaces_extraction_run_id
    if replaced is None:
        return False
    last = last_attempt(view, replaced)
    return last is None or last["current_state"] not in REPLACEABLE


def _refusal_in(result: Submitted) -> Reported | None:
    return ("rejected", result) if isinstance(result, RejectedResult) else None


def _is_short(result: RejectedResult) -> bool:
    """Tell whether a refusal is about capacity and not about what is asked for."""
    rejection = result.rejection
    return rejection.retry_after_s is not None or rejection.reason_code == CAPACITY_SHORT
