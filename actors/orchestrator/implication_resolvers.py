"""Turns intents of detectors into operations: runs, halts, resumptions, observations (§19.1)."""

from types import MappingProxyType

from actors.orchestrator.intents import (
    HaltDetector,
    ObserveDisposition,
    RecordImplicationRun,
    ResumeImplications,
)
from actors.orchestrator.resolved_operation import ResolvedOperation, make_effect
from kernel.algebra.verbs import IMPLICATION_HALT, IMPLICATION_RESUME, IMPLICATION_RUN
from kernel.ledger.ledger import LedgerView
from kernel.model.receipt import receipt_effect
from kernel.records.court_dispositions import OBSERVATIONS
from kernel.records.implications.halts import HALTED, RESUMED
from kernel.records.implications.runs import RUN_RECEIPT

OBSERVATION = "court_disposition_observation_write"


def resolve_implication_run(intent: RecordImplicationRun, _: LedgerView) -> ResolvedOperation:
    """Return the operation whose receipt states how far a detector has read."""
    effect = receipt_effect(RUN_RECEIPT, intent.run.model_dump())
    return ResolvedOperation(IMPLICATION_RUN, (effect,), (intent.run.detector,))


def resolve_detector_halt(intent: HaltDetector, _: LedgerView) -> ResolvedOperation:
    """Return the operation whose receipt states the halt."""
    effect = receipt_effect(HALTED, intent.halt.model_dump(exclude_none=True))
    return ResolvedOperation(IMPLICATION_HALT, (effect,), (intent.halt.detector,))


def resolve_resumption(intent: ResumeImplications, _: LedgerView) -> ResolvedOperation:
    """Return the operation whose receipt states what goes on."""
    effect = receipt_effect(RESUMED, intent.resumed.model_dump())
    return ResolvedOperation(IMPLICATION_RESUME, (effect,), (intent.resumed.halt_id,))


def resolve_observation(intent: ObserveDisposition, view: LedgerView) -> ResolvedOperation:
    """Return the operation that writes an observation, caused by the one that wrote it last."""
    effect = make_effect(OBSERVATION, intent.observation_id, intent.observation)
    before = view.record(OBSERVATIONS.table, intent.observation_id)
    causes = {} if before is None else {before["updated_by_operation_id"]: before["updated_at"]}
    return ResolvedOperation(
        OBSERVATION,
        (effect,),
        (intent.observation_id,),
        source_refs=intent.source_refs,
        read_set=intent.source_refs,
        write_set=(intent.observation_id,),
        visibility=(intent.visibility_class,),
        causes=MappingProxyType(causes),
    )
