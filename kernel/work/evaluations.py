"""Evaluates by the record: what is read, what it comes to, what a fire writes (§13.4, §13.5).

A worker and the gateway call the same function, the worker on its snapshot and the gateway in the
transaction that closes the request. If they come to the same outcome nothing that mattered has
changed in between.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kernel.ledger.ledger import Document, LedgerView, Request
from kernel.model.bindings.dispatch import (
    BindingStanding,
    EvaluatedOn,
    Identity,
    Refused,
    artifact_digest,
    outcome_for,
)
from kernel.model.bindings.evaluation import evaluate
from kernel.model.bindings.outcomes import FIRED, BindingOutcomeRecord
from kernel.model.bindings.particulars import NONE_STATED, Particulars
from kernel.model.bindings.source_binding import SourceBinding, read_source_binding
from kernel.model.node_kinds import SOURCE_BINDING
from kernel.records.bindings import generation_in_force, generation_of
from kernel.records.source_artifacts import Artifact, read_artifact
from kernel.values.canonical import digest
from kernel.work.contents import BindingEvaluation
from kernel.work.fire_targets import FIRE_TARGETS
from kernel.work.requests import read_content

STATES_TEXT = frozenset({"relationship_candidate", "court_disposition_observation"})
"""Target kinds of which something may stand in the artifact's text alone."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """An evaluation as it came out, and what of it a fire is made of."""

    outcome: BindingOutcomeRecord
    read: EvaluatedOn
    fields: Mapping[str, str]
    binding: SourceBinding | None
    identity: Identity
    payload: Document
    """What the effect of a fire states."""

    @property
    def fires(self) -> bool:
        """Tell whether the binding fires."""
        return self.outcome.outcome_reason_code == FIRED

    @property
    def reads_text(self) -> bool:
        """Tell whether the target has to state what only the artifact's text may say."""
        return self.read.standing is not None and self.outcome.target_kind in STATES_TEXT

    def refuse(self, check: str, reason_code: str) -> "Evaluation | None":
        """Return what it comes to when the kernel refuses its operation; None where to no end."""
        read = self.read.model_copy(
            update={"refused": Refused(check=check, reason_code=reason_code)}
        )
        try:
            outcome = outcome_for(self.identity, self.binding, self.fields, read)
        except ValueError:
            return None
        return Evaluation(outcome, read, self.fields, self.binding, self.identity, {})


def evaluate_request(
    view: LedgerView, request: Request, particulars: Particulars = NONE_STATED
) -> Evaluation:
    """Evaluate the binding and the artifact that a request names, as the record has them."""
    content: BindingEvaluation = read_content(request)
    identity = Identity(
        f"outcome:{request.request_id}",
        content.source_event_id,
        content.binding_id,
        content.target_kind,
    )
    standing, generation_id, binding = _binding(view, content)
    artifact = read_artifact(view, artifact_ref_of(content))
    read = EvaluatedOn(binding=standing, binding_generation_id=generation_id)
    fields: Mapping[str, str] = {}
    payload: Document = {}
    if artifact is not None:
        fields = artifact.fields
        read = read.model_copy(update=_artifact_read(artifact, particulars))
        if binding is not None and standing == "in_force" and _matches(binding, fields):
            target = FIRE_TARGETS[binding.target_kind](view, binding, artifact, particulars)
            payload = target.payload
            read = read.model_copy(update={"standing": target.standing, "target_ref": target.ref})
    outcome = outcome_for(identity, binding, fields, read)
    return Evaluation(outcome, read, fields, binding, identity, payload)


def _matches(binding: SourceBinding, fields: Mapping[str, str]) -> bool:
    return evaluate(binding.selectors, fields).matched


def _artifact_read(artifact: Artifact, particulars: Particulars) -> Document:
    stated = particulars.model_dump(mode="json", exclude_defaults=True)
    return {
        "artifact_ref": artifact.ref,
        "artifact_version": artifact.version,
        "artifact_digest": artifact_digest(artifact.fields),
        "particulars_digest": digest(stated) if stated else None,
    }


def _binding(
    view: LedgerView, content: BindingEvaluation
) -> tuple[BindingStanding, str | None, SourceBinding | None]:
    """Return how the binding stands, and the generation that the request is evaluated by."""
    node = view.node(content.binding_id)
    in_force = generation_in_force(view, content.binding_id)
    stated = content.binding_generation_id
    if node is None or node["node_kind"] != SOURCE_BINDING or in_force is None:
        return "unknown", None, None
    current = str(in_force["binding_generation_id"])
    record = (
        in_force
        if stated in (None, current)
        else generation_of(view, content.binding_id, str(stated))
    )
    if record is None:
        return "generation_unknown", None, None
    binding = read_source_binding(record["binding_snapshot"])
    generation_id = str(record["binding_generation_id"])
    if generation_id != current:
        return "superseded", generation_id, binding
    return ("in_force" if node["state"] == "active" else "disabled"), generation_id, binding


def is_in_text(view: LedgerView, request: Request, particulars: Particulars) -> bool:
    """Tell whether every stretch that particulars name lies in the artifact's text."""
    if not particulars.stretches:
        return True
    content: BindingEvaluation = read_content(request)
    artifact = read_artifact(view, artifact_ref_of(content))
    text = None if artifact is None else artifact.text
    return text is not None and all(
        stretch.offset + stretch.length <= len(text) for stretch in particulars.stretches
    )


def artifact_ref_of(content: BindingEvaluation) -> str:
    """Return the artifact that is judged: the one that the request names, else its event."""
    return content.artifact_ref or content.source_event_id
