"""Turns fires of bindings and manifests of cycles into operations (§13.5, §15)."""

from collections.abc import Mapping
from types import MappingProxyType

from actors.orchestrator.intents import EmitManifest, FireBinding, RecordFire
from actors.orchestrator.resolved_operation import ResolvedOperation, make_effect
from actors.orchestrator.untrusted_content import wrap_untrusted
from kernel.algebra.verbs import FIRE_RECORD
from kernel.ledger.ledger import Document, LedgerView
from kernel.model.bindings.dispatch import CASE_FIELDS, TARGETS
from kernel.model.receipt import MANIFEST_RECEIPT, receipt_effect
from kernel.records.bindings import generation_of

_PRIORITY_OF_CAPACITY: Mapping[str, str] = MappingProxyType(
    {
        "critical": "user_initiated_critical",
        "user_initiated": "user_active_session",
        "background": "background_normal",
    }
)
"""The priority of a fire's recompute, by the capacity priority of its binding."""


def resolve_fire(intent: FireBinding, view: LedgerView) -> ResolvedOperation:
    """A fire is one effect of its target kind, drawn from the artifact (INV-K-TARGET-1)."""
    target = TARGETS[intent.target_kind]
    payload = intent.payload
    if target.effect_kind == "node_write":
        payload = {
            name: value
            if name in CASE_FIELDS
            else wrap_untrusted(value, source=intent.artifact_ref, kind=name)
            for name, value in payload.items()
        }
    fire = {
        "binding_id": intent.binding_id,
        "binding_generation_id": intent.binding_generation_id,
        "source_event_id": intent.source_event_id,
    }
    return ResolvedOperation(
        target.verb,
        (make_effect(target.effect_kind, intent.target_ref, payload),),
        (intent.target_ref,),
        source_refs=(intent.artifact_ref,),
        read_set=(intent.artifact_ref, intent.binding_id),
        write_set=(intent.target_ref,),
        causes=_generation_cause(view, intent.binding_id, intent.binding_generation_id),
        extra=MappingProxyType(
            {
                "binding_fire": fire,
                "recompute_priority": _PRIORITY_OF_CAPACITY[intent.capacity_priority],
            }
        ),
    )


def resolve_fire_record(intent: RecordFire, view: LedgerView) -> ResolvedOperation:
    """The record of a fire names what it wrote, whose operation caused it (§15.4)."""
    fired = intent.fired
    generation = str(fired.binding_generation_id)
    causes = dict(_generation_cause(view, fired.binding_id, generation))
    wrote = None if fired.operation_id is None else view.log_row_of(fired.operation_id)
    if wrote is not None:
        causes[wrote["operation_id"]] = wrote["committed_at"]
    extra: Document = {"recompute_priority": "user_active_session"}
    if intent.queues_extraction:
        extra["binding_fire"] = {
            "binding_id": fired.binding_id,
            "binding_generation_id": generation,
            "source_event_id": fired.source_event_id,
        }
    return ResolvedOperation(
        FIRE_RECORD,
        (receipt_effect(FIRE_RECORD, fired.model_dump(exclude_none=True)),),
        (fired.binding_id,),
        source_refs=(intent.artifact_ref,),
        read_set=(intent.artifact_ref, fired.binding_id),
        causes=MappingProxyType(causes),
        extra=MappingProxyType(extra),
    )


def resolve_manifest(intent: EmitManifest, view: LedgerView) -> ResolvedOperation:
    """A manifest is about its event, made of the bindings that were evaluated, caused by fires."""
    manifest = intent.manifest
    bindings = tuple(
        dict.fromkeys(generation["binding_id"] for generation in manifest["binding_generations"])
    )
    artifacts = tuple(artifact["artifact_ref"] for artifact in manifest["artifacts"])
    fires = (
        view.log_row_of(evaluation["fire_record_operation_id"])
        for evaluation in manifest["evaluations"]
        if "fire_record_operation_id" in evaluation
    )
    return ResolvedOperation(
        FIRE_RECORD,
        (receipt_effect(MANIFEST_RECEIPT, manifest),),
        (manifest["source_event_id"],),
        operation_kind="binding_evaluation_manifest_emit",
        source_refs=bindings,
        read_set=(*artifacts, *bindings),
        causes=MappingProxyType(
            {row["operation_id"]: row["committed_at"] for row in fires if row is not None}
        ),
        # A manifest is emitted also where nothing new may begin.
        extra=MappingProxyType({"recompute_priority": "user_active_session"}),
    )


def _generation_cause(view: LedgerView, binding_id: str, generation_id: str) -> Mapping[str, str]:
    """Return the operation that wrote a generation, and when."""
    record = generation_of(view, binding_id, generation_id)
    if record is None:
        return {}
    return {record["updated_by_operation_id"]: record["updated_at"]}
