"""What each queue of asked-for work takes, as a table (§13.4, §14.2, §16.5).

A content keeps what its producer stated, fields that no model names included (K14).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import Field

from kernel.stores.extraction import ExtractionAttempt
from kernel.stores.typed import Key, Name, Payload

BINDING_QUEUE = "binding-evaluation"
EXTRACTION_QUEUE = "extraction-transition"

CapacityPriority = Literal["background", "user_initiated", "critical"]
BindingTargetKind = Literal[
    "corpus_document_membership",
    "case_metadata_update",
    "relationship_candidate",
    "court_disposition_observation",
    "extraction_task",
]

PRIORITY_OF_CAPACITY: Mapping[str, str] = MappingProxyType(
    {
        "critical": "user_initiated_critical",
        "user_initiated": "user_active_session",
        "background": "background_normal",
    }
)
"""Under which priority of the queue a binding waits; most urgent first."""

CAPACITY_OF_PRIORITY: Mapping[str, str] = MappingProxyType(
    {priority: capacity for capacity, priority in PRIORITY_OF_CAPACITY.items()}
)

DEFAULT_PRIORITY = "background_normal"


class BindingEvaluation(Payload):
    """A binding to evaluate against a source event."""

    binding_id: Name
    source_event_id: Name
    capacity_priority: CapacityPriority = "background"
    binding_generation_id: Name | None = None
    target_kind: BindingTargetKind = "corpus_document_membership"
    schema_version: Annotated[int, Field(ge=1, le=1)] = 1


class ExtractionTransition(ExtractionAttempt):
    """A step of an extraction to record; without a parent the run's last step is it."""

    extraction_run_id: Key
    schema_version: Annotated[int, Field(ge=1, le=1)] = 1


@dataclass(frozen=True, slots=True)
class QueueKind:
    """A queue's row of the table."""

    content: type[Payload]
    item_key: str
    """The field that names what requests belong to: their event, their run."""

    priority: Callable[[Any], str] | None
    """How the content decides the priority; None where the producer states it."""


QUEUE_KINDS: Mapping[str, QueueKind] = MappingProxyType(
    {
        BINDING_QUEUE: QueueKind(
            BindingEvaluation,
            "source_event_id",
            lambda content: PRIORITY_OF_CAPACITY[content.capacity_priority],
        ),
        EXTRACTION_QUEUE: QueueKind(ExtractionTransition, "extraction_run_id", None),
    }
)
