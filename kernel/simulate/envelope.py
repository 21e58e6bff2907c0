"""Makes the envelope of a simulation: receipts and nothing else (V4-A-SIM-COMPOSE, §11.5 step 7).

The statement of an operation is durable. The content of an ephemeral preview is therefore not in
it: the envelope holds a salted commitment, and the content is kept beside it for as long as
ephemeral receipts are (decision kernel/0046).
"""

from dataclasses import dataclass
from typing import Any

from kernel.ledger.blob_commitment import SALT_BYTES, blob_commitment
from kernel.ledger.ledger import Document, LedgerTransaction
from kernel.model.envelope import MAX_CAUSAL_PARENTS
from kernel.model.receipt import Receipt, receipt_effect
from kernel.model.simulation import (
    PAYLOAD_RECEIPT,
    POLICY_CHECK_EFFECT,
    PREVIEW_EFFECT,
    SIMULATE,
    WARNING_EFFECT,
    ExternalEffectViolation,
    Retention,
    SimulationExternalEffectPolicy,
    SimulationPrediction,
    SimulationPreview,
)
from kernel.simulate.affected import Sources
from kernel.simulate.dry_run import DryRun
from kernel.values.canonical import canonicalize
from kernel.values.host import iso_time
from kernel.values.visibility import LEAST_RESTRICTIVE


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a preview: what the envelope states, and what is kept beside it."""

    stated: Document
    beside: Receipt | None
    """None where the content is durable, and so in the envelope itself."""


@dataclass(frozen=True, slots=True)
class PolicyCheck:
    """The result of holding an operation against a policy."""

    policy: SimulationExternalEffectPolicy
    violations: tuple[ExternalEffectViolation, ...]

    def body(self) -> Document:
        """Return what a receipt says of it."""
        return {
            "policy_id": self.policy.policy_id,
            "violations": [
                violation.model_dump(exclude_none=True) for violation in self.violations
            ],
        }


@dataclass(frozen=True, slots=True)
class SimulationSource:
    """Who asked for a simulation, and the key and digest that identify the request."""

    actor: str
    session_id: str | None
    idempotency_key: str
    intent_digest: str


def content_of(
    preview: SimulationPreview, retention: Retention, transaction: LedgerTransaction
) -> Content:
    """Split a preview by how long its parts are kept (§17.3, §17.6)."""
    document = preview.document()
    stated = {**document, "retention_class": retention}
    if retention == "durable":
        return Content(stated, None)
    state = dict(document["preview_state"])
    payload = state.pop("preview_payload")
    salt = transaction.host.random_bytes(SALT_BYTES)
    state["preview_payload_commitment"] = blob_commitment(salt, canonicalize(payload))
    beside: Document = {
        "preview_id": preview.preview_id,
        "salt": salt.hex(),
        "preview_payload": payload,
    }
    return Content({**stated, "preview_state": state}, Receipt(PAYLOAD_RECEIPT, beside))


def simulate_effects(
    preview: SimulationPreview, content: Document, check: PolicyCheck, sources: Sources
) -> list[Document]:
    """Return the receipts of a simulation: two, and a third above public_open (K8)."""
    policy = check.policy.model_dump(mode="json")
    checked = {
        **policy,
        **check.body(),
        "outcome": "alerted_in_dev_mode" if check.violations else "passed",
        "preview_id": preview.preview_id,
        "retention_class": content["retention_class"],
    }
    effects = [
        receipt_effect(PREVIEW_EFFECT, content),
        receipt_effect(POLICY_CHECK_EFFECT, checked),
    ]
    if sources.resolved != LEAST_RESTRICTIVE:
        warning: Document = {
            "preview_id": preview.preview_id,
            "source_visibility_taint_distinct": sorted(set(sources.taint)),
            "resolved_output_visibility_class": sources.resolved,
        }
        if preview.rendered_visibility_warning is not None:
            warning["rendered_visibility_warning"] = preview.rendered_visibility_warning
        effects.append(receipt_effect(WARNING_EFFECT, warning))
    return effects


def simulate_envelope(
    transaction: LedgerTransaction,
    preview: SimulationPreview,
    effects: list[Document],
    run: DryRun,
    sources: Sources,
    source: SimulationSource,
    prediction: SimulationPrediction | None,
) -> Document:
    """Return the simulation's own operation, to be submitted as the orchestrator."""
    affected = list(preview.preview_state.affected_node_refs)
    refs = list(sources.refs)
    document: Document = {
        "operation_id": preview.simulated_operation_id,
        "envelope_version": "1.6",
        "operation_kind": SIMULATE,
        "semantic_intent": SIMULATE,
        "primitive_effects": effects,
        "causal_parent_operation_ids": _causal_parents(transaction, run, sources),
        "idempotency_key": source.idempotency_key,
        "intent_digest": source.intent_digest,
        "actor": source.actor,
        "source_refs": refs,
        "target_refs": [] if run.envelope is None else list(run.envelope.target_refs),
        "policy_generation_id": preview.policy_generation_id,
        "affected_subgraph_descriptor": {
            "scope_kind": "subgraph_within_corpus",
            "affected_node_refs": affected,
            "affected_edge_refs": [],
            "visibility_class_envelope": [sources.resolved],
            "estimated_cascade_depth": 1,
            "schema_version": 1,
        },
        "read_set_refs": list(dict.fromkeys([*refs, *affected])),
        "write_set_refs": [],
        "source_visibility_taint": list(sources.taint),
        "resolved_output_visibility_class": sources.resolved,
        "recorded_model_outputs": _model_outputs(preview, prediction),
        "recorded_at": iso_time(transaction.host.now_us()),
        "schema_version": 1,
    }
    if source.session_id is not None:
        document["session_id"] = source.session_id
    return document


def _causal_parents(transaction: LedgerTransaction, run: DryRun, sources: Sources) -> list[str]:
    """Simulations that it was made of, and the operation itself where it is on the record."""
    parents = list(sources.upstream_operation_ids)
    if run.envelope is not None and transaction.log_row_of(run.envelope.operation_id) is not None:
        parents.append(run.envelope.operation_id)
    return list(dict.fromkeys(parents))[:MAX_CAUSAL_PARENTS]


def _model_outputs(
    preview: SimulationPreview, prediction: SimulationPrediction | None
) -> list[dict[str, Any]]:
    """The simulation is the operation that records what the model said."""
    outputs = () if prediction is None else prediction.recorded_model_outputs
    recorded_by = {"recorded_by_operation_id": preview.simulated_operation_id}
    return [output.model_dump(mode="json", exclude_none=True) | recorded_by for output in outputs]
