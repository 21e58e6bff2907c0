"""Streams a run as W3C PROV, in its JSON form (PROV-JSON, a member submission of 2013).

Rows, tokens, batches and artifacts are entities; the run, states, operations and calls are
activities; nodes are software agents. A token is derived from its row, from its parents, and from
the batch that it came out of, and it is invalidated where its outcome was recorded. Payloads are
not in it, their hashes are. Ids are escaped as in a URI, under a prefix that names the run
(decision kernel/0477).
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

import orjson

from kernel.landscape.digest import records_of
from kernel.landscape.record_rules import TABLES, check_stored
from kernel.landscape.reports import run_document, run_of_id
from kernel.ledger.ledger import LedgerView
from kernel.ledger.store.tables import Row
from kernel.values.host import iso_time

NAMESPACE = "urn:rotulus:run:"

Document = dict[str, Any]
Statement = tuple[str, Document]
"""The name of a thing or relation, and what is said of it."""


def prov_document(view: LedgerView, run_id: str) -> Iterator[bytes]:
    """Yield the pieces of one JSON document, which is whole when the last has come.

    Raises:
        LandscapeRefused: `landscape_unknown`.
        RecordDamaged: a record breaks a rule.
    """
    run = run_of_id(view, run_id)
    prefixes = {"run": f"{NAMESPACE}{quote(run_id, safe='')}:"}
    yield b'{"prefix":' + orjson.dumps(prefixes)
    for section, parts in _SECTIONS.items():
        is_first = True
        for name, said in _statements(view, run, parts):
            head = b',"' + section.encode() + b'":{' if is_first else b","
            yield head + orjson.dumps(name) + b":" + orjson.dumps(said)
            is_first = False
        if not is_first:
            yield b"}"
    yield b"}\n"


def _statements(
    view: LedgerView, run: Row, parts: Mapping[str, Callable[[Row], Statement | None]]
) -> Iterator[Statement]:
    for table, state in parts.items():
        for row in _records(view, run, table):
            statement = state(row)
            if statement is not None:
                yield statement


def _records(view: LedgerView, run: Row, table: str) -> Iterator[Row]:
    if table == "runs":
        # With its seal, and its grade as it is now.
        yield run | run_document(view, run)
        return
    for row in records_of(view.tables, run["run_id"], table):
        yield check_stored(TABLES[table], row)


def _name(kind: str, record_id: str) -> str:
    return f"run:{kind}/{quote(record_id, safe='')}"


def _about(row: Row, *names: str) -> Document:
    """Return what a record says of itself, as attributes of the run's namespace."""
    return {f"run:{name}": row[name] for name in names if row[name] is not None}


def _type(name: str) -> Document:
    return {"prov:type": {"$": name, "type": "prov:QUALIFIED_NAME"}}


def _times_of(row: Row) -> Document:
    times = {"prov:startTime": row["started_at_us"], "prov:endTime": row["completed_at_us"]}
    return {name: iso_time(at_us) for name, at_us in times.items() if at_us is not None}


def _row(row: Row) -> Statement:
    about = _about(row, "row_index", "source_node_id", "source_data_hash")
    return _name("row", row["row_id"]), {**_type("run:row"), **about}


def _token(row: Row) -> Statement:
    names = ("branch_name", "step_in_pipeline", "fork_group_id", "join_group_id", "expand_group_id")
    return _name("token", row["token_id"]), {**_type("run:token"), **_about(row, *names)}


def _batch(row: Row) -> Statement:
    names = ("aggregation_node_id", "attempt", "status", "trigger_type", "trigger_reason")
    return _name("batch", row["batch_id"]), {**_type("prov:Collection"), **_about(row, *names)}


def _artifact(row: Row) -> Statement:
    names = ("artifact_type", "path_or_uri", "content_hash", "size_bytes", "sink_node_id")
    return _name("artifact", row["artifact_id"]), {
        **_type("run:artifact"),
        **_about(row, *names),
    }


def _run(row: Row) -> Statement:
    names = ("status", "config_hash", "canonical_version", "reproducibility_grade", "run_digest")
    about = _about(row, *names, "sealed_by_sequence")
    return _name("run", row["run_id"]), {**_times_of(row), **about}


def _state(row: Row) -> Statement:
    names = ("status", "step_index", "attempt", "input_hash", "output_hash", "error_json")
    return _name("state", row["state_id"]), {**_times_of(row), **_about(row, *names)}


def _operation(row: Row) -> Statement:
    names = ("operation_type", "status", "error_message", "input_data_ref", "output_data_ref")
    return _name("operation", row["operation_id"]), {**_times_of(row), **_about(row, *names)}


