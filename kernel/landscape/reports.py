"""Reports on a run: counts, times, errors (seed 003, analysis).

Counts are asked of the database; times, causes and calls are read from the records of one run, page
by page, so these reports take time that grows with the run. Of a list are at most `limit` entries.
A sum of times that JSON's readers would round (2^53 and beyond) is given as the largest that they
do not; records of another's run may state any.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import orjson

from kernel.landscape.digest import PAGE_RECORDS, records_of
from kernel.landscape.errors import LandscapeRefused, RecordDamaged
from kernel.landscape.grades import grade_now
from kernel.landscape.lineage_text import graph_mermaid
from kernel.landscape.record_counts import count_of, counts_by
from kernel.landscape.record_rules import KEYS, TABLES, check_stored, key_text
from kernel.landscape.seals import seal_of
from kernel.ledger.landscape_tables import OPERATION_TYPES, OUTCOMES, RUN_STATUSES
from kernel.ledger.ledger import LedgerView
from kernel.ledger.store.tables import Row, TableQuery, rows_in_pages
from kernel.values.canonical import MAX_SAFE_INTEGER

Document = dict[str, Any]

BOTTLENECK_SHARE = 0.2
HIGH_VARIANCE = 5.0
SAMPLES = 5
CAUSES_SHOWN = 100

_COUNTED = ("rows", "tokens", "nodes", "edges", "node_states", "operations", "calls", "artifacts")


def run_of_id(view: LedgerView, run_id: str) -> Row:
    """Return the record of a run.

    Raises:
        LandscapeRefused: `landscape_unknown`.
    """
    row = view.tables.get(TABLES["runs"], run_id)
    if row is None:
        raise LandscapeRefused(f"no run is called {run_id}", code="landscape_unknown")
    return check_stored(TABLES["runs"], row)


def newest_runs(
    view: LedgerView, *, limit: int, status: str | None = None, since_us: int | None = None
) -> list[Row]:
    """Return the newest runs, those of a status, or those that began since a time.

    Raises:
        LandscapeRefused: `landscape_unknown` of a status that no run has.
    """
    if status is not None and status not in RUN_STATUSES:
        message = f"{status} is none of {', '.join(RUN_STATUSES)}"
        raise LandscapeRefused(message, code="landscape_unknown")
    where = {} if status is None else {"status": status}
    rows = view.tables.scan(
        TableQuery(TABLES["runs"], where, order_by="started_at_us", descending=True, limit=limit)
    )
    runs = [check_stored(TABLES["runs"], row) for row in rows]
    return [run for run in runs if since_us is None or run["started_at_us"] >= since_us]


def run_document(view: LedgerView, run: Row) -> Document:
    """Return a run with its grade as it is now, and its seal on the log."""
    seal = seal_of(view, run["run_id"])
    return {
        "run_id": run["run_id"],
        "status": run["status"],
        "started_at_us": run["started_at_us"],
        "completed_at_us": run["completed_at_us"],
        "config_hash": run["config_hash"],
        "canonical_version": run["canonical_version"],
        "reproducibility_grade": grade_now(run),
        "run_digest": None if seal is None else seal["run_digest"],
        "sealed_by_sequence": None if seal is None else str(seal["ec_sequence_number"]),
    }


def summary_of(view: LedgerView, run_id: str) -> Document:
    """Return what a run came to, in numbers."""
    run = run_of_id(view, run_id)
    counts = {name: count_of(view, run_id, name) for name in _COUNTED}
    counts |= counts_by(view, run_id, "operations", "operation_type", OPERATION_TYPES)
    errors = {
        "validation": count_of(view, run_id, "validation_errors"),
        "transform": count_of(view, run_id, "transform_errors"),
    }
    ended_us = run["completed_at_us"]
    return {
        **run_document(view, run),
        "run_duration_us": None if ended_us is None else ended_us - run["started_at_us"],
        "counts": counts,
        "errors": {**errors, "total": sum(errors.values())},
        "outcome_distribution": _outcomes(view, run_id),
    }


def outcomes_of(view: LedgerView, run_id: str) -> Document:
    """Return where the tokens of a run ended, and in which sinks."""
    run_of_id(view, run_id)
    outcomes: Counter[tuple[str, int]] = Counter()
    sinks: Counter[str] = Counter()
    groups: dict[str, set[str]] = {"fork_group_id": set(), "join_group_id": set()}
    for row in _records(view, run_id, "token_outcomes"):
        outcomes[row["outcome"], row["is_terminal"]] += 1
        if row["sink_name"] is not None:
            sinks[row["sink_name"]] += 1
        for name, ids in groups.items():
            if row[name] is not None:
                ids.add(row[name])
    terminal = sum(count for (_, is_terminal), count in outcomes.items() if is_terminal)
    return {
        "run_id": run_id,
        "summary": {
            "terminal_tokens": terminal,
            "non_terminal_tokens": count_of(view, run_id, "tokens") - terminal,
            "fork_operations": len(groups["fork_group_id"]),
            "join_operations": len(groups["join_group_id"]),
        },
        "outcome_distribution": [
            {"outcome": outcome, "is_terminal": bool(is_terminal), "count": count}
            for (outcome, is_terminal), count in sorted(outcomes.items())
        ],
        "sink_distribution": dict(sorted(sinks.items())),
    }


def graph_of(view: LedgerView, run_id: str) -> Document:
    """Return the graph of a run."""
    run_of_id(view, run_id)
    nodes = list(_records(view, run_id, "nodes"))
    nodes.sort(key=lambda row: (row["sequence_in_pipeline"] is None, row["sequence_in_pipeline"]))
    edges = list(_records(view, run_id, "edges"))
    shown = ("node_id", "plugin_name", "node_type", "determinism", "sequence_in_pipeline")
    return {
        "run_id": run_id,
        "nodes": [{name: node[name] for name in shown} for node in nodes],
        "edges": [
            {
                "from": edge["from_node_id"],
                "to": edge["to_node_id"],
                "label": edge["label"],
                "mode": edge["default_mode"],
            }
            for edge in edges
        ],
        "node_count": len(nodes),
        "edge_count": len(edges),
        "mermaid": graph_mermaid(nodes, edges),
    }


def performance_of(view: LedgerView, run_id: str) -> Document:
    """Return for how long each node worked, and which hold a run up."""
    run_of_id(view, run_id)
    durations: dict[str, list[int]] = defaultdict(list)
    failures: Counter[str] = Counter()
    for state in _records(view, run_id, "node_states"):
        if state["duration_us"] is not None:
            durations[state["node_id"]].append(state["duration_us"])
        failures[state["node_id"]] += state["status"] == "failed"
    total = sum(map(sum, durations.values()))
    nodes = {row["node_id"]: row for row in _records(view, run_id, "nodes")}
    performance = sorted(
        (_performance(node_id, each, total, failures) for node_id, each in durations.items()),
        key=lambda entry: (-entry["total_us"], entry["node_id"]),
    )
    for entry in performance:
        node = nodes.get(entry["node_id"], {})
        entry |= {"plugin_name": node.get("plugin_name"), "node_type": node.get("node_type")}
    return {
        "run_id": run_id,
        "total_processing_us": min(total, MAX_SAFE_INTEGER),
        "node_count": len(performance),
        "bottlenecks": [
            entry["node_id"] for entry in performance if entry["share"] > BOTTLENECK_SHARE
        ],
        "high_variance_nodes": [
            entry["node_id"]
            for entry in performance
            if entry["max_us"] > HIGH_VARIANCE * entry["mean_us"]
        ],
        "node_performance": performance,
    }


def _performance(
    node_id: str, durations: list[int], total: int, failures: Counter[str]
) -> Document:
    own = sum(durations)
    return {
        "node_id": node_id,
        "executions": len(durations),
        "mean_us": own / len(durations),
        "min_us": min(durations),
        "max_us": max(durations),
        "total_us": min(own, MAX_SAFE_INTEGER),
        "share": own / total if total else 0.0,
        "failures": failures[node_id],
    }


def errors_of(view: LedgerView, run_id: str, *, kind: str, limit: int) -> Document:
    """Return errors of a run: `validation`, `transform`, `state` or `all`."""
    run_of_id(view, run_id)
    document: Document = {"run_id": run_id}
    for each in ("validation", "transform"):
        if kind in (each, "all"):
            name = f"{each}_errors"
            rows = view.tables.scan(TableQuery(TABLES[name], {"run_id": run_id}, limit=limit))
            document[name] = [_error(name, check_stored(TABLES[name], row)) for row in rows]
    if kind in ("state", "all"):
        failed = islice(_failed_states(view, run_id), limit)
        document["state_errors"] = [_failure_document(state) for state in failed]
    return document


def error_causes_of(view: LedgerView, run_id: str) -> Document:
    """Return the errors of a run by what they come from, with samples."""
    run_of_id(view, run_id)
    by_source: Counter[tuple[str, str]] = Counter()
    by_transform: Counter[tuple[str, str]] = Counter()
    by_node: Counter[tuple[str, str]] = Counter()
    samples: dict[str, list[Document]] = {"validation_errors": [], "transform_errors": []}
    for name, kept in samples.items():
        for row in _records(view, run_id, name):
            if name == "validation_errors":
                by_source[row["node_id"] or "", row["error"]] += 1
            else:
                by_transform[row["transform_id"], row["error_details_json"] or ""] += 1
            if len(kept) < SAMPLES:
                kept.append(_error(name, row))
    failed: list[Document] = []
    for state in _failed_states(view, run_id):
        by_node[state["node_id"], state["error_json"] or ""] += 1
        if len(failed) < SAMPLES:
            failed.append(_failure_document(state))
    return {
        "run_id": run_id,
        "validation_errors": {
            "total": sum(by_source.values()),
            "by_source": _rank(by_source, "node_id", "error"),
            "samples": samples["validation_errors"],
        },
        "transform_errors": {
            "total": sum(by_transform.values()),
            "by_transform": _rank(by_transform, "transform_id", "details"),
            "samples": samples["transform_errors"],
        },
        "state_errors": {
            "total": sum(by_node.values()),
            "by_node": _rank(by_node, "node_id", "error"),
            "samples": failed,
        },
    }


def llm_usage_of(view: LedgerView, run_id: str) -> Document:
    """Return how often and for how long models were called, by node."""
    run_of_id(view, run_id)
    types: Counter[str] = Counter()
    usage: dict[str, Counter[str]] = defaultdict(Counter)
    for call in _records(view, run_id, "calls"):
        types[call["call_type"]] += 1
        if call["call_type"] == "llm":
            of_node = usage[_node_of(view, call)]
            of_node["total_calls"] += 1
            of_node["successful" if call["status"] == "success" else "failed"] += 1
            of_node["total_latency_us"] += call["latency_us"] or 0
            of_node["timed_calls"] += call["latency_us"] is not None
    whole: Counter[str] = sum(usage.values(), Counter())
    return {
        "run_id": run_id,
        "call_types": dict(sorted(types.items())),
        "llm_summary": _usage(whole),
        "by_node": {node_id: _usage(each) for node_id, each in sorted(usage.items())},
    }


def _node_of(view: LedgerView, call: Row) -> str:
    name, column = ("node_states", "state_id")
    if call["state_id"] is None:
        name, column = ("operations", "operation_id")
    parent = view.tables.get(TABLES[name], call["run_id"], call[column])
    if parent is None:
        rule = f"{column} names {call[column]}, which is not in landscape_{name}"
        raise RecordDamaged("landscape_calls", key_text(TABLES["calls"], call), rule)
    return str(check_stored(TABLES[name], parent)["node_id"])


def _usage(counts: Counter[str]) -> Document:
    timed = counts["timed_calls"]
    return {
        "total_calls": counts["total_calls"],
        "successful": counts["successful"],
        "failed": counts["failed"],
        "total_latency_us": min(counts["total_latency_us"], MAX_SAFE_INTEGER),
        "mean_latency_us": counts["total_latency_us"] / timed if timed else None,
    }


def failure_of(view: LedgerView, run_id: str, *, limit: int) -> Document:
    """Return what failed in a run, and where one looks next."""
    run = run_of_id(view, run_id)
    errors = errors_of(view, run_id, kind="all", limit=limit)
    failed = errors.pop("state_errors")
    causes = error_causes_of(view, run_id)
    return {
        "run_id": run_id,
        "run_status": run["status"],
        "failed_node_states": failed,
        **errors,
        "patterns": {
            "plugins_failing": dict(Counter(state["node_id"] for state in failed)),
            "has_retries": any(state["attempt"] > 0 for state in failed),
            "by_source": causes["validation_errors"]["by_source"][:limit],
            "by_transform": causes["transform_errors"]["by_transform"][:limit],
            "by_node": causes["state_errors"]["by_node"][:limit],
        },
        "next_steps": [f"explain {state['token_id']}" for state in failed[:3]],
    }


def _failed_states(view: LedgerView, run_id: str) -> Iterator[Row]:
    table, key = TABLES["node_states"], KEYS["node_states"]
    for node in _records(view, run_id, "nodes"):
        failed = {"run_id": run_id, "node_id": node["node_id"], "status": "failed"}
        rows = rows_in_pages(
            view.tables, TableQuery(table, failed, order_by=key, limit=PAGE_RECORDS)
        )
        yield from (check_stored(table, row) for row in rows)


def _failure_document(state: Row) -> Document:
    named = ("state_id", "token_id", "node_id", "attempt", "completed_at_us")
    return {name: state[name] for name in named} | {"error": _parse(state["error_json"])}


def _records(view: LedgerView, run_id: str, name: str) -> Iterable[Row]:
    return (check_stored(TABLES[name], row) for row in records_of(view.tables, run_id, name))


def _outcomes(view: LedgerView, run_id: str) -> dict[str, int]:
    counts = counts_by(view, run_id, "token_outcomes", "outcome", OUTCOMES)
    return {outcome: count for outcome, count in sorted(counts.items()) if count}


def _rank(counts: Counter[tuple[str, str]], *names: str) -> list[Document]:
    return [
        {**dict(zip(names, key, strict=True)), "count": count}
        for key, count in sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    ][:CAUSES_SHOWN]


def _error(name: str, row: Row) -> Document:
    document = {key: value for key, value in row.items() if not key.endswith("_json")}
    document["row_data"] = _parse(row["row_data_json"])
    if name == "transform_errors":
        document["error_details"] = _parse(row["error_details_json"])
    document.pop(KEYS["runs"])
    return document


def _parse(text: str | None) -> Any:
    return None if text is None else orjson.loads(text)
