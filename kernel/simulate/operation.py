"""Answers what an operation would come to, by an operation of its own (§11.5).

1. An operation that cannot be simulated leaves a receipt that says so, and nothing else.
2. One that would set off outside what its policy forbids is blocked, with a receipt. It goes on
   only where the policy says so and the kernel runs in dev mode.
3. Everything else is dry run and answered with a preview, an operation that would be refused
   too: its preview says by which check.
4. No model is called here. A prediction that one made beforehand is handed in, and judged by the
   policy.
5. The simulation's own operation stays, which consists of receipts (INV-G-SIM-1).
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired

import orjson
from typing_extensions import TypedDict

from kernel.algebra.effects import EFFECT_KINDS
from kernel.algebra.simulation_support import NOT_SIMULATABLE, simulation_support_level
from kernel.ledger import schema
from kernel.ledger.answers import recall
from kernel.ledger.ledger import Document, LedgerTransaction, LedgerView
from kernel.ledger.receipts import append_receipt
from kernel.ledger.store.tables import TableQuery
from kernel.model.dumped import DumpOf
from kernel.model.envelope import ACTORS, VOLATILE
from kernel.model.receipt import Receipt
from kernel.model.result import (
    RejectedResult,
    RejectionDocument,
    SubmissionDocument,
    SubmissionResult,
)
from kernel.model.simulation import (
    PAYLOAD_RECEIPT,
    PREVIEW_EFFECT,
    PREVIEW_ID_PREFIX,
    WARNED_CLASSES,
    ExternalEffectViolation,
    Retention,
    SimulationExternalEffectPolicy,
    SimulationPrediction,
    SimulationPreview,
)
from kernel.model.simulation_payloads import PREVIEW_PAYLOADS
from kernel.simulate.affected import Sources, affected_node_refs, sources_of
from kernel.simulate.dry_run import DryRun, dry_run
from kernel.simulate.envelope import (
    PolicyCheck,
    SimulationSource,
    content_of,
    simulate_effects,
    simulate_envelope,
)
from kernel.simulate.external_effects import violations_of
from kernel.simulate.preview import UnreadableOperation, preview_state
from kernel.transaction.checks.check import Submitter
from kernel.transaction.kernel import Kernel
from kernel.values.canonical import CanonicalizationError, digest
from kernel.values.idempotency_keys import runtime_key

BLOCKED = "simulation_external_effect_blocked"

_VOLATILE = VOLATILE | {"idempotency_key"}
"""Fields of a document that differ when the same thing is simulated again."""

Outcome = Literal["previewed", "not_supported", "blocked", "rejected"]

STATED_CHARS_MAX = 512

NOT_SUPPORTED = "simulation_not_supported_for_operation_kind"


class SimulationDocument(TypedDict):
    """What an operation would come to; what there is not is left out."""

    outcome: Outcome
    preview: NotRequired[Annotated[Document, DumpOf(SimulationPreview)]]
    submission: NotRequired[SubmissionDocument | RejectionDocument]
    receipt_id: NotRequired[str]
    reason: NotRequired[str | None]
    violations: NotRequired[list[Annotated[Document, DumpOf(ExternalEffectViolation)]]]


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """The outcome of a simulation: its preview, or why there is none."""

    outcome: Outcome
    preview: SimulationPreview | None = None
    submission: SubmissionResult | RejectedResult | None = None
    """The simulation's own operation; a rejection where the kernel refused to record it."""

    receipt_id: str | None = None
    """The id of the receipt that says why there is no preview."""

    reason: str | None = None
    violations: tuple[ExternalEffectViolation, ...] = ()

    def document(self) -> SimulationDocument:
        """Return the form that leaves the process."""
        document: SimulationDocument = {"outcome": self.outcome}
        if self.preview is not None:
            document["preview"] = self.preview.document()
        if self.submission is not None:
            document["submission"] = self.submission.document()
        if self.receipt_id is not None:
            document["receipt_id"] = self.receipt_id
            document["reason"] = self.reason
        if self.violations:
            document["violations"] = [
                violation.model_dump(exclude_none=True) for violation in self.violations
            ]
        return document


@dataclass(frozen=True, slots=True)
class Simulation:
    """Who asks for a simulation, and how it is kept."""

    submitter: Submitter = "caller"
    """As whom the operation would be submitted; a caller may do less than the orchestrator."""

    retention: Retention = "ephemeral"
    """How long the preview's content is kept (§17.6)."""

    session_id: str | None = None
    simulation_key: str | None = None
    """The caller's key for this request; the same key again gets the first answer."""

    principal: str | None = None
    """Whose key brings the request; None where access is open."""


