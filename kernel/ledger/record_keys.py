"""Names of records, for whoever reads many of them ahead of need.

Each function returns the table and the key under which the record is, or would be.
"""

from sqlalchemy import Table

from kernel.ledger import schema


def node_key(node_id: str) -> tuple[Table, str]:
    """Return where a node is recorded."""
    return schema.nodes, node_id


def edge_key(edge_id: str) -> tuple[Table, str]:
    """Return where an edge is recorded."""
    return schema.edges, edge_id


def membership_key(corpus_id: str, node_id: str) -> tuple[Table, str]:
    """Return where a node's membership of a corpus is recorded."""
    return schema.corpus_membership_records, f"{corpus_id}|{node_id}"


def index_entry_key(index: str, node_id: str) -> tuple[Table, str]:
    """Return where a node's entry in a derived index is recorded."""
    return schema.derived_indexes, f"{index}|{node_id}"


def materialized_view_key(view_id: str) -> tuple[Table, str]:
    """Return where a materialized view is recorded."""
    return schema.materialized_views, view_id


def idempotency_key_key(key: str) -> tuple[Table, str]:
    """Return where the answers under an idempotency key are recorded; there may be several."""
    return schema.idempotency_records, key


def belief_anchor_key(session_id: str) -> tuple[Table, str]:
    """Return where the newest anchor of a belief session is recorded."""
    return schema.belief_anchors, session_id


def belief_session_key(session_id: str) -> tuple[Table, str]:
    """Return where the summary of a belief session is recorded."""
    return schema.belief_sessions, session_id


def routing_mark_key(sort: str, name: str) -> tuple[Table, str]:
    """Return where it is recorded that something is still to be routed to bindings."""
    return schema.routing_marks, f"{sort}|{name}"


def shard_epoch_key(shard: int) -> tuple[Table, int]:
    """Return where the owner and the epoch of a shard are recorded."""
    return schema.shard_epochs, shard
