"""Turns the report of an evaluated binding into a fire, an outcome, and a manifest.

A worker says what an evaluation came to on its snapshot. The gateway evaluates again inside the
transaction. If it reads something else the record has moved on, and the binding is evaluated anew;
where it comes to something else by the same, the report is wrong and is refused. The operation of a
fire, the record of the fire, the outcome that closes the request, and the manifest where the
outcome is its cycle's last, are written together or not at all (§13.7, INV-K-MANIFEST-DURABLE-1).
See decisions kernel/0286 and kernel/0287.
"""

from typing import Any, cast

from actors.commit.extraction_units import Reported
from actors.commit.unit_context import CommitContext
from actors.commit.units import IntentUnit, Submitted
from actors.orchestrator.intents import EmitManifest, FireBinding, Intent, RecordFire
from kernel.algebra.verbs import FIRE_RECORD
from kernel.ledger.ledger import Document, LedgerView, Request
from kernel.model.bindings.dispatch import TARGETS
from kernel.model.bindings.outcomes import (
    CANCELLED,
    FIRED,
    GIVEN_UP,
    REJECTED,
    SUSPENDED,
    reason_of,
)
from kernel.model.bindings.source_binding import SourceBinding
from kernel.model.result import RejectedResult
from kernel.model.stated_receipts import BindingFired
from kernel.records.binding_pairs import READY, PairEnd, pair_of_request, pair_state
from kernel.values.canonical import digest
from kernel.values.errors import KernelError
from kernel.work.contents import BINDING_QUEUE
from kernel.work.evaluations import Evaluation, evaluate_request, is_in_text
from kernel.work.extractions.requests import request_extraction
from kernel.work.fire_targets import understanding_of
from kernel.work.manifests import (
    current_manifest_id,
    manifest_due,
    result_of,
    unevaluated_result,
)
from kernel.work.outcomes import close, put_off, reject_for_capacity
from kernel.work.reports import (
    BindingEvaluated,
    BindingSuspended,
    CapacityRejected,
)


class FireFailed(KernelError):
    """The record of a fire, or a manifest, was refused; nothing of the report was recorded."""


def record_evaluation(
    context: CommitContext, request: Request, report: BindingEvaluated
) -> Reported:
    """Record what an evaluation came to, if the record still says so, and fire if it fires."""
    view = context.transaction
    if request.queue != BINDING_QUEUE or not is_in_text(view, request, report.particulars):
        return "rejected", None
    evaluation = evaluate_request(view, request, report.particulars)
    if evaluation.read != report.evaluated_on:
        return "changed", None
    if evaluation.outcome != report.outcome:
        return "rejected", None
    if not evaluation.fires or evaluation.binding is None:
        result = result_of(view, evaluation)
        return _conclude(context, request, evaluation, result, None, report)
    wrote = _write(context, request, evaluation, evaluation.binding)
    if isinstance(wrote, RejectedResult):
        return _conclude_refusal(context, request, evaluation, wrote, report)
    operation_id = None if wrote is None else wrote.operation_id
    fired = _record_fire(context, evaluation, operation_id)
    if wrote is None:
        artifact_ref = str(evaluation.read.artifact_ref)
        request_extraction(
            view,
            artifact_ref,
            cause=FIRED,
            corpus_id=evaluation.binding.corpus_id,
            understanding_id=understanding_of(view, artifact_ref),
        )
    result = result_of(view, evaluation, operation_id, fired.operation_id)
    return _conclude(context, request, evaluation, result, wrote or fired, report)


def record_suspension(context: CommitContext, request: Request, _: BindingSuspended) -> Reported:
    """Record once that a binding waits for capacity; the cycle tells of it and goes on."""
    if request.queue != BINDING_QUEUE:
        return "unknown", None
    _pend(context, request, SUSPENDED)
    return "recorded", None


def record_rejection(
    context: CommitContext, request: Request, report: CapacityRejected
) -> Reported:
    """Record that capacity ran out under an evaluation, with what was known of it (§14.5)."""
    if request.queue != BINDING_QUEUE:
        return "unknown", None
    reject_for_capacity(context.transaction, report)
    _pend(context, request, REJECTED)
    return "recorded", None


def close_unevaluated(
    context: CommitContext,
    request: Request,
    outcome: Any,
    reason: str,
    said: Document | None = None,
) -> None:
    """Close a request that was given up or cancelled; a binding's has its outcome in a manifest."""
    result = None
    if request.queue == BINDING_QUEUE:
        code = GIVEN_UP if outcome == "dead_letter" else CANCELLED
        result = unevaluated_result(context.transaction, request, code)
    transaction, request_id = context.transaction, request.request_id
    close(transaction, request_id, outcome, reason=reason, result=result, said=said)
    if result is not None:
        end_cycle(context, request.item_key)