def simulate_operation(
    kernel: Kernel,
    transaction: LedgerTransaction,
    envelope_document: object,
    policy: SimulationExternalEffectPolicy,
    session_profile_hash: str,
    *,
    prediction: SimulationPrediction | None = None,
    simulation: Simulation | None = None,
) -> SimulationResult:
    """Say what an operation would come to, without doing it; durable with the transaction."""
    simulation = simulation or Simulation()
    transaction.next_commit_time_us()
    receipt = ineligible(envelope_document)
    if receipt is not None:
        return _stop_with_receipt(
            transaction, "not_supported", receipt, str(receipt.body["reason"])
        )
    assert isinstance(envelope_document, dict)  # noqa: S101 - what is eligible is one
    operation_id = transaction.host.new_id()
    key, request = _names(envelope_document, policy, session_profile_hash, simulation, operation_id)
    earlier = earlier_preview(transaction, key, request)
    if earlier is not None:
        return SimulationResult("previewed", earlier[1], earlier[0])

    run = dry_run(
        kernel, transaction, envelope_document, simulation.submitter, simulation.principal
    )
    affected = affected_node_refs(run.changes)
    sources = sources_of(transaction, run, affected, prediction)
    level = simulation_support_level(envelope_document["operation_kind"])
    simulated = () if run.envelope is None else run.envelope.primitive_effects
    check = PolicyCheck(policy, violations_of(simulated, policy, prediction, level))
    if check.violations:
        proceeds = kernel.dev_mode and policy.on_violation == "alert_and_proceed_in_dev_mode"
        blocked = _blocking_receipt(check, envelope_document, proceeds=proceeds)
        stopped = _stop_with_receipt(transaction, "blocked", blocked, BLOCKED, check.violations)
        if not proceeds:
            return stopped

    preview = SimulationPreview(
        preview_id=f"{PREVIEW_ID_PREFIX}{operation_id}",
        simulated_operation_id=operation_id,
        simulation_visibility_taint=sources.resolved,
        policy_generation_id=transaction.policy_generation_id(),
        session_profile_hash=session_profile_hash,
        preview_state=preview_state(
            _unreadable_operation(envelope_document), run, affected, prediction
        ),
        rendered_visibility_warning=_warning(sources),
    )
    content = content_of(preview, simulation.retention, transaction)
    effects = simulate_effects(preview, content.stated, check, sources)
    names = SimulationSource(_actor(run, simulation.submitter), simulation.session_id, key, request)
    document = simulate_envelope(transaction, preview, effects, run, sources, names, prediction)
    result = kernel.submit(transaction, document, "orchestrator")
    if isinstance(result, RejectedResult):
        return SimulationResult("rejected", None, result, violations=check.violations)
    if content.beside is not None:
        append_receipt(transaction, f"receipt:{operation_id}:payload", content.beside, operation_id)
    return SimulationResult("previewed", preview, result, violations=check.violations)


def _unreadable_operation(document: Document) -> UnreadableOperation:
    kinds = tuple(effect["effect_kind"] for effect in document["primitive_effects"])
    return UnreadableOperation(document["operation_kind"], kinds)


def _names(
    document: Document,
    policy: SimulationExternalEffectPolicy,
    session_profile_hash: str,
    simulation: Simulation,
    operation_id: str,
) -> tuple[str, str]:
    """Return the idempotency key of the simulation, and the digest of what was asked (K6)."""
    key_name = operation_id if simulation.simulation_key is None else simulation.simulation_key
    of_whom = () if simulation.principal is None else (simulation.principal,)
    key = runtime_key("simulation", simulation.session_id or "", key_name, *of_whom)
    content = {name: value for name, value in document.items() if name not in _VOLATILE}
    about = document.get("intent_digest") if simulation.submitter == "orchestrator" else None
    request = [policy.model_dump(mode="json"), session_profile_hash, simulation.retention]
    try:
        return key, digest([about or content, *request])
    except CanonicalizationError:
        # Without a canonical form it is no envelope either; the preview says so.
        return key, digest(request)


def _actor(run: DryRun, submitter: Submitter) -> str:
    """Return the actor of the simulation: that of the operation; a caller is a user."""
    envelope = run.envelope
    if submitter == "caller" or envelope is None or envelope.actor not in ACTORS:
        return "user"
    return envelope.actor


