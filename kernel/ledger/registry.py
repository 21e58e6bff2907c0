"""Lists every table of the ledger: of what sort, kept for how long, and whose (§17.3, V4-AT-23).

A typed store is registered with its table (`schema.py`). A table that is not here is not
conformant; a test holds the registry against the schema.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kernel.ledger import schema
from kernel.ledger.store.storage import KERNEL, RetentionClass, StateStore, StorageClass

_RUNTIME = "Session actors, which gateway writes for which sessions"
_BELIEF = "Belief sessions (seed 001)"
_LANDSCAPE = "Landscape, the records of runs (seed 003)"
_THOUGHTS = "Sessions of thoughts and rounds (seed 002)"


@dataclass(frozen=True, slots=True)
class StorageRegistryEntry:
    """One table and what holds for it."""

    name: str
    storage_class: StorageClass
    retention_class: RetentionClass
    owner: str
    receipt_wrapped: bool
    """Whether it changes only under an operation or a receipt on the chain."""


def _durable(owner: str, storage_class: StorageClass, *names: str) -> list[StorageRegistryEntry]:
    return [StorageRegistryEntry(name, storage_class, "durable", owner, True) for name in names]


def _of_store(name: str, store: StateStore) -> StorageRegistryEntry:
    return StorageRegistryEntry(name, store.storage_class, "durable", store.owner, True)


_ENTRIES = (
    *_durable(KERNEL, "current_view", "chain_head"),
    *_durable(
        KERNEL,
        "table",
        "kernel_event_log",
        "causal_parents",
        "applied_effects",
        "idempotency_records",
        "outbox",
        "outbox_outcomes",
        "dead_letters",
        "request_tags",
        "bulk_operations",
        "queue_pauses",
        "queue_registrations",
        "access_grants",
        "access_keys",
        "binding_pairs",
        "routing_marks",
        "running_extractions",
        "outcomes_to_review",
        "operation_rollbacks",
        "rollbacks_under_way",
        "daily_operation_counts",
        "run_operation_counts",
        "adjudications",
        "implication_detectors",
        "implied_operations",
        "implication_loops",
        "implication_halts",
        "binding_cycle_outcomes",
    ),
    *_durable(KERNEL, "derived_index", "tree_tiles", "archived_rows", "archive_segments"),
    *_durable(KERNEL, "blob_store", "blobs", "pre_images"),
    *_durable(KERNEL, "receipt_store", "receipts", "binding_evaluation_manifests"),
    StorageRegistryEntry("shard_epochs", "current_view", "durable", _RUNTIME, False),
    StorageRegistryEntry("mailbox_offsets", "current_view", "durable", _RUNTIME, False),
    StorageRegistryEntry("gateway_keys", "table", "durable", _RUNTIME, False),
    StorageRegistryEntry("ledger_ids", "table", "durable", _RUNTIME, False),
    StorageRegistryEntry("request_failures", "current_view", "durable", KERNEL, False),
    StorageRegistryEntry("chart_blocks", "table", "ephemeral", _RUNTIME, False),
    StorageRegistryEntry("request_attempts", "table", "durable", KERNEL, False),
    StorageRegistryEntry("ephemeral_receipts", "receipt_store", "ephemeral", KERNEL, False),
    *(_of_store(str(table.name), table.info["state"]) for table in schema.STATE_TABLES),
    *_durable(_BELIEF, "table", "belief_events"),
    *_durable(_BELIEF, "derived_index", "belief_anchors", "belief_snapshots"),
    *_durable(_BELIEF, "current_view", "belief_sessions"),
    *_durable(_THOUGHTS, "table", "thought_records", "merkle_nodes", "rounds"),
    *_durable(_THOUGHTS, "derived_index", "thought_segments"),
    *_durable(_THOUGHTS, "current_view", "audit_sessions"),
    *(
        StorageRegistryEntry(str(table.name), "table", "durable", _LANDSCAPE, False)
        for table in schema.LANDSCAPE_TABLES
    ),
    StorageRegistryEntry("landscape_payloads", "blob_store", "durable", _LANDSCAPE, False),
    StorageRegistryEntry("landscape_record_groups", "table", "durable", _LANDSCAPE, False),
    *_durable(_LANDSCAPE, "current_view", "landscape_seals"),
)

STORAGE_REGISTRY: Mapping[str, StorageRegistryEntry] = MappingProxyType(
    {entry.name: entry for entry in _ENTRIES}
)
