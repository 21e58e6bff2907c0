"""The contents of asked-for work by queue, as a table (§13.4, §14.2, §16.5).

A content keeps what its producer stated, fields that no model names included (K14).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated

from pydantic import Field

from kernel.bindings.source_binding import BindingTargetKind
from kernel.priorities import CapacityPriority
from kernel.stores.extraction import ExtractionAttempt
from kernel.stores.typed import Key, Name, Payload

BINDING_QUEUE = "binding-evaluation"
EXTRACTION_QUEUE = "extraction-transition"


class BindingEvaluation(Payload):
    """A binding to evaluate against a source event."""

    binding_id: Name
    source_event_id: Name
    capacity_priority: CapacityPriority = "background"
    binding_generation_id: Name | None = None
    target_kind: BindingTargetKind = "corpus_document_membership"
    schema_version: Annotated[int, Field(ge=1, le=1)] = 1


class ExtractionTransition(ExtractionAttempt):
    """A step of an extraction to record; where it names no parent, that is the run's last step."""

    extraction_run_id: Key
    schema_version: Annotated[int, Field(ge=1, le=1)] = 1


@dataclass(frozen=True, slots=True)
class QueueKind:
    """A queue's row of the table."""

    content: type[Payload]
    item_key: str
    """The field that names what requests belong to: their event, their run."""

    default_priority: str
    priority: str | None = None
    """The field that decides the priority; None where the producer states it."""


QUEUE_KINDS: Mapping[str, QueueKind] = MappingProxyType(
    {
        BINDING_QUEUE: QueueKind(
            BindingEvaluation, "source_event_id", "background", priority="capacity_priority"
        ),
        EXTRACTION_QUEUE: QueueKind(ExtractionTransition, "extraction_run_id", "normal"),
    }
)
