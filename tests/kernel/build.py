"""Envelopes and ledgers for tests: valid unless a test says otherwise."""

import itertools
from typing import Any

from kernel.canonical import digest
from kernel.host import Host, iso_time
from kernel.kernel import Kernel
from kernel.ledger.ledger import GENESIS_POLICY, Ledger
from kernel.ledger.memory import MemoryStore

START_US = 1_700_000_000_000_000


class FakeHost:
    """A clock that a test moves and randomness that repeats."""

    def __init__(self) -> None:
        self.time_us = START_US
        self._counter = itertools.count(1)
        self.host = Host(lambda: self.time_us, self._random)

    def _random(self, count: int) -> bytes:
        return next(self._counter).to_bytes(count, "big")


def memory_ledger() -> Ledger:
    return Ledger.create(MemoryStore(), FakeHost().host)


def effect(kind: str, target: str | None = None, **payload: Any) -> dict[str, Any]:
    inverse = {
        "node_write": "node_retract",
        "edge_create": "edge_remove",
        "edge_write": "edge_remove",
        "edge_remove": "edge_create",
        "edge_reclassify": "edge_reclassify",
        "membership_write": "membership_revoke",
        "membership_revoke": "membership_write",
        "index_update": "index_revert",
        "materialized_view_invalidation": "materialized_view_recompute",
        "materialized_view_recompute": "materialized_view_invalidation",
        "node_retract": "node_write",
    }
    document: dict[str, Any] = {
        "effect_id": f"{kind}:{target}",
        "effect_kind": kind,
        "reversibility": "receipt_only" if kind == "receipt_only" else "fully_reversible",
        "payload": payload,
        "schema_version": 1,
    }
    if target is not None:
        document["target_ref"] = target
    if kind in inverse:
        document["inverse_operation_kind"] = inverse[kind]
    return document


_operations = itertools.count(1)


def envelope(intent: str, effects: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    number = next(_operations)
    targets = [one["target_ref"] for one in effects if "target_ref" in one]
    document: dict[str, Any] = {
        "operation_id": f"op-{number}",
        "envelope_version": "1.6",
        "operation_kind": intent,
        "semantic_intent": intent,
        "primitive_effects": effects,
        "causal_parent_operation_ids": [],
        "idempotency_key": digest([intent, number]),
        "actor": "user",
        "source_refs": [],
        "target_refs": targets[:1],
        "policy_generation_id": GENESIS_POLICY,
        "affected_subgraph_descriptor": {
            "scope_kind": "single_node",
            "affected_node_refs": targets[:1] or ["none"],
            "affected_edge_refs": [],
            "visibility_class_envelope": [],
            "estimated_cascade_depth": 0,
        },
        "read_set_refs": [],
        "write_set_refs": targets[:1],
        "recorded_at": iso_time(START_US),
        "schema_version": 1,
    }
    document.update(changes)
    return {name: value for name, value in document.items() if value is not None}


def create(node_id: str, node_kind: str, *more: dict[str, Any], **fields: Any) -> dict[str, Any]:
    changes = fields.pop("envelope", {})
    if node_kind == "ConsolidatedUnderstanding":
        fields.setdefault("source_spans", [{"source_ref": "s", "offset": 0, "length": 1}])
        fields.setdefault("display_kind", "synthesis_with_spans")
    return envelope(
        "create",
        [
            effect("node_write", node_id, node_kind=node_kind, **fields),
            effect("membership_write", node_id, corpus_id="corpus:test", to_state="candidate"),
            *more,
        ],
        **changes,
    )


def link(edge_id: str, source: str, target: str, essentiality: str = "core") -> dict[str, Any]:
    return envelope(
        "document_relationship_create",
        [
            effect(
                "edge_create",
                edge_id,
                source_node_id=source,
                target_node_id=target,
                edge_type="informs",
                edge_metadata={"essentiality": essentiality},
            )
        ],
    )


def submit(
    ledger: Ledger, *documents: Any, kernel: Kernel | None = None, submitter: str = "caller"
):
    with ledger.transaction() as transaction:
        results = [
            (kernel or Kernel()).submit(transaction, document, submitter)  # type: ignore[arg-type]
            for document in documents
        ]
    return results[0] if len(results) == 1 else results
