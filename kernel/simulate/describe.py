"""Describes a dry run for each kind of preview: one function a kind, in a table.

Each returns the fields of its kind's payload and nothing else. An operation that would be refused
has no changes; what it states is shown where the kind shows what is stated.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from kernel.algebra.effects import canonical_kind
from kernel.model.envelope import KernelEffect
from kernel.model.simulation import PreviewKind, RecordChange
from kernel.model.simulation_payloads import EdgeOutcome, MembershipMove, NodeOutcome
from kernel.simulate.dry_run import DryRun

Fields = dict[str, Any]

_UNREMARKABLE = frozenset({"version", "updated_by_operation_id", "updated_at", "payload"})


@dataclass(frozen=True, slots=True)
class Shown:
    """The operation and its dry run, from which a function describes a preview."""

    effects: tuple[KernelEffect, ...]
    source_refs: tuple[str, ...]
    run: DryRun
    predicted: Mapping[str, Any]

    def changes_of(self, *stores: str) -> Iterator[tuple[RecordChange, Fields, Fields]]:
        """Return the changes of some stores, each with its records before and after."""
        for change in self.run.changes:
            if change.store in stores and change.after is not None:
                yield change, change.before or {}, change.after

    def first_effect(self, *kinds: str) -> KernelEffect | None:
        """Return the first effect of some canonical kinds."""
        of_kind = (effect for effect in self.effects if canonical_kind(effect.effect_kind) in kinds)
        return next(of_kind, None)


def _node_write(shown: Shown) -> Fields:
    return {
        "nodes": tuple(
            NodeOutcome(
                node_id=change.record_key,
                node_kind=after["node_kind"],
                state_before=before.get("state"),
                state_after=after["state"],
                visibility_class_before=before.get("visibility_class"),
                visibility_class_after=after["visibility_class"],
                changed_fields=_changed_fields(before, after),
            )
            for change, before, after in shown.changes_of("nodes")
        )
    }


def _changed_fields(before: Fields, after: Fields) -> tuple[str, ...]:
    """Fields of the node and of its payload that would have another value."""
    old = {**before, **before.get("payload", {})}
    new = {**after, **after["payload"]}
    return tuple(
        sorted(
            name for name in new.keys() - _UNREMARKABLE if name not in old or old[name] != new[name]
        )
    )


def _edge_write(shown: Shown) -> Fields:
    edges = [
        EdgeOutcome(
            edge_id=change.record_key,
            source_ref=after["source_node_id"],
            target_ref=after["target_node_id"],
            edge_type=after["edge_type"],
            state_before=before.get("state"),
            state_after=after["state"],
        )
        for change, before, after in shown.changes_of("edges")
    ]
    edges += [
        EdgeOutcome(
            edge_id=change.record_key,
            source_ref=after["payload"]["source_filing_unit_id"],
            target_ref=after["payload"].get("target_filing_unit_id"),
            edge_type=after["payload"]["relationship_type"],
            state_before=before.get("state"),
            state_after=after["state"],
        )
        for change, before, after in shown.changes_of("filing_relationships")
    ]
    return {"edges": tuple(edges)}


def _binding_fire(shown: Shown) -> Fields:
    generation = next(shown.changes_of("binding_generation_snapshots"), None)
    stated = shown.first_effect("binding_generation_advance", "receipt_only", "node_write")
    payload: Fields = {} if stated is None else stated.payload
    binding_id = payload.get("binding_id", None if stated is None else stated.target_ref)
    return {
        "binding_id": binding_id if isinstance(binding_id, str) else None,
        "binding_generation_id": generation and generation[2]["binding_generation_id"],
        "fires_on": shown.source_refs,
        "stated": payload,
    }


def _membership_change(shown: Shown) -> Fields:
    moves = [
        MembershipMove(
            corpus_id=after["corpus_id"],
            node_id=after["node_id"],
            from_state=before.get("state"),
            to_state=after["state"],
        )
        for _, before, after in shown.changes_of("corpus_membership_records")
    ]
    moves += [
        MembershipMove(
            corpus_id=after["payload"]["topic_id"],
            node_id=after["payload"]["node_id"],
            from_state=before.get("state"),
            to_state=after["state"],
        )
        for _, before, after in shown.changes_of("topic_assignments")
    ]
    added = next((move for move in moves if move.from_state is None), None)
    return {
        "membership_add_target": None if added is None else added.corpus_id,
        "new_member": None if added is None else added.node_id,
        "moves": tuple(moves),
        "relevance_score": _number(shown.predicted.get("relevance_score")),
        "likely_topic_assignments": _texts(shown.predicted.get("likely_topic_assignments")),
        "downstream_bindings_likely_to_fire": _texts(
            shown.predicted.get("downstream_bindings_likely_to_fire")
        ),
    }


def _number(value: object) -> float | None:
    """Return a model's number, None where it is none; the text stays in `predicted`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)


