"""What a run came to, without what differs from one run to the next: times and drawn ids."""

from typing import Any

from kernel.landscape.canonical_types import restore_value
from kernel.landscape.digest import records_of
from kernel.landscape.record_rules import KEYS, TABLES, check_stored
from kernel.ledger.ledger import LedgerView

DRAWN_KEYS = frozenset(
    {"edges", "operations", "calls", "routing_events", "batch_outputs", "artifacts"}
    | {"validation_errors", "transform_errors", "token_outcomes", "checkpoints"}
)
"""Tables whose ids are drawn."""

GROUPS = ("fork_group_id", "join_group_id", "expand_group_id", "routing_group_id")


def essence(view: LedgerView, run_id: str) -> dict[str, list[dict[str, Any]]]:
    """Return the records of a run by table, each held against its rules."""
    edges = {
        row["edge_id"]: [row["from_node_id"], row["label"]]
        for row in records_of(view.tables, run_id, "edges")
    }
    return {
        name: sorted(
            (
                _plain(name, check_stored(TABLES[name], row), edges)
                for row in records_of(view.tables, run_id, name)
            ),
            key=repr,
        )
        for name in TABLES
    }


def _plain(name: str, row: dict[str, Any], edges: Any) -> dict[str, Any]:
    plain = {key: value for key, value in row.items() if not key.endswith("_us")}
    if name in DRAWN_KEYS:
        del plain[KEYS[name]]
    for key in GROUPS:
        if plain.get(key) is not None:
            plain[key] = "a group"
    if name == "routing_events":
        plain["edge_id"] = edges[row["edge_id"]]
    if name == "calls":
        plain.pop("operation_id")
    if name == "checkpoints":
        state = restore_value(row["aggregation_state_json"].encode())
        del state["source_operation"]
        plain["aggregation_state_json"] = state
    return plain
