"""Names the records that an intent's operation will read, as far as the intent alone tells.

It is a hint, by which a batch reads all of its records at once. A record that is missing here is
read when it is needed; one too many is read in vain.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from actors.orchestrator.intents import (
    AdaptFields,
    CreateClaim,
    CreateSource,
    EnqueueRecompute,
    Intent,
    LinkInput,
    RecalculateAuthority,
    SynthesizeUnderstanding,
)
from actors.orchestrator.orchestrator import idempotency_key
from actors.orchestrator.resolvers import AUTHORITY_INDEX, KIND_INDEX, authority_view, edge_id
from kernel.authority.read_ahead import Around, RecordKey
from kernel.ledger.record_keys import (
    edge_key,
    idempotency_key_key,
    index_entry_key,
    materialized_view_key,
    membership_key,
    node_key,
    routing_mark_key,
)
from kernel.values.idempotency_keys import scoped_key
from kernel.work.pair_routing import ARTIFACT

NAMED_MAX = 256
"""A list of more references than this is not read ahead."""


def records_of(intent: Intent) -> list[RecordKey]:
    """Return the records that an intent's operation will read."""
    reader = _RECORDS.get(type(intent))
    return [] if reader is None else reader(intent)


def earlier_answer_to(
    intent: Intent, actor: str, policy: str, principal: str | None = None
) -> list[RecordKey]:
    """Return the key under which the same request may have been answered before."""
    answered_by = _ASKED.get(type(intent))
    if answered_by is None:
        return []
    verb, target_field = answered_by
    targets = (getattr(intent, target_field),)
    key = idempotency_key(intent, actor, verb, targets, policy)
    return [idempotency_key_key(key if principal is None else scoped_key(principal, key))]


def records_of_envelope(document: object) -> list[RecordKey]:
    """Return the nodes that an envelope of a caller's declares; it was not validated yet."""
    keys: list[RecordKey] = []
    if not isinstance(document, dict):
        return keys
    for name, kind in _NAMED.items():
        refs = document.get(name)
        if isinstance(refs, list) and len(refs) <= NAMED_MAX:
            keys += [(kind, ref) for ref in refs if isinstance(ref, str)]
    return keys


def _of_source(intent: CreateSource) -> list[RecordKey]:
    return [
        *_keys_of_creation(intent.node_id, intent.corpus_id),
        routing_mark_key(ARTIFACT, intent.node_id),
    ]


def _of_understanding(intent: SynthesizeUnderstanding) -> list[RecordKey]:
    return [
        *_keys_of_creation(intent.node_id, intent.corpus_id),
        (Around.BELOW, intent.node_id),
        *((Around.BEHIND, span.source_ref) for span in intent.source_spans),
    ]


def _of_claim(intent: CreateClaim) -> list[RecordKey]:
    keys = _keys_of_creation(intent.node_id, intent.corpus_id)
    keys.append((Around.BEHIND, intent.span.source_ref))
    if intent.understanding_id is not None:
        keys += _keys_of_link(intent.node_id, intent.understanding_id)
    return keys


def _of_link(intent: LinkInput) -> list[RecordKey]:
    return [
        (Around.ABOVE, intent.source_node_id),
        (Around.BEHIND, intent.source_node_id),
        *_keys_of_link(intent.source_node_id, intent.target_node_id),
    ]


def _of_adaptation(intent: AdaptFields) -> list[RecordKey]:
    return [(Around.BELOW, intent.node_id), (Around.BEHIND, intent.node_id)]


def _of_recalculation(intent: RecalculateAuthority) -> list[RecordKey]:
    return [
        # The kernel computes it again.
        (Around.ABOVE, intent.target_cu_id),
        (Around.INPUTS, intent.target_cu_id),
        index_entry_key(AUTHORITY_INDEX, intent.target_cu_id),
        materialized_view_key(authority_view(intent.target_cu_id)),
    ]


def _of_enqueue(intent: EnqueueRecompute) -> list[RecordKey]:
    # One that cascades writes its requests down; a page has planned them on a snapshot.
    around = Around.BELOW if intent.asked_for.cascades else Around.ABOVE
    return [(around, request.target_cu_id) for request in intent.asked_for.requests]


def _keys_of_creation(node_id: str, corpus_id: str) -> list[RecordKey]:
    return [
        node_key(node_id),
        membership_key(corpus_id, node_id),
        index_entry_key(KIND_INDEX, node_id),
    ]


def _keys_of_link(source: str, target: str) -> list[RecordKey]:
    edge = edge_id(source, target)
    return [
        (Around.BELOW, target),
        (Around.BEHIND, target),
        # Whatever an operation writes is also looked for among the nodes.
        node_key(edge),
        edge_key(edge),
        materialized_view_key(authority_view(target)),
    ]


_NAMED: Mapping[str, Around] = MappingProxyType(
    {
        "read_set_refs": Around.BEHIND,
        "write_set_refs": Around.BELOW,
        "source_refs": Around.BEHIND,
    }
)
"""The declarations of an envelope, and which records each of them names."""

_ASKED: Mapping[type[Intent], tuple[str, str]] = MappingProxyType(
    {
        CreateSource: ("create", "node_id"),
        SynthesizeUnderstanding: ("create", "node_id"),
        CreateClaim: ("create", "node_id"),
        LinkInput: ("document_relationship_create", "target_node_id"),
        AdaptFields: ("field_adapt", "node_id"),
        RecalculateAuthority: ("recalculate_authority", "target_cu_id"),
    }
)
"""The verb that an intent is resolved to, and the field that names its one target."""

_RECORDS: Mapping[type[Intent], Callable[[Any], list[RecordKey]]] = MappingProxyType(
    {
        CreateSource: _of_source,
        SynthesizeUnderstanding: _of_understanding,
        CreateClaim: _of_claim,
        LinkInput: _of_link,
        AdaptFields: _of_adaptation,
        RecalculateAuthority: _of_recalculation,
        EnqueueRecompute: _of_enqueue,
    }
)
