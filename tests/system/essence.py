"""What two records of the same dockets must have in common, however their runs went.

Ids of operations, times, versions and hashes that cover them differ from run to run, and so do the
number and the moments of recomputes. Everything else is the essence: what was declared and struck,
what stands on the graph, and what it is worth, bit for bit. It is read with `sqlite3` and `json`
alone, so that no code that writes the record has a say in the comparison.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

_OF_THE_RUN = {"head_event_hash", "cu_authority_computed_at"}
"""Payload fields that cover ids and times of one run."""


def reading(ledger_path: Path) -> closing[sqlite3.Connection]:
    """Open a ledger without the right to write."""
    return closing(sqlite3.connect(f"file:{ledger_path}?mode=ro", uri=True, timeout=5.0))


def rows_of(ledger_path: Path) -> int:
    """Return how many rows the log has, 0 while there is no ledger yet."""
    try:
        with reading(ledger_path) as ledger:
            [(rows,)] = ledger.execute("SELECT ec_sequence_number FROM chain_head")
    except (sqlite3.OperationalError, ValueError):
        return 0
    return int(rows)


def essence(ledger_path: Path) -> dict[str, Any]:
    """Return what the record says, without what only this run could say."""
    with reading(ledger_path) as ledger:
        return {
            "sessions": _sessions(ledger),
            "nodes": dict(_nodes(ledger)),
            "authorities": dict(_authorities(ledger)),
            "edges": dict(_edges(ledger)),
            "memberships": set(_memberships(ledger)),
        }


def outcomes_for_each_request(ledger_path: Path) -> set[int]:
    """Return the numbers of outcomes that requests have: {1} when each has exactly one."""
    query = """
        SELECT (SELECT count(*) FROM outbox_outcomes WHERE request_id = outbox.request_id)
        FROM outbox
    """
    with reading(ledger_path) as ledger:
        return {count for (count,) in ledger.execute(query)}


def _sessions(ledger: sqlite3.Connection) -> dict[str, dict[str, Any]]:
    sessions: dict[str, dict[str, Any]] = {}
    for session_id, title in ledger.execute("SELECT session_id, title FROM belief_sessions"):
        sessions[session_id] = {"title": title, "events": 0, "struck": set()}
    events = "SELECT session_id, event_bytes FROM belief_events ORDER BY session_id, event_index"
    for session_id, event_bytes in ledger.execute(events):
        event, session = json.loads(event_bytes), sessions[session_id]
        payload, applied = event["payload"], event["delta"]["eliminated"]
        session["events"] += 1
        if event["verb"] == "DECLARE_SESSION":
            session["universe"] = frozenset(payload["hypotheses"])
            session["survivors"] = session["universe"]
            session["declared"] = (payload["ontology"], payload["metadata"], payload["policy"])
            continue
        session["survivors"] -= frozenset(applied)
        struck = (payload["source_id"], payload["observation_id"], tuple(sorted(applied)))
        session["struck"].add(struck)
    return sessions


def _nodes(ledger: sqlite3.Connection) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for node_id, kind, record in ledger.execute("SELECT node_id, node_kind, record FROM nodes"):
        node = json.loads(record)
        payload = {
            name: value for name, value in node["payload"].items() if name not in _OF_THE_RUN
        }
        yield node_id, (kind, node["state"], node["visibility_class"], payload)


def _authorities(ledger: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    for node_id, record in ledger.execute("SELECT node_id, record FROM nodes"):
        value = json.loads(record)["payload"].get("cu_authority")
        if value is not None:
            yield node_id, float(value).hex()


def _edges(ledger: sqlite3.Connection) -> Iterator[tuple[str, tuple[Any, ...]]]:
    names = ("edge_type", "source_node_id", "target_node_id", "edge_metadata", "state")
    for edge_id, record in ledger.execute("SELECT edge_id, record FROM edges"):
        edge = json.loads(record)
        yield edge_id, tuple(edge[name] for name in names)


def _memberships(ledger: sqlite3.Connection) -> Iterator[tuple[str, str, str]]:
    for (record,) in ledger.execute("SELECT record FROM corpus_membership_records"):
        member = json.loads(record)
        yield member["corpus_id"], member["node_id"], member["state"]
