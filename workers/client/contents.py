"""Defines what the queues take, as a producer states it; a field that is None is not stated.

The names and fields are those of the record (§13.4, §14.2, §16.4, §16.5). The gateway checks the
values; here types say which there are. Any dataclass with a `queue` may be asked for likewise.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, Protocol

CapacityPriority = Literal["background", "user_initiated", "critical"]
BindingTargetKind = Literal[
    "corpus_document_membership",
    "case_metadata_update",
    "relationship_candidate",
    "court_disposition_observation",
    "extraction_task",
]
ExtractionState = Literal[
    "pending", "running", "succeeded", "degraded", "blocked", "abandoned", "cancelled"
]
BlockReason = Literal[
    "auth_required",
    "model_unavailable",
    "rate_limit",
    "context_window_exhausted",
    "ocr_failed",
    "document_unparseable",
    "corpus_resource_unavailable",
    "upstream_dependency_unmet",
    "manual_pause",
    "policy_blocked",
    "visibility_blocked",
    "materialization_unavailable",
    "source_unavailable",
    "quota_exceeded",
    "quality_hard_fail",
    "prompt_injection_risk_unresolved",
]


class JobContent(Protocol):
    """A dataclass whose fields are the content of a job, and which names its queue."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    queue: ClassVar[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingEvaluation:
    """A binding to evaluate against a source event.

    A producer that knows neither the artifact nor the generation states the event alone.
    """

    queue: ClassVar[str] = "binding-evaluation"

    binding_id: str
    source_event_id: str
    capacity_priority: CapacityPriority = "background"
    """Decides the request's priority where the binding is not on record."""

    binding_generation_id: str | None = None
    artifact_ref: str | None = None
    target_kind: BindingTargetKind = "corpus_document_membership"
    schema_version: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionTransition:
    """A step of an extraction to record; where it names no parent, that is the run's last step."""

    queue: ClassVar[str] = "extraction-transition"

    extraction_run_id: str
    attempt_number: int
    prior_state: ExtractionState
    current_state: ExtractionState
    state_change_reason: str
    block_reason: BlockReason | None = None
    """There if, and only if, the step leads to `blocked`."""

    parent_operation_id: str | None = None
    cancellation_reason: str | None = None
    replaces_extraction_run_id: str | None = None
    schema_version: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionTask:
    """An extraction for a worker to perform; the same again is its reentry (§16.4)."""

    queue: ClassVar[str] = "extraction-transition"

    extraction_run_id: str
    source_ref: str
    corpus_id: str
    """The corpus of which the claims become candidates."""

    extractor: str | None = None
    """None for the one that serves the source's kind of content."""

    fields: tuple[str, ...] = ()
    """What is wanted of an extractor that has no fields of its own."""

    understanding_id: str | None = None
    """The understanding that the claims feed."""

    cause: str = "extraction_requested"
    """Why the run begins or is entered again."""

    replaces_extraction_run_id: str | None = None
    schema_version: int = 1


def document_of(content: JobContent | Mapping[str, Any]) -> dict[str, Any]:
    """Return a content as JSON has it."""
    if isinstance(content, Mapping):
        return dict(content)
    values = ((field.name, getattr(content, field.name)) for field in fields(content))
    return {name: value for name, value in values if value is not None}
