"""Bindings of every target kind, an artifact that they select, and what their fires refer to."""

from typing import Any, get_args

from actors.commit.work_units import RequestWorkUnit, WorkReportUnit
from kernel.ledger.ledger import Document, Ledger, Request
from kernel.model.bindings.artifacts import PHASE_FIELDS, completion, read_artifact
from kernel.model.bindings.dispatch import EvaluatedOn
from kernel.model.bindings.outcomes import BindingOutcomeRecord
from kernel.model.bindings.particulars import NONE_STATED, Particulars, RelatedFiling, Stretch
from kernel.model.bindings.selectors import PHASES
from kernel.model.bindings.source_binding import BindingTargetKind
from kernel.work.contents import BINDING_QUEUE
from kernel.work.evaluations import Evaluation, evaluate_request
from kernel.work.reports import BindingEvaluated, WorkReport
from kernel.work.requests import WorkRequest, WorkStatus, status_of
from tests.actors.harness import bench_on
from tests.kernel.build import accept, adapt, create, effect, envelope, link
from tests.kernel.every import dated, own

EVENT = "docket-entry:d#1"
BEFORE = "docket-entry:d#0"
CASE = "case:azb:09-1"
TEXT = "ORDER granting the Motion for Relief (Related Doc 4)."
KINDS: tuple[BindingTargetKind, ...] = get_args(BindingTargetKind)

FIELDS = {
    "source_kind": "docket",
    "source_path": "azb/d/1",
    "content_type": "docket_entry/document",
    "filing_unit_kind": "order",
    "filing_role": "disposing",
    "legal_profile_kind": "bankruptcy",
    "case_ref": "azb:09-1",
    "court_id": "azb",
}

PARTICULARS: dict[str, Particulars] = {
    "court_disposition_observation": Particulars(
        disposition="granted", stretches=(Stretch(offset=6, length=8),)
    ),
    "relationship_candidate": Particulars(
        related_filing=RelatedFiling(
            relationship_type="rules_on",
            target_artifact_ref=BEFORE,
            identity_confidence=0.95,
            evidence="number, words unknown",
        )
    ),
}


def wrapped(text: str) -> str:
    return f'<UNTRUSTED_CONTENT source="s" kind="k">\n{text}\n</UNTRUSTED_CONTENT>'


def artifact(node_id: str, text: str = TEXT, **metadata: str) -> Document:
    """A docket entry as its ingest leaves it."""
    stated = {"date_filed": "2010-02-09", "case_name": "In re X"} | metadata
    intake = {kind: FIELDS[kind] for kind in PHASE_FIELDS[PHASES[0]] if kind in FIELDS}
    return create(
        node_id,
        "SourceArtifact",
        content=wrapped(text),
        metadata={name: wrapped(value) for name, value in stated.items()},
        prompt_injection_isolation_wrapper_applied=True,
        metadata_wrapper_applied=True,
        **intake,
    )


def pass_phases(ledger: Ledger, node_id: str) -> None:
    """Complete every phase of an artifact, in their order."""
    for phase in PHASES[1:]:
        with ledger.view() as view:
            node = view.node(node_id)
        artifact = read_artifact(node)
        assert node is not None
        assert artifact is not None
        fields = {kind: FIELDS[kind] for kind in PHASE_FIELDS[phase] if kind in FIELDS}
        completed = completion(artifact, node["payload"], phase, fields)
        accept(ledger, adapt(node_id, completed_phases=completed))


def snapshot(target_kind: str, **changes: Any) -> Document:
    return {
        "selector_list": {"include": [{"kind": "court_id", "value": "azb"}]},
        "target_kind": target_kind,
        "corpus_id": "corpus:watched",
    } | changes


def generation(binding_id: str, number: int, target_kind: str, **changes: Any) -> Document:
    approval = changes.pop("critical_approval", None)
    stated = {} if approval is None else {"critical_approval": approval}
    return effect(
        "binding_generation_advance",
        binding_id,
        binding_generation_id=str(number),
        binding_snapshot=snapshot(target_kind, **changes),
        effective_at="2026-02-09T00:00:00Z",
        **stated,
    )


