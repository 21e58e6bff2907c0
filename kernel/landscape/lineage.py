"""Explains what is on the record of a run: the whole lineage of a token (seed 003, `explain`).

The subject of a question may be a token, a row, or anything that leads to one: a state, a call, an
outcome, an artifact, a batch. Its tokens are explained, each from its source, with its parents and
children; so a row that was forked has an answer for each of its ways and is never ambiguous. Every
record is held against its rules, and one that names another which is not there is damage.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from kernel.landscape.canonical_types import is_hash_of
from kernel.landscape.errors import LandscapeRefused, RecordDamaged
from kernel.landscape.payloads import payload_data, payloads_by_hash
from kernel.landscape.record_rules import KEYS, TABLES, check_stored, key_text
from kernel.landscape.run_rules import hold_together, token_problems
from kernel.ledger.ledger import LedgerView
from kernel.ledger.store.tables import Row, TableQuery

TOKENS_MAX = 100
"""Tokens that one question explains, and relatives of each that are named."""

RUNS_SEARCHED_MAX = 200
"""Newest runs that are searched for an id, where the run is not named."""

STATES_SHOWN_MAX = 100

_KINDS = (
    *("tokens", "rows", "node_states", "operations", "calls", "artifacts", "batches"),
    *("token_outcomes", "transform_errors", "validation_errors", "routing_events"),
    *("checkpoints", "batch_outputs", "batch_members", "token_parents", "edges", "nodes"),
)

SourceDataState = Literal["available", "purged", "never_stored"]


@dataclass(frozen=True, slots=True)
class TokenLineage:
    """All that the record says of one token; lists are in the order of what happened."""

    token: Row
    source_row: Row
    source_data_state: SourceDataState
    source_data: Any
    states: list[Row]
    routing_events: list[Row]
    edges: list[Row]
    """Along which it was routed."""

    calls: list[Row]
    """Of the token's states, and of the operation that loaded its row."""

    operations: list[Row]
    """By which the source loaded and sinks wrote; the newest where there are many."""

    parents: list[Row]
    """Links to the parents, theirs, and so on up to the token that the source made."""

    children: list[Row]
    """Links to what it became, and what that became."""

    batches: list[Row]
    artifacts: list[Row]
    validation_errors: list[Row]
    transform_errors: list[Row]
    outcomes: list[Row]
    payloads: dict[str, Any]
    """By their hashes: what calls asked and were answered, and why gates decided, as far as it is
    kept and not long."""

    @property
    def outcome(self) -> Row | None:
        """The terminal outcome, None while the token is on its way."""
        return next((row for row in self.outcomes if row["is_terminal"]), None)


@dataclass(frozen=True, slots=True)
class Explanation:
    """What an id names, and the lineage of every token that it leads to."""

    kind: str
    """The table, without its prefix, in which the id is."""

    run: Row
    record: Row
    lineages: tuple[TokenLineage, ...] = ()
    related: dict[str, list[Row]] = field(default_factory=dict)
    """Further records, by kind, of what leads to no token."""

    is_cut: bool = False
    """Whether there are more tokens than are explained at once."""


def explain(
    view: LedgerView, record_id: str, *, run_id: str | None = None, sink: str | None = None
) -> Explanation:
    """Explain what an id names, in a run or in the newest one that has it.

    With `sink`, only the ways that ended in that sink.

    Raises:
        LandscapeRefused: `landscape_unknown`.
        RecordDamaged: a record that is read breaks a rule.
    """
    kind, run, record = locate_record(view, record_id, run_id)
    token_ids = [*dict.fromkeys(_TOKENS_OF.get(kind, _no_tokens)(view, record))]
    if sink is not None:
        token_ids = [each for each in token_ids if _sink_of(view, run["run_id"], each) == sink]
    lineages = tuple(
        _lineage(view, _token_of(view, kind, record, each)) for each in token_ids[:TOKENS_MAX]
    )
    related = _RELATED.get(kind, _nothing)(view, record)
    return Explanation(kind, run, record, lineages, related, len(token_ids) > TOKENS_MAX)


