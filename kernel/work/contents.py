"""Defines the contents of asked-for work (§13.4, §14.2, §16.5).

A content keeps what its producer stated, fields that no model names included (K14).
"""

from typing import Annotated

from pydantic import Field

from kernel.model.bindings.source_binding import BindingTargetKind
from kernel.model.extraction_result import FIELDS_MAX, FieldName
from kernel.model.numbers import SchemaVersion
from kernel.records.extraction import ExtractionAttempt
from kernel.records.typed import Key, Name, Payload
from kernel.values.priorities import CapacityPriority

BINDING_QUEUE = "binding-evaluation"
EXTRACTION_QUEUE = "extraction-transition"


class BindingEvaluation(Payload):
    """A binding to evaluate against a source event.

    An evaluation by the record reads the artifact and the generation that are named here. A
    producer that knows neither states the event alone.
    """

    binding_id: Name
    source_event_id: Name
    capacity_priority: CapacityPriority = "background"
    binding_generation_id: Name | None = None
    """The generation of the binding whose snapshot is evaluated, whatever is in force by then."""

    artifact_ref: Name | None = None
    """The node of the SourceArtifact that the event brought, whose fields the selectors judge."""

    target_kind: BindingTargetKind = "corpus_document_membership"
    schema_version: SchemaVersion = 1


class ExtractionTransition(ExtractionAttempt):
    """A step of an extraction to record; where it names no parent, that is the run's last step."""

    extraction_run_id: Key
    schema_version: SchemaVersion = 1


EXTRACTION_REQUESTED = "extraction_requested"


class ExtractionTask(Payload):
    """An extraction for a worker to perform; the same again is its reentry (§16.4)."""

    extraction_run_id: Key
    source_ref: Name
    corpus_id: Name
    """The corpus of which the claims become candidates."""

    extractor: Name | None = None
    """None for the one that serves the source's kind of content."""

    fields: Annotated[tuple[FieldName, ...], Field(max_length=FIELDS_MAX)] = ()
    """What is wanted of an extractor that has no fields of its own."""

    understanding_id: Name | None = None
    """The understanding that the claims feed."""

    cause: Name = EXTRACTION_REQUESTED
    """Why the run begins or is entered again, the `state_change_reason` of that step."""

    replaces_extraction_run_id: Name | None = None
    """The run that ended and in whose place this one begins anew."""

    schema_version: SchemaVersion = 1