def bound(binding_id: str, target_kind: str, **changes: Any) -> Document:
    """The creation of a binding."""
    written = effect("node_write", binding_id, node_kind="SourceBinding")
    [edge] = link(f"e:{binding_id}", binding_id, "corpus")["primitive_effects"]
    effects = [written, edge, generation(binding_id, 1, target_kind, **changes)]
    return envelope("source_binding_create", effects)


def rebound(binding_id: str, number: int, target_kind: str, **changes: Any) -> Document:
    """A further generation of a binding."""
    written = effect("node_write", binding_id, title=f"of generation {number}")
    effects = [written, generation(binding_id, number, target_kind, **changes)]
    return envelope("source_binding_update", effects)


def disabled(binding_id: str) -> Document:
    return envelope("source_binding_disable", [effect("node_write", binding_id, state="disabled")])


def furnish(ledger: Ledger, *bindings: Document) -> None:
    """Put the artifact on record with all that the five target kinds refer to, and bindings."""
    units = [
        own("filing_unit_write", f"unit:{ref}", **dated("filing_date"), document_ref=ref)
        for ref in (EVENT, BEFORE)
    ]
    accept(
        ledger,
        create("corpus", "Corpus"),
        create(CASE, "CaseRecord"),
        artifact(EVENT),
        artifact(BEFORE),
        *units,
    )
    for ref in (EVENT, BEFORE):
        pass_phases(ledger, ref)
    accept(ledger, *bindings)


def ask(ledger: Ledger, *binding_ids: str, **content: Any) -> list[str]:
    """Ask for the bindings to be evaluated against the event."""
    stated = {"source_event_id": EVENT, **content}
    requests = tuple(
        WorkRequest(
            BINDING_QUEUE,
            f"{stated['source_event_id']}:{binding_id}",
            {"binding_id": binding_id, **stated},
        )
        for binding_id in binding_ids
    )
    with bench_on(ledger) as context:
        receipts = RequestWorkUnit(requests).run(context)
    return [receipt.request_id for receipt in receipts]


def request_of(ledger: Ledger, request_id: str) -> Request:
    with ledger.view() as view:
        request = view.open_request(request_id)
    assert request is not None
    return request


def evaluated(ledger: Ledger, request_id: str, stated: Particulars | None = None) -> Evaluation:
    """What a worker makes of a request on the newest snapshot."""
    request = request_of(ledger, request_id)
    with ledger.view() as view:
        first = evaluate_request(view, request)
        if stated is None:
            stated = PARTICULARS.get(first.outcome.target_kind, NONE_STATED)
        return evaluate_request(view, request, stated)


def report(ledger: Ledger, stated: WorkReport, kernel: Any = None) -> Any:
    with bench_on(ledger, kernel) as context:
        return WorkReportUnit(stated).run(context)


def work(ledger: Ledger, request_id: str, kernel: Any = None) -> Any:
    """Evaluate a request as a worker does, and hand it in."""
    return report(ledger, handed_in(ledger, request_id), kernel)


def handed_in(ledger: Ledger, request_id: str) -> BindingEvaluated:
    """The report of a worker that has evaluated a request on the newest snapshot."""
    evaluation = evaluated(ledger, request_id)
    return BindingEvaluated(
        request_id=request_id,
        outcome=evaluation.outcome,
        evaluated_on=evaluation.read,
        particulars=PARTICULARS.get(evaluation.outcome.target_kind, NONE_STATED),
    )


def status(ledger: Ledger, request_id: str) -> WorkStatus:
    with ledger.view() as view:
        known = status_of(view, request_id)
    assert known is not None
    return known


def of_nobody(
    request_id: str, binding_id: str = "b", source_event_id: str = "e", **changes: Any
) -> BindingEvaluated:
    """The report of a binding that the record does not have, and of no artifact."""
    fields = {
        "outcome_id": f"outcome:{request_id}",
        "source_event_id": source_event_id,
        "binding_id": binding_id,
        "target_kind": "corpus_document_membership",
        "outcome_state": "abandoned",
        "outcome_reason_code": "binding_unknown",
    }
    return BindingEvaluated(
        request_id=request_id,
        outcome=BindingOutcomeRecord(**(fields | changes)),
        evaluated_on=EvaluatedOn(binding="unknown"),
    )
