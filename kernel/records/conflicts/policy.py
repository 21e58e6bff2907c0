"""Defines the policy of a conflict: classes, strategies, what a generation may state (§15.5).

A policy generation may state a policy for a class, for one kind of node or for all, with another
strategy for single fields. The policy of the kind goes before the policy of all kinds, and what
neither states follows the default of the class.
"""

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, Literal

import orjson
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter

from kernel.ledger.ledger import LedgerView

POLICY_FIELD = "semantic_conflict_policies"
"""Where the payload of a policy generation holds its policies."""

MAX_POLICIES = 256
MAX_OVERRIDES = 256

ConflictClass = Literal[
    "field_value_disagree",
    "metadata_provenance_conflict",
    "cardinality_conflict",
    "relationship_target_conflict",
    "temporal_validity_overlap",
]
Strategy = Literal[
    "first_writer_wins",
    "last_writer_wins",
    "highest_authority_wins",
    "merge_with_provenance",
    "user_review_required",
    "emit_contradiction_edge",
]

DEFAULT_STRATEGIES: Mapping[ConflictClass, Strategy] = MappingProxyType(
    {
        "field_value_disagree": "first_writer_wins",
        "metadata_provenance_conflict": "merge_with_provenance",
        "cardinality_conflict": "user_review_required",
        "relationship_target_conflict": "emit_contradiction_edge",
        "temporal_validity_overlap": "user_review_required",
    }
)

_Name = Annotated[str, StringConstraints(min_length=1, max_length=512)]


class SemanticConflictPolicy(BaseModel):
    """The strategy of one class of conflicts."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    conflict_class: ConflictClass
    node_kind: _Name | None = None
    """None applies to every kind, and to edges, which have none."""

    default_strategy: Strategy
    per_field_overrides: Annotated[dict[_Name, Strategy], Field(max_length=MAX_OVERRIDES)] = Field(
        default_factory=dict
    )


def _each_once(
    policies: tuple[SemanticConflictPolicy, ...],
) -> tuple[SemanticConflictPolicy, ...]:
    if len({(policy.conflict_class, policy.node_kind) for policy in policies}) != len(policies):
        raise ValueError("a class has one policy for a kind")
    return policies


Policies = Annotated[
    tuple[SemanticConflictPolicy, ...],
    Field(max_length=MAX_POLICIES),
    AfterValidator(_each_once),
]

_POLICIES: TypeAdapter[tuple[SemanticConflictPolicy, ...]] = TypeAdapter(Policies)


def policies_of(view: LedgerView) -> tuple[SemanticConflictPolicy, ...]:
    """Return the policies of the generation in force."""
    return _policies_in(view.policy_row()["record"])


@lru_cache(maxsize=16)
def _policies_in(policy_record: bytes) -> tuple[SemanticConflictPolicy, ...]:
    stated = orjson.loads(policy_record)["payload"].get(POLICY_FIELD, [])
    return _POLICIES.validate_json(orjson.dumps(stated))


def strategy_for(
    policies: tuple[SemanticConflictPolicy, ...],
    conflict_class: ConflictClass,
    node_kind: str | None,
    field: str,
) -> Strategy:
    """Return what is done about a conflict in one field."""
    stated = {
        policy.node_kind: policy for policy in policies if policy.conflict_class == conflict_class
    }
    for policy in (stated.get(node_kind), stated.get(None)):
        if policy is not None:
            return policy.per_field_overrides.get(field, policy.default_strategy)
    return DEFAULT_STRATEGIES[conflict_class]
