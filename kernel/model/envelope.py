"""Defines the operation envelope and its effects (§2.1, §2.4, §4.4).

The models name the fields that the kernel reads. Fields they do not name are kept in the stored
bytes and read by nobody (§2.8): the kernel stores the document it was given, not the model.
"""

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from kernel.model.model_output import RecordedModelOutput, SubmittedModelOutput
from kernel.model.numbers import (
    Cost,
    Count,
    DurationMs,
    NonNegative,
    PositiveCount,
    SchemaVersion,
)

MAX_ENVELOPE_BYTES = 1 << 20
MAX_DEPTH = 32
MAX_EFFECTS = 256
MAX_REFS = 10_000
MAX_CAUSAL_PARENTS = 64
MAX_MODEL_OUTPUTS = 32
MAX_ADJUDICATED = 64

VOLATILE = frozenset({"operation_id", "recorded_at", "duration_ms"})
"""Fields in which two submissions of one thing may differ (K6)."""

Text = Annotated[str, StringConstraints(min_length=1, max_length=512)]
Refs = Annotated[tuple[Text, ...], Field(max_length=MAX_REFS, fail_fast=True)]
"""Reading stops at the first wrong entry: each of thousands would cost as much as a good one."""

ClosedName = str
"""A name of a closed set, read as any text: the check that knows the set refuses others (K4)."""

ClosedNames = Annotated[tuple[ClosedName, ...], Field(max_length=MAX_REFS, fail_fast=True)]

Reversibility = Literal[
    "fully_reversible",
    "compensating_operation_only",
    "irreversible_external_effect",
    "receipt_only",
]
REVERSIBILITIES: frozenset[str] = frozenset(get_args(Reversibility))

Actor = Literal["user", "system", "agent", "migration"]
ACTORS: frozenset[str] = frozenset(get_args(Actor))


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class UndoneEffect(_Document):
    """Which effect an inverse undoes, and the states between which it goes (K2).

    A hash is empty where there is no record.
    """

    operation_id: Text
    effect_id: Text
    store: Text
    record_key: Annotated[str, StringConstraints(min_length=1, max_length=2048)]
    restores_hash: Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{64})?$")]
    """Of the state that is put back."""

    replaces_hash: Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{64})?$")]
    """Of the state that stands now."""

    restored_record: dict[str, Any] | None = None
    """The record that is put back, where it never stood like this before."""


class KernelEffect(_Document):
    """One typed effect of an operation (§4.4)."""

    effect_id: Text
    effect_kind: ClosedName
    reversibility: ClosedName
    inverse_operation_kind: ClosedName | None = None
    compensating_operation_kind: ClosedName | None = None
    external_effect_descriptor: str | None = None
    target_ref: Text | None = None
    receipt_subkind: Text | None = None
    payload: dict[str, Any] = Field(default_factory=dict)
    undoes: UndoneEffect | None = None
    schema_version: SchemaVersion


class AffectedSubgraphDescriptor(_Document):
    """The declared scope of an operation (INV-A-SCOPE-1); check V4 judges it."""

    scope_kind: ClosedName | None = None
    affected_node_refs: Refs = ()
    affected_edge_refs: Refs = ()
    visibility_class_envelope: Refs = ()
    estimated_cascade_depth: Count = 0
    estimated_capacity_cost: NonNegative = 0
    schema_version: SchemaVersion = 1


class CapacityOverride(_Document):
    """A user's confirmation that an operation goes on although capacity is short (§18.2)."""

    confirmed_by: Text
    reason: Text


class Superseded(_Document):
    """The lite operation whose place an envelope takes, and the row in which that stands (K24)."""

    operation_id: Text
    ec_sequence_number: Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,17}$")]


class ItemDecision(_Document):
    """Who took what waited for a person, and why (§19.3)."""

    decided_by: Text
    grounds: Annotated[str, StringConstraints(min_length=1, max_length=1024)]