def locate_record(
    view: LedgerView, record_id: str, run_id: str | None = None
) -> tuple[str, Row, Row]:
    """Return the kind of what an id names, its run and its record.

    Raises:
        LandscapeRefused: `landscape_unknown`.
    """
    run = view.tables.get(TABLES["runs"], run_id or record_id)
    if run is not None and run_id in (None, record_id):
        return "runs", check_stored(TABLES["runs"], run), run
    runs = [run] if run is not None else []
    if run_id is None:
        order = {"order_by": "started_at_us", "descending": True, "limit": RUNS_SEARCHED_MAX}
        runs = view.tables.scan(TableQuery(TABLES["runs"], **order))  # type: ignore[arg-type]
    for searched in runs:
        for kind in _KINDS:
            row = view.tables.get(TABLES[kind], searched["run_id"], record_id)
            if row is not None:
                run = check_stored(TABLES["runs"], searched)
                return kind, run, check_stored(TABLES[kind], row)
    place = f"the run {run_id}" if run_id else f"the newest {RUNS_SEARCHED_MAX} runs"
    raise LandscapeRefused(f"nothing in {place} has the id {record_id}", code="landscape_unknown")


def lineage_of(view: LedgerView, run_id: str, token_id: str) -> TokenLineage:
    """Return all that the record says of a token.

    Raises:
        LandscapeRefused: `landscape_unknown`.
        RecordDamaged: a record breaks a rule, or names one that is not there.
    """
    token = _get(view, "tokens", run_id, token_id)
    if token is None:
        message = f"no token of the run {run_id} is called {token_id}"
        raise LandscapeRefused(message, code="landscape_unknown")
    return _lineage(view, token)


def _token_of(view: LedgerView, kind: str, record: Row, token_id: str) -> Row:
    token = _get(view, "tokens", record["run_id"], token_id)
    if token is None:
        rule = f"it leads to the token {token_id}, which is not in landscape_tokens"
        raise RecordDamaged(f"landscape_{kind}", key_text(TABLES[kind], record), rule)
    return token


def _lineage(view: LedgerView, token: Row) -> TokenLineage:
    run_id, token_id = token["run_id"], token["token_id"]
    hold_together(token_problems(view.tables, token))
    row = _record_by_name(view, "rows", token, "tokens", "row_id")
    of_token = {"run_id": run_id, "token_id": token_id}
    states = _select(view, "node_states", of_token, order_by="step_index")
    states.sort(key=lambda state: (state["step_index"], state["attempt"]))
    outcomes = _select(view, "token_outcomes", of_token, order_by="recorded_at_us")
    operations = _operations(view, run_id, row["source_node_id"], outcomes, states)
    state_ids = [state["state_id"] for state in states]
    routing = _of_any(view, "routing_events", run_id, "state_id", state_ids)
    calls = _calls(view, run_id, state_ids, operations)
    data_state, data = _source_data(view, row)
    return TokenLineage(
        token=token,
        source_row=row,
        source_data_state=data_state,
        source_data=data,
        states=states,
        routing_events=routing,
        edges=[
            _record_by_name(view, "edges", event, "routing_events", "edge_id") for event in routing
        ],
        calls=calls,
        operations=operations,
        parents=_relatives(view, run_id, token_id, "token_id", "parent_token_id"),
        children=_relatives(view, run_id, token_id, "parent_token_id", "token_id"),
        batches=[
            _record_by_name(view, "batches", member, "batch_members", "batch_id")
            for member in _select(view, "batch_members", of_token, order_by="batch_id")
        ],
        artifacts=_of_any(view, "artifacts", run_id, "produced_by_state_id", state_ids),
        validation_errors=_select(
            view, "validation_errors", {"run_id": run_id, "row_hash": row["source_data_hash"]}
        ),
        transform_errors=_select(view, "transform_errors", of_token),
        outcomes=outcomes,
        payloads=payloads_by_hash(
            view,
            run_id,
            (
                *(event["reason_ref"] for event in routing),
                *(call[ref] for call in calls for ref in ("request_ref", "response_ref")),
            ),
        ),
    )


