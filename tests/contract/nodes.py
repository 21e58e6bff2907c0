"""Rows of the nodes table, for what an adapter adds to the port."""

from kernel.ledger import schema
from kernel.ledger.store.tables import TableQuery


def node(name):
    return {
        "node_id": name,
        "node_kind": "Note",
        "overlay_in_force": 0,
        "overlay_target": None,
        "identity_key": None,
        "updated_at": "2026-02-09T10:00:00.000000Z",
        "record": b"{}",
    }


def add(store, name):
    with store.transaction() as tables:
        tables.insert(schema.nodes, node(name))


def names(store):
    with store.view() as tables:
        return [row["node_id"] for row in tables.scan(TableQuery(schema.nodes))]