def end_cycle(context: CommitContext, source_event_id: str) -> None:
    """Emit the manifest of an event's cycle where every binding of it has its outcome.

    Raises:
        FireFailed: the manifest was refused.
    """
    transaction = context.transaction
    manifest = manifest_due(transaction, source_event_id, transaction.head_now.committed_at_us)
    if manifest is not None:
        intent = EmitManifest(intent_key=manifest["manifest_id"], manifest=manifest)
        _submit(context, intent)


def _write(
    context: CommitContext, request: Request, evaluation: Evaluation, binding: SourceBinding
) -> Submitted | None:
    """Submit the operation of a fire; None where its record is all there is of it."""
    target = TARGETS[binding.target_kind]
    if target.verb == FIRE_RECORD:
        return None
    read = evaluation.read
    is_membership = target.effect_kind == "membership_write"
    intent = FireBinding(
        intent_key=digest(["fire", request.request_id]),
        binding_id=evaluation.identity.binding_id,
        binding_generation_id=str(read.binding_generation_id),
        source_event_id=evaluation.identity.source_event_id,
        target_kind=binding.target_kind,
        artifact_ref=str(read.artifact_ref),
        target_ref=str(read.artifact_ref if is_membership else read.target_ref),
        payload=evaluation.payload,
        capacity_priority=binding.resource_policy.capacity_priority,
    )
    return IntentUnit(intent, None, "system").run(context)


def _record_fire(
    context: CommitContext, evaluation: Evaluation, operation_id: str | None
) -> Submitted:
    identity = evaluation.identity
    fired = BindingFired(
        binding_id=identity.binding_id,
        source_event_id=identity.source_event_id,
        binding_generation_id=evaluation.read.binding_generation_id,
        manifest_id=current_manifest_id(context.transaction, identity.source_event_id),
        outcome_target_ref=evaluation.outcome.outcome_target_ref,
        operation_id=operation_id,
    )
    intent = RecordFire(
        intent_key=digest(["record", identity.outcome_id]),
        fired=fired,
        artifact_ref=str(evaluation.read.artifact_ref),
        queues_extraction=operation_id is None,
    )
    return _submit(context, intent)


def _conclude_refusal(
    context: CommitContext,
    request: Request,
    evaluation: Evaluation,
    wrote: RejectedResult,
    attempt: BindingEvaluated,
) -> Reported:
    """Conclude with the refusal of a fire's operation, or leave the request open."""
    rejection = wrote.rejection
    if rejection.check == "V11":
        return "out_of_capacity", wrote
    refused = evaluation.refuse(rejection.check, rejection.reason_code)
    if refused is None:
        return "rejected", wrote
    conflicts = _conflicts_of(context, wrote)
    result = result_of(context.transaction, refused, conflicts=conflicts)
    return _conclude(context, request, refused, result, None, attempt)


def _conflicts_of(context: CommitContext, wrote: RejectedResult) -> list[Document]:
    """Return the conflicts in which an operation was refused, each class and resolution once."""
    if wrote.rejection.check != "V12" or wrote.receipt_id is None:
        return []
    receipt = context.transaction.receipt(wrote.receipt_id) or {}
    resolved = (
        (conflict["conflict_class"], conflict["strategy"])
        for conflict in receipt.get("conflicts", ())
    )
    return [
        {"conflict_class": conflict_class, "resolution_strategy": strategy}
        for conflict_class, strategy in dict.fromkeys(resolved)
    ]


def _conclude(
    context: CommitContext,
    request: Request,
    evaluation: Evaluation,
    result: Document,
    submitted: Submitted | None,
    attempt: BindingEvaluated,
) -> Reported:
    operation_id = None if submitted is None else submitted.operation_id
    close(
        context.transaction,
        request.request_id,
        "completed",
        operation_id=operation_id,
        result=result,
        attempt=attempt,
        pair_end=_pair_end(context.transaction, request, evaluation),
    )
    end_cycle(context, request.item_key)
    return "completed", submitted


def _pair_end(view: LedgerView, request: Request, evaluation: Evaluation) -> PairEnd | None:
    """Return how the pair ends that asked for an evaluation; None where none did, or it may not."""
    pair = pair_of_request(view, request.request_id)
    if pair is None or pair_state(view, pair) != READY:
        return None
    refused = evaluation.read.refused
    check = None if refused is None else refused.check
    reason = reason_of(evaluation.outcome.outcome_reason_code, check)
    return None if reason is None else cast("PairEnd | None", reason.ends_as)


def _pend(context: CommitContext, request: Request, reason: str) -> None:
    result = unevaluated_result(context.transaction, request, reason)
    if put_off(context.transaction, request, result):
        end_cycle(context, request.item_key)


def _submit(context: CommitContext, intent: Intent) -> Submitted:
    result = IntentUnit(intent, None, "system").run(context)
    if isinstance(result, RejectedResult):
        raise FireFailed(result.rejection.message, code=result.rejection.reason_code)
    return result