def _warning(sources: Sources) -> str | None:
    if sources.resolved not in WARNED_CLASSES:
        return None
    return f"This preview shows {sources.resolved} material; whoever sees it must be cleared."


def _blocking_receipt(check: PolicyCheck, document: Document, *, proceeds: bool) -> Receipt:
    body = {
        **check.body(),
        "reason_code": BLOCKED,
        "on_violation": check.policy.on_violation,
        "halted": not proceeds,
        "operation_kind": repeatable(document.get("operation_kind")),
        "operation_to_simulate": repeatable(document.get("operation_id")),
    }
    return Receipt(BLOCKED, body)


def _stop_with_receipt(
    transaction: LedgerTransaction,
    outcome: Outcome,
    receipt: Receipt,
    reason: str,
    violations: tuple[ExternalEffectViolation, ...] = (),
) -> SimulationResult:
    """Leave a durable receipt, which no operation emitted."""
    receipt_id = f"receipt:{transaction.host.new_id()}"
    append_receipt(transaction, receipt_id, receipt, None)
    return SimulationResult(outcome, receipt_id=receipt_id, reason=reason, violations=violations)


def ineligible(document: object) -> Receipt | None:
    """Return the receipt of an operation that cannot be simulated, None for one that can (§11.4).

    The document is judged as it came: the answer must not depend on the rest of it being well
    formed.
    """
    known = document if isinstance(document, dict) else {}
    kind = repeatable(known.get("operation_kind"))
    if simulation_support_level(kind) == NOT_SIMULATABLE:
        reason = "operation_kind_marked_not_simulatable_v1_6"
    elif _has_untyped_effect(known.get("primitive_effects")):
        reason = "operation_has_untyped_effects"
    else:
        return None
    body = {
        "operation_kind": kind,
        "reason": reason,
        "reason_code": reason,
        "operation_to_simulate": repeatable(known.get("operation_id")),
    }
    return Receipt(NOT_SUPPORTED, body)


def repeatable(value: Any) -> str:
    """Return a text that a receipt can hold, an empty one for what it cannot."""
    if type(value) is not str or len(value) > STATED_CHARS_MAX:
        return ""
    try:
        value.encode()
    except UnicodeEncodeError:
        return ""
    return value


def _has_untyped_effect(effects: object) -> bool:
    """An effect is typed when its kind is in the registry (§11.4)."""
    if not isinstance(effects, list):
        return True
    for effect in effects:
        kind = effect.get("effect_kind") if isinstance(effect, dict) else None
        if not isinstance(kind, str) or kind not in EFFECT_KINDS:
            return True
    return False


def earlier_preview(
    view: LedgerView, idempotency_key: str, request: str
) -> tuple[SubmissionResult, SimulationPreview | None] | None:
    """Return the first answer to the same request (K6), None for none inside its window."""
    record = view.live_idempotency_record(idempotency_key)
    if record is None or record["content_digest"] != request:
        return None
    if record["expires_at_us"] <= view.head().committed_at_us:
        return None
    result = recall(view, record)
    return result, stored_preview(view, result.operation_id)


def stored_preview(view: LedgerView, operation_id: str) -> SimulationPreview | None:
    """Return a preview as it is on the record, without its content where that is gone.

    Raises:
        RangeQuarantined: the row of its operation is quarantined.
    """
    row = view.log_row_of(operation_id)
    if row is not None:
        view.quarantines().expect_none_over(row["ec_sequence_number"])
    envelope = view.envelope(operation_id)
    effects = (envelope or {}).get("primitive_effects") or ()
    stated = [
        effect["payload"] for effect in effects if effect.get("receipt_subkind") == PREVIEW_EFFECT
    ]
    if not stated or "preview_state" not in stated[0]:
        return None
    preview = {name: value for name, value in stated[0].items() if name != "retention_class"}
    state = dict(preview["preview_state"])
    if state.pop("preview_payload_commitment", None) is not None:
        state["preview_payload"] = _content(view, operation_id)
    model = PREVIEW_PAYLOADS[state["preview_kind"]]
    state["preview_payload"] = model.model_validate(state["preview_payload"])
    return SimulationPreview.model_validate({**preview, "preview_state": state})


def _content(view: LedgerView, operation_id: str) -> Document:
    where = {"operation_id": operation_id, "receipt_kind": PAYLOAD_RECEIPT}
    rows = view.tables.scan(TableQuery(schema.ephemeral_receipts, where, limit=1))
    if not rows:
        return {"records_left_out": True}
    content: Document = orjson.loads(rows[0]["receipt_bytes"])["preview_payload"]
    return content
