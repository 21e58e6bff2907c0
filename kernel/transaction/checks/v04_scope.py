"""V4: every envelope declares what it writes, and a scope that names at least that (§2.4, §2.6)."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from kernel.algebra.effects import EFFECT_KINDS, RECEIPT
from kernel.algebra.verbs import ROLLBACK
from kernel.ledger.schema import STATE_TABLES
from kernel.model.envelope import AffectedSubgraphDescriptor, Envelope
from kernel.transaction.checks.check import Refusal, Submission, Verdict

MAX_CASCADE_DEPTH_BY_KIND: Mapping[str, float] = MappingProxyType(
    {
        "single_node": 0,
        "node_with_neighbors": 1,
        "subgraph_within_corpus": 5,
        "cross_corpus_subset": 5,
        "global_sweep": float("inf"),
    }
)


_CANONICAL = frozenset(
    table.name for table in STATE_TABLES if table.info["state"].storage_class == "table"
)
"""Stores that hold more than what is derived from other stores (§4.3.5, §4.3.6)."""


def check(submission: Submission) -> Verdict:
    """Refuse a missing descriptor, an unknown scope, and a scope that contradicts itself."""
    envelope, field = submission.envelope, "affected_subgraph_descriptor"
    scope = envelope.affected_subgraph_descriptor
    if scope is None or (scope.scope_kind is None and not scope.model_fields_set):
        return Refusal("envelope_scope_descriptor_missing", field, "the descriptor is required")
    depth_max = MAX_CASCADE_DEPTH_BY_KIND.get(scope.scope_kind or "")
    if depth_max is None:
        return Refusal(
            "envelope_scope_descriptor_invalid", f"{field}.scope_kind", "unknown scope_kind"
        )
    if scope.scope_kind == "single_node" and len(scope.affected_node_refs) != 1:
        return Refusal(
            "envelope_scope_single_node_violation",
            f"{field}.affected_node_refs",
            "single_node names exactly one node",
        )
    if scope.scope_kind == "global_sweep" and envelope.actor not in ("system", "migration"):
        return Refusal(
            "envelope_scope_global_sweep_unauthorized",
            f"{field}.scope_kind",
            "only system and migration may sweep",
        )
    if scope.estimated_cascade_depth > depth_max:
        return Refusal(
            "envelope_scope_cascade_depth_exceeded",
            f"{field}.estimated_cascade_depth",
            f"too deep for {scope.scope_kind}",
        )
    # A lite envelope had no write set, and what takes its place repeats it (§2.6).
    if not envelope.write_set_refs and envelope.supersedes is None and _writes(envelope):
        return Refusal(
            "envelope_scope_write_set_empty",
            "write_set_refs",
            "an operation that writes names what it writes",
        )
    return _check_complete(envelope, scope)


def _check_complete(envelope: Envelope, scope: AffectedSubgraphDescriptor) -> Refusal | None:
    """Refuse a scope that leaves out what is written.

    A sweep is of everything, and what undoes an operation, or takes its place, repeats its scope.
    """
    repeated = envelope.supersedes is not None or envelope.semantic_intent == ROLLBACK
    if repeated or scope.scope_kind == "global_sweep":
        return None
    scope_refs = {*scope.affected_node_refs, *scope.affected_edge_refs}
    if scope_refs.issuperset(envelope.write_set_refs) and scope_refs.issuperset(
        [effect.target_ref for effect in envelope.primitive_effects]
    ):
        return None
    for field, ref in _written(envelope):
        if ref not in scope_refs:
            message = f"{ref} is written, and the scope does not name it"
            return Refusal("envelope_scope_incomplete", field, message)
    return None


def _written(envelope: Envelope) -> Iterator[tuple[str, str]]:
    """What is written, and where it says so; what is computed from it again is not."""
    for index, ref in enumerate(envelope.write_set_refs):
        yield f"write_set_refs.{index}", ref
    for index, effect in enumerate(envelope.primitive_effects):
        if effect.target_ref is not None and EFFECT_KINDS[effect.effect_kind].store in _CANONICAL:
            yield f"primitive_effects.{index}.target_ref", effect.target_ref


def _writes(envelope: Envelope) -> bool:
    return any(
        EFFECT_KINDS[effect.effect_kind].reversibility != RECEIPT
        for effect in envelope.primitive_effects
    )
