"""Composes manifests from receipts: what a cycle of evaluations came to (§13.7, §15.1, §15.6).

A cycle ends when every binding of it has its outcome, or when it has as many as the fan-out cap
admits; what is left is deferred to the next cycle. From a manifest and the snapshots that it names
the outcomes are computed again (`differences`), without looking at anything else.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import ValidationError

from kernel.ledger.ledger import Document, LedgerView, Request
from kernel.ledger.store.tables import Row
from kernel.model.bindings.dispatch import EvaluatedOn, Identity, artifact_digest, outcome_for
from kernel.model.bindings.outcomes import (
    CANCELLED,
    GIVEN_UP,
    REASONS,
    SUSPENDED,
    BindingOutcomeRecord,
)
from kernel.model.bindings.selectors import BindingRefused
from kernel.model.bindings.source_binding import read_source_binding
from kernel.model.stated_receipts import BindingEvaluationManifest
from kernel.records.binding_cycles import next_cycle, outcomes_of_cycle
from kernel.records.bindings import snapshot_of
from kernel.values.canonical import canonicalize, digest, sha256_hex
from kernel.values.errors import LedgerCorrupt
from kernel.values.host import iso_time
from kernel.work.contents import BINDING_QUEUE, BindingEvaluation
from kernel.work.evaluations import Evaluation
from kernel.work.ready_requests import FAN_OUT_MAX, due, fan_out_of
from kernel.work.receipts import EVALUATION
from kernel.work.requests import read_content

NO_EVALUATION = frozenset({GIVEN_UP, CANCELLED})
"""Reasons of outcomes that no evaluation came to."""

_OUTCOME_FIELDS = frozenset(BindingOutcomeRecord.model_fields)


def manifest_id(source_event_id: str, cycle: int) -> str:
    """Return the id of the manifest that ends a cycle of an event."""
    return f"manifest:{digest(source_event_id)[:32]}:{cycle}"


def current_manifest_id(view: LedgerView, source_event_id: str) -> str:
    """Return the id of the manifest that will end the cycle in which an event is."""
    return manifest_id(source_event_id, next_cycle(view, source_event_id))


def result_of(
    view: LedgerView,
    evaluation: Evaluation,
    operation_id: str | None = None,
    fire_record_operation_id: str | None = None,
    conflicts: Sequence[Document] = (),
) -> Document:
    """Return what the receipt of an evaluated binding holds: its outcome and its grounds."""
    grounds: Document = {
        "manifest_id": current_manifest_id(view, evaluation.identity.source_event_id),
        "evaluated_on": evaluation.read.model_dump(mode="json", exclude_none=True),
        "fields": dict(evaluation.fields),
    }
    beside = {
        "operation_id": operation_id,
        "fire_record_operation_id": fire_record_operation_id,
        "conflicts": list(conflicts) or None,
    }
    grounds |= {name: value for name, value in beside.items() if value is not None}
    return _outcome_document(evaluation.outcome) | {EVALUATION: grounds}


def unevaluated_result(view: LedgerView, request: Request, reason: str) -> Document:
    """Return what the receipt of a binding holds to which no evaluation came, or not yet."""
    content: BindingEvaluation = read_content(request)
    outcome = BindingOutcomeRecord(
        outcome_id=f"outcome:{request.request_id}",
        source_event_id=content.source_event_id,
        binding_id=content.binding_id,
        target_kind=content.target_kind,
        outcome_state=REASONS[reason].outcome_state,
        outcome_reason_code=reason,
    )
    grounds = {"manifest_id": current_manifest_id(view, content.source_event_id)}
    return _outcome_document(outcome) | {EVALUATION: grounds}


def manifest_due(view: LedgerView, source_event_id: str, now_us: int) -> Document | None:
    """Return the manifest that ends the event's cycle now; None while a binding has no outcome.

    Its policy generation is the one in force.
    """
    rows = outcomes_of_cycle(view, source_event_id)
    if not rows:
        return None
    settled = {row["request_id"] for row in rows}
    waiting = [
        request
        for request in due(view.open_requests_of(BINDING_QUEUE, source_event_id), now_us)
        if request.request_id not in settled
    ]
    if waiting and len(rows) < FAN_OUT_MAX:
        return None
    results = [_result(view, row) for row in rows]
    outcomes = [
        {name: value for name, value in result.items() if name in _OUTCOME_FIELDS}
        for result in results
    ]
    cycle = next_cycle(view, source_event_id)
    body: Document = {
        "manifest_id": manifest_id(source_event_id, cycle),
        "source_event_id": source_event_id,
        "cycle": cycle,
        "evaluated_at": iso_time(now_us),
        "binding_outcomes": outcomes,
        "bindings_evaluated_count": sum(map(_was_evaluated, outcomes)),
        "bindings_deferred_count": len(waiting),
        "bindings_suspended_count": sum(
            outcome["outcome_reason_code"] == SUSPENDED for outcome in outcomes
        ),
        "fan_out_cap": FAN_OUT_MAX,
        "binding_generations": list(_generations(view, results)),
        "semantic_conflicts": list(_conflicts(results)),
        "policy_generation_id": view.policy_generation_id(),
        "evaluations": [
            _recorded_outcome(row, result) for row, result in zip(rows, results, strict=True)
        ],
        "artifacts": list(_artifacts(results)),
        "schema_version": 1,
    }
    if waiting:
        plan = fan_out_of(view, source_event_id, now_us)
        body["deferred_evaluation_at"] = iso_time(plan.deferred_evaluation_at_us or now_us)
    return body


def _outcome_document(outcome: BindingOutcomeRecord) -> Document:
    return outcome.model_dump(mode="json", exclude_none=True)


def _result(view: LedgerView, row: Row) -> Document:
    """Return what the receipt of an outcome says of it."""
    receipt = view.receipt(row["receipt_id"])
    if receipt is None:
        raise LedgerCorrupt(f"the receipt {row['receipt_id']} of an outcome is missing")
    result: Document = receipt["result"]
    return result


def _was_evaluated(outcome: Document) -> bool:
    is_pending = outcome["outcome_state"] == "pending"
    return not is_pending and outcome["outcome_reason_code"] not in NO_EVALUATION


def _generations(view: LedgerView, results: Sequence[Document]) -> Iterator[Document]:
    seen = set()
    for result in results:
        read = result[EVALUATION].get("evaluated_on", {})
        generation_id = read.get("binding_generation_id")
        if generation_id is None or (result["binding_id"], generation_id) in seen:
            continue
        seen.add((result["binding_id"], generation_id))
        snapshot = snapshot_of(view, result["binding_id"], generation_id)
        if snapshot is not None:
            yield {
                "binding_id": result["binding_id"],
                "binding_generation_id": generation_id,
                "binding_snapshot_at_eval": {
                    "snapshot_id": f"{result['binding_id']}|{generation_id}",
                    "sha256": _snapshot_digest(snapshot),
                },
            }


def _snapshot_digest(snapshot: Document) -> str:
    return sha256_hex(canonicalize(snapshot))


def _conflicts(results: Sequence[Document]) -> Iterator[Document]:
    for result in results:
        for conflict in result[EVALUATION].get("conflicts", ()):
            yield {**conflict, "affected_bindings": [result["binding_id"]]}


def _recorded_outcome(row: Row, result: Document) -> Document:
    names = ("evaluated_on", "operation_id", "fire_record_operation_id")
    grounds = result[EVALUATION]
    stated = {name: grounds[name] for name in names if name in grounds}
    return {"outcome_id": result["outcome_id"], "request_id": row["request_id"]} | stated


def _artifacts(results: Sequence[Document]) -> Iterator[Document]:
    seen = set()
    for result in results:
        grounds = result[EVALUATION]
        read = grounds.get("evaluated_on", {})
        version = (read.get("artifact_ref"), read.get("artifact_version"))
        if version[0] is not None and version not in seen:
            seen.add(version)
            names = ("artifact_ref", "artifact_version", "artifact_digest")
            yield {name: read[name] for name in names} | {"fields": grounds["fields"]}


def differences(view: LedgerView, body: Document) -> list[str]:
    """Evaluate again from a manifest and its snapshots alone, and return what comes out otherwise.

    Empty where every outcome is the same, byte for byte.
    """
    try:
        manifest = BindingEvaluationManifest.model_validate(body)
    except ValidationError as error:
        return [f"it is no manifest: {error.error_count()} fields are wrong"]
    outcomes = {outcome["outcome_id"]: outcome for outcome in body["binding_outcomes"]}
    fields = {
        (artifact.artifact_ref, artifact.artifact_version): artifact.fields
        for artifact in manifest.artifacts
    }
    different = list(_inconsistencies(view, manifest))
    for recorded in manifest.evaluations:
        outcome = outcomes.get(recorded.outcome_id)
        if outcome is not None and recorded.evaluated_on is not None:
            different += _evaluation_differences(view, outcome, recorded.evaluated_on, fields)
    return different


def _inconsistencies(view: LedgerView, manifest: BindingEvaluationManifest) -> Iterator[str]:
    for artifact in manifest.artifacts:
        if artifact_digest(artifact.fields) != artifact.artifact_digest:
            yield f"the fields of {artifact.artifact_ref} are not those of its digest"
    named = [outcome.outcome_id for outcome in manifest.binding_outcomes]
    if sorted(named) != sorted({recorded.outcome_id for recorded in manifest.evaluations}):
        yield "its outcomes and its evaluations are not of the same bindings"
    for generation in manifest.binding_generations:
        ref = generation.binding_snapshot_at_eval
        binding_id, _, generation_id = ref["snapshot_id"].rpartition("|")
        snapshot = snapshot_of(view, binding_id, generation_id)
        if snapshot is None or _snapshot_digest(snapshot) != ref["sha256"]:
            yield f"the snapshot {ref['snapshot_id']} is not the one of its digest"


def _evaluation_differences(
    view: LedgerView, outcome: Document, evaluated_on: Document, fields: dict[Any, Any]
) -> Iterator[str]:
    """Yield how an outcome differs from what its evaluation comes to now."""
    try:
        read = EvaluatedOn.model_validate(evaluated_on)
        identity = Identity(
            outcome["outcome_id"],
            outcome["source_event_id"],
            outcome["binding_id"],
            outcome["target_kind"],
        )
        snapshot = snapshot_of(view, identity.binding_id, str(read.binding_generation_id))
        binding = None if snapshot is None else read_source_binding(snapshot)
        of_artifact = fields.get((read.artifact_ref, read.artifact_version), {})
        computed = outcome_for(identity, binding, of_artifact, read)
    except (ValidationError, ValueError, KeyError, BindingRefused) as error:
        yield f"{outcome['outcome_id']} cannot be evaluated: {type(error).__name__}"
        return
    if canonicalize(_outcome_document(computed)) != canonicalize(outcome):
        yield (
            f"{outcome['outcome_id']} is {computed.outcome_state} "
            f"({computed.outcome_reason_code}), not {outcome['outcome_state']} "
            f"({outcome['outcome_reason_code']})"
        )