def _source_data(view: LedgerView, row: Row) -> tuple[SourceDataState, Any]:
    ref = row["source_data_ref"]
    if ref is None:
        return "never_stored", None
    payload = payload_data(view, row["run_id"], ref)
    if payload is None:
        return "purged", None
    content, data = payload
    if not is_hash_of(content, row["source_data_hash"]):
        key = key_text(TABLES["rows"], row)
        raise RecordDamaged("landscape_rows", key, "source_data_hash is not that of the payload")
    return "available", data


def _operations(
    view: LedgerView, run_id: str, source_node_id: str, outcomes: list[Row], states: list[Row]
) -> list[Row]:
    nodes = [source_node_id]
    if any(row["sink_name"] is not None for row in outcomes) and states:
        nodes.append(states[-1]["node_id"])
    return [
        operation
        for node_id in dict.fromkeys(nodes)
        for operation in _select(
            view, "operations", {"run_id": run_id, "node_id": node_id}, limit=TOKENS_MAX
        )
    ]


def _calls(view: LedgerView, run_id: str, state_ids: list[str], operations: list[Row]) -> list[Row]:
    operation_ids = [operation["operation_id"] for operation in operations]
    return [
        call
        for column, ids in (("operation_id", operation_ids), ("state_id", state_ids))
        for call in _of_any(view, "calls", run_id, column, ids, then="call_index")
    ]


def _relatives(view: LedgerView, run_id: str, token_id: str, column: str, other: str) -> list[Row]:
    """Return the links on the way from a token in one direction, the nearest first."""
    links: list[Row] = []
    seen, ahead = {token_id}, [token_id]
    while ahead and len(links) < TOKENS_MAX:
        where = {"run_id": run_id, column: ahead.pop(0)}
        for link in _select(view, "token_parents", where, order_by="ordinal"):
            _record_by_name(view, "tokens", link, "token_parents", other)
            links.append(link)
            if link[other] not in seen:
                seen.add(link[other])
                ahead.append(link[other])
    return links[:TOKENS_MAX]


def _get(view: LedgerView, name: str, run_id: str, record_id: str) -> Row | None:
    row = view.tables.get(TABLES[name], run_id, record_id)
    return None if row is None else check_stored(TABLES[name], row)


def _record_by_name(view: LedgerView, name: str, by: Row, of: str, column: str) -> Row:
    """Return the record that another names; where it is not there, that one is damaged."""
    row = _get(view, name, by["run_id"], by[column])
    if row is None:
        rule = f"{column} names {by[column]}, which is not in landscape_{name}"
        raise RecordDamaged(f"landscape_{of}", key_text(TABLES[of], by), rule)
    return row


def _select(
    view: LedgerView,
    name: str,
    where: Mapping[str, Any],
    *,
    order_by: str | None = None,
    limit: int | None = None,
) -> list[Row]:
    rows = view.tables.scan(TableQuery(TABLES[name], where, order_by=order_by, limit=limit))
    return [check_stored(TABLES[name], row) for row in rows]


def _of_any(
    view: LedgerView, name: str, run_id: str, column: str, ids: list[str], then: str = "ordinal"
) -> list[Row]:
    if not ids:
        return []
    rows = view.tables.scan(TableQuery(TABLES[name], {"run_id": run_id}, any_of=(column, ids)))
    place = {each: number for number, each in enumerate(ids)}
    key = KEYS[name]
    records = [check_stored(TABLES[name], row) for row in rows]
    records.sort(key=lambda row: (place[row[column]], row.get(then, 0), row[key]))
    return records