def _call(row: Row) -> Statement:
    names = ("call_type", "call_index", "status", "request_hash", "response_hash", "error_json")
    said = {"prov:endTime": iso_time(row["created_at_us"]), **_about(row, *names)}
    return _name("call", row["call_id"]), said


def _node(row: Row) -> Statement:
    names = ("plugin_name", "plugin_version", "node_type", "determinism", "config_hash")
    return _name("node", row["node_id"]), {**_type("prov:SoftwareAgent"), **_about(row, *names)}


def _relation(kind: str, key: str, ends: Mapping[str, tuple[str, str]], **said: Any) -> Statement:
    stated = {f"prov:{role}": _name(*end) for role, end in ends.items()}
    return f"_:{kind}/{quote(key, safe='')}", {**stated, **said}


def _association(kind: str, key: str) -> Callable[[Row], Statement]:
    return lambda row: _relation(
        "associated",
        f"{kind}/{row[key]}",
        {"activity": (kind, row[key]), "agent": ("node", row["node_id"])},
    )


def _usage(row: Row) -> Statement:
    ends = {"activity": ("state", row["state_id"]), "entity": ("token", row["token_id"])}
    return _relation("used", row["state_id"], ends)


def _generation_by_state(row: Row) -> Statement:
    ends = {
        "entity": ("artifact", row["artifact_id"]),
        "activity": ("state", row["produced_by_state_id"]),
    }
    at = {"prov:time": iso_time(row["created_at_us"])}
    return _relation("generated", f"artifact/{row['artifact_id']}", ends, **at)


def _read_by_run(row: Row) -> Statement:
    ends = {"entity": ("row", row["row_id"]), "activity": ("run", row["run_id"])}
    at = {"prov:time": iso_time(row["created_at_us"])}
    return _relation("generated", f"row/{row['row_id']}", ends, **at)


def _of_row(row: Row) -> Statement:
    ends = {"generatedEntity": ("token", row["token_id"]), "usedEntity": ("row", row["row_id"])}
    return _relation("derived", f"row/{row['token_id']}", ends)


def _of_parent(row: Row) -> Statement:
    ends = {
        "generatedEntity": ("token", row["token_id"]),
        "usedEntity": ("token", row["parent_token_id"]),
    }
    return _relation("derived", f"parent/{row['link_id']}", ends)


def _of_batch(row: Row) -> Statement:
    ends = {
        "generatedEntity": (row["output_type"], row["output_id"]),
        "usedEntity": ("batch", row["batch_id"]),
    }
    return _relation("derived", f"batch/{row['batch_output_id']}", ends)


def _member(row: Row) -> Statement:
    ends = {"collection": ("batch", row["batch_id"]), "entity": ("token", row["token_id"])}
    return _relation("member", row["member_id"], ends)


def _communication(row: Row) -> Statement:
    parent = ("state", row["state_id"])
    if row["state_id"] is None:
        parent = ("operation", row["operation_id"])
    ends = {"informed": ("call", row["call_id"]), "informant": parent}
    return _relation("informed", row["call_id"], ends)


def _invalidation(row: Row) -> Statement | None:
    if not row["is_terminal"]:
        return None
    at = {"prov:time": iso_time(row["recorded_at_us"])}
    names = ("outcome", "sink_name", "batch_id", "error_hash", "expected_branches_json")
    ends = {"entity": ("token", row["token_id"])}
    return _relation("invalidated", row["outcome_id"], ends, **at, **_about(row, *names))


_SECTIONS: Mapping[str, Mapping[str, Callable[[Row], Statement | None]]] = MappingProxyType(
    {
        "entity": {"rows": _row, "tokens": _token, "batches": _batch, "artifacts": _artifact},
        "activity": {
            "runs": _run,
            "node_states": _state,
            "operations": _operation,
            "calls": _call,
        },
        "agent": {"nodes": _node},
        "wasAssociatedWith": {
            "node_states": _association("state", "state_id"),
            "operations": _association("operation", "operation_id"),
        },
        "used": {"node_states": _usage},
        "wasGeneratedBy": {"rows": _read_by_run, "artifacts": _generation_by_state},
        "wasDerivedFrom": {
            "tokens": _of_row,
            "token_parents": _of_parent,
            "batch_outputs": _of_batch,
        },
        "hadMember": {"batch_members": _member},
        "wasInformedBy": {"calls": _communication},
        "wasInvalidatedBy": {"token_outcomes": _invalidation},
    }
)
"""What each section of the document says, by the tables that it is read from."""