class Implied(_Document):
    """The detector's run that emitted an operation, and what implied it (§19.1, K31)."""

    detector: Text
    implication_epoch: PositiveCount
    """The number of the run."""

    implied_by_operation_ids: Annotated[
        tuple[Text, ...], Field(min_length=1, max_length=MAX_CAUSAL_PARENTS, fail_fast=True)
    ]


class BindingFire(_Document):
    """The binding whose fire an operation is, and the event on which it fired (§13.5)."""

    binding_id: Text
    binding_generation_id: Text
    source_event_id: Text


class Envelope(_Document):
    """An operation as it is on the record (§2.1); what is submitted is a `SubmittedEnvelope`.

    V1 speaks only of shape. What another check refuses with a reason code of its own may be absent
    here, as the scope descriptor (V4) and the policy generation (V5), or any text (`ClosedName`).
    """

    operation_id: Text
    envelope_version: Literal["1.6"]
    operation_kind: ClosedName
    semantic_intent: ClosedName
    primitive_effects: Annotated[
        tuple[KernelEffect, ...], Field(max_length=MAX_EFFECTS + 1, fail_fast=True)
    ]
    """MAX_EFFECTS; an inverse has its receipt beside as many."""

    causal_parent_operation_ids: Annotated[
        tuple[Text, ...], Field(max_length=MAX_CAUSAL_PARENTS, fail_fast=True)
    ]
    idempotency_key: Text
    actor: ClosedName
    source_refs: Refs
    target_refs: Refs
    policy_generation_id: ClosedName | None = None
    affected_subgraph_descriptor: AffectedSubgraphDescriptor | None = None
    read_set_refs: Refs
    write_set_refs: Refs
    source_visibility_taint: ClosedNames = ()
    resolved_output_visibility_class: ClosedName | None = None
    recorded_model_outputs: Annotated[
        tuple[RecordedModelOutput, ...], Field(max_length=MAX_MODEL_OUTPUTS, fail_fast=True)
    ] = ()
    recorded_at: Text
    duration_ms: NonNegative | None = None
    schema_version: SchemaVersion
    session_id: Text | None = None
    epoch_id: Text | None = None
    """The caller's batch to which the operation belongs (K22)."""

    compensates_operation_id: Text | None = None
    supersedes: Superseded | None = None
    actor_session_kind: Text | None = None
    run_id: Text | None = None
    """The run whose write budget the operation draws on; else its session's (§18.1)."""

    binding_fire: BindingFire | None = None
    """What the operation is a fire of; the orchestrator alone states it."""

    adjudicates_receipt_ids: Annotated[
        tuple[Text, ...], Field(max_length=MAX_ADJUDICATED, fail_fast=True)
    ] = ()
    """Items of the review queue that the operation resolves (§19.2)."""

    item_decision: ItemDecision | None = None
    """Who took the items that the operation resolves, where a reviewer did."""

    implication: Implied | None = None
    """Stated by what a detector of implications emits, and by nothing else."""

    capacity_override: CapacityOverride | None = None
    """Confirms that the operation goes on without capacity; only a user may (§18.2)."""

    recompute_priority: Text | None = None
    recompute_as_of_sequence: Count | None = None
    principal: Any = None
    """Whose key brought it; rows of the rules since version 3 seal it, others may say anything."""


class SubmittedScope(AffectedSubgraphDescriptor):
    """A scope whose cost is one that a lease can have."""

    estimated_capacity_cost: Cost = 0


class SubmittedEnvelope(Envelope):
    """An envelope as V1 takes it, whose numbers are held to what they measure."""

    principal: Text | None = None

    affected_subgraph_descriptor: SubmittedScope | None = None
    recorded_model_outputs: Annotated[
        tuple[SubmittedModelOutput, ...], Field(max_length=MAX_MODEL_OUTPUTS, fail_fast=True)
    ] = ()
    duration_ms: DurationMs | None = None