def _sink_of(view: LedgerView, run_id: str, token_id: str) -> str | None:
    where = {"run_id": run_id, "token_id": token_id, "is_terminal": 1}
    rows = _select(view, "token_outcomes", where)
    return rows[0]["sink_name"] if rows else None


def _own_token(_: LedgerView, record: Row) -> list[str]:
    return [record["token_id"]]


def _of_row(view: LedgerView, record: Row) -> list[str]:
    where = {"run_id": record["run_id"], "row_id": record["row_id"]}
    rows = view.tables.scan(TableQuery(TABLES["tokens"], where, limit=TOKENS_MAX + 1))
    return [check_stored(TABLES["tokens"], row)["token_id"] for row in rows]


def _of_state(view: LedgerView, record: Row, column: str, of: str) -> list[str]:
    if record[column] is None:
        return []
    return [_record_by_name(view, "node_states", record, of, column)["token_id"]]


def _of_batch(view: LedgerView, record: Row) -> list[str]:
    where = {"run_id": record["run_id"], "batch_id": record["batch_id"]}
    members = view.tables.scan(
        TableQuery(TABLES["batch_members"], where, order_by="ordinal", limit=TOKENS_MAX + 1)
    )
    return [check_stored(TABLES["batch_members"], row)["token_id"] for row in members]


def _no_tokens(_: LedgerView, __: Row) -> list[str]:
    return []


_TOKENS_OF: Mapping[str, Callable[[LedgerView, Row], list[str]]] = MappingProxyType(
    {
        "rows": _of_row,
        **dict.fromkeys(
            (
                *("tokens", "node_states", "token_outcomes", "transform_errors"),
                *("batch_members", "token_parents", "checkpoints"),
            ),
            _own_token,
        ),
        "calls": lambda view, record: _of_state(view, record, "state_id", "calls"),
        "routing_events": lambda view, record: _of_state(
            view, record, "state_id", "routing_events"
        ),
        "artifacts": lambda view, record: _of_state(
            view, record, "produced_by_state_id", "artifacts"
        ),
        "batches": _of_batch,
    }
)
"""The tokens to which a record of each kind leads."""


def _nothing(_: LedgerView, __: Row) -> dict[str, list[Row]]:
    return {}


def _of_operation(view: LedgerView, record: Row) -> dict[str, list[Row]]:
    where = {"run_id": record["run_id"], "operation_id": record["operation_id"]}
    return {"calls": _select(view, "calls", where, order_by="call_index")}


def _of_call(view: LedgerView, record: Row) -> dict[str, list[Row]]:
    if record["operation_id"] is None:
        return {}
    return {"operations": [_record_by_name(view, "operations", record, "calls", "operation_id")]}


def _of_node(view: LedgerView, record: Row) -> dict[str, list[Row]]:
    of_run = {"run_id": record["run_id"]}
    of_node = {**of_run, "node_id": record["node_id"]}
    edges = _select(view, "edges", of_run)
    ends = ("from_node_id", "to_node_id")
    return {
        "edges": [edge for edge in edges if record["node_id"] in [edge[end] for end in ends]],
        "operations": _select(view, "operations", of_node, limit=STATES_SHOWN_MAX),
        "node_states": _select(view, "node_states", of_node, limit=STATES_SHOWN_MAX),
    }


def _of_run(view: LedgerView, record: Row) -> dict[str, list[Row]]:
    where = {"run_id": record["run_id"]}
    nodes = _select(view, "nodes", where, order_by="registered_at_us")
    return {"nodes": nodes, "edges": _select(view, "edges", where)}


_RELATED: Mapping[str, Callable[[LedgerView, Row], dict[str, list[Row]]]] = MappingProxyType(
    {"operations": _of_operation, "calls": _of_call, "nodes": _of_node, "runs": _of_run}
)
"""What is shown beside a record of each kind."""
