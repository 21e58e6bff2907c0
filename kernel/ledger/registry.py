"""Every table of the ledger: of what sort, kept for how long, and whose (§17.3, V4-AT-23).

A table that is not here is not conformant; a test holds the registry against the schema.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

StorageClass = Literal[
    "table",
    "jsonl",
    "atomic_view",
    "derived_index",
    "current_view",
    "receipt_store",
    "blob_store",
]
RetentionClass = Literal["ephemeral", "durable"]

_KERNEL = "EC Core, kernel runtime (§17)"
_GRAPH = "DOC72, graph stores (§4.3.1, §4.3.2)"
_MATTERS = "Artifact 2, matters and topics (§4.3.8 to §4.3.21)"
_SHARING = "Artifact 4, sharing (§4.3.9)"
_DOCUMENTS = "Artifact 5, documents (§4.3.4, §4.3.11, §16)"
_RUNTIME = "Session actors, which gateway writes for which sessions"
_BELIEF = "Belief sessions (seed 001)"


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


_ENTRIES = (
    *_durable(_KERNEL, "current_view", "chain_head"),
    *_durable(
        _KERNEL,
        "table",
        "kernel_event_log",
        "applied_effects",
        "idempotency_records",
        "policy_snapshots",
        "outbox",
        "outbox_outcomes",
        "operation_rollbacks",
        "corpus_membership_records",
        "membership_state_transitions",
        "binding_generation_snapshots",
        "daily_operation_counts",
        "run_operation_counts",
        "adjudications",
        "recorded_model_outputs",
    ),
    *_durable(_KERNEL, "blob_store", "blobs", "pre_images"),
    *_durable(_KERNEL, "receipt_store", "receipts"),
    StorageRegistryEntry("shard_epochs", "current_view", "durable", _RUNTIME, False),
    StorageRegistryEntry("mailbox_offsets", "current_view", "durable", _RUNTIME, False),
    StorageRegistryEntry("mail_keys", "table", "durable", _RUNTIME, False),
    StorageRegistryEntry("ephemeral_receipts", "receipt_store", "ephemeral", _KERNEL, False),
    *_durable(_GRAPH, "table", "nodes", "edges"),
    *_durable(_GRAPH, "derived_index", "derived_indexes"),
    *_durable(_GRAPH, "atomic_view", "materialized_views"),
    *_durable(
        _MATTERS,
        "table",
        "filing_units",
        "filing_unit_versions",
        "filing_unit_text_versions",
        "filing_relationships",
        "ruling_dispositions",
        "court_disposition_observations",
        "case_resolution_events",
        "topic_assignments",
    ),
    *_durable(_SHARING, "table", "share_links"),
    *_durable(_DOCUMENTS, "table", "document_artifacts", "materializations", "extraction_attempts"),
    *_durable(_BELIEF, "table", "belief_events"),
    *_durable(_BELIEF, "derived_index", "belief_anchors", "belief_snapshots"),
    *_durable(_BELIEF, "current_view", "belief_sessions"),
)

STORAGE_REGISTRY: Mapping[str, StorageRegistryEntry] = MappingProxyType(
    {entry.name: entry for entry in _ENTRIES}
)
