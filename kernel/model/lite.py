"""Defines the lite envelope of version 1.5 (PBEOperationReceiptLite, §2.8, K14).

It names what every lite envelope has, and what migration reads of it where it is there. Fields it
does not name are kept in the stored bytes and read by nobody.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from kernel.model.envelope import MAX_CAUSAL_PARENTS, MAX_EFFECTS, Actor, Refs, Text
from kernel.model.numbers import NonNegative, SchemaVersion

LITE_VERSION = "1.5"

LITE_INTENT = "operation_receipt_lite"
"""The intent of a log row that holds a lite envelope; such a row does nothing."""


class PBEOperationReceiptLite(BaseModel):
    """An operation as version 1.5 recorded it."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    operation_id: Text
    envelope_version: Literal["1.5"]
    operation_kind: Text
    idempotency_key: Text
    actor: Actor
    recorded_at: Text
    schema_version: SchemaVersion = 1
    semantic_intent: Text | None = None
    primitive_effects: (
        Annotated[tuple[dict[str, Any], ...], Field(max_length=MAX_EFFECTS, fail_fast=True)] | None
    ) = None
    causal_parent_operation_ids: (
        Annotated[tuple[Text, ...], Field(max_length=MAX_CAUSAL_PARENTS, fail_fast=True)] | None
    ) = None
    source_refs: Refs | None = None
    target_refs: Refs | None = None
    affected_subgraph_descriptor: dict[str, Any] | None = None
    read_set_refs: Refs | None = None
    write_set_refs: Refs | None = None
    source_visibility_taint: Refs | None = None
    resolved_output_visibility_class: Text | None = None
    recorded_model_outputs: tuple[Any, ...] | None = None
    duration_ms: NonNegative | None = None
    session_id: Text | None = None
    run_id: Text | None = None