def _texts(value: object) -> tuple[str, ...] | None:
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
        return None
    return tuple(value)


def _ruling_disposition(shown: Shown) -> Fields:
    stores = (
        "ruling_dispositions",
        "court_disposition_observations",
        "case_resolution_events",
    )
    ruling = next(shown.changes_of(*stores), None)
    if ruling is None:
        return {}
    change, _, after = ruling
    payload = after["payload"]
    single = {name: payload[name] for name in ("disposition", "event_kind") if name in payload}
    return {
        "target_ref": change.record_key,
        "state_after": after["state"],
        "dispositions": tuple(payload.get("dispositions", [single] if single else [])),
        "scope_targets": tuple(payload.get("scope_targets", payload.get("case_refs", []))),
    }


def _extraction_outcome(shown: Shown) -> Fields:
    attempt = next(shown.changes_of("extraction_attempts"), None)
    if attempt is None:
        return {}
    names = ("extraction_run_id", "attempt_number", "prior_state", "current_state", "block_reason")
    return {name: attempt[2].get(name) for name in names}


def _search_plan(shown: Shown) -> Fields:
    stated = shown.first_effect("receipt_only")
    return {"plan": None if stated is None else stated.payload}


def _rollup_generation(shown: Shown) -> Fields:
    node = next(shown.changes_of("nodes"), None)
    materialized = next(shown.changes_of("materializations", "derived_indexes"), None)
    rollup = node or materialized
    changes = shown.changes_of("materialized_views")
    views = [(change.record_key, after["stale"]) for change, _, after in changes]
    return {
        "rollup_ref": None if rollup is None else rollup[0].record_key,
        "rollup_kind": None if node is None else node[2]["node_kind"],
        "inputs": shown.source_refs if node is None else _inputs(node[2]["payload"], shown),
        "stale_views": tuple(key for key, stale in views if stale),
        "fresh_views": tuple(key for key, stale in views if not stale),
    }


def _inputs(payload: Fields, shown: Shown) -> tuple[str, ...]:
    """What an understanding is made of: its spans, and the versions that its authority read."""
    ref_fields = (("source_spans", "source_ref"), ("cu_authority_input_versions", "parent_node_id"))
    inputs = [
        entry[key]
        for field, key in ref_fields
        if isinstance(payload.get(field), list)
        for entry in payload[field]
        if isinstance(entry, dict) and isinstance(entry.get(key), str)
    ]
    return tuple(dict.fromkeys([*inputs, *shown.source_refs]))


def _policy_change(shown: Shown) -> Fields:
    snapshot = next(shown.changes_of("policy_snapshots"), None)
    return {
        "from_policy_generation_id": shown.run.policy_before or None,
        "to_policy_generation_id": shown.run.policy_after or None,
        "generation": None if snapshot is None else snapshot[2]["generation"],
    }


DESCRIBERS: Mapping[PreviewKind, Callable[[Shown], Fields]] = MappingProxyType(
    {
        "node_write_preview": _node_write,
        "edge_write_preview": _edge_write,
        "binding_fire_preview": _binding_fire,
        "membership_change_preview": _membership_change,
        "ruling_disposition_preview": _ruling_disposition,
        "extraction_outcome_preview": _extraction_outcome,
        "search_plan_preview": _search_plan,
        "rollup_generation_preview": _rollup_generation,
        "policy_change_preview": _policy_change,
    }
)
