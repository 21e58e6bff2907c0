"""Tells of each kind of thing on the record what it says of itself, and what it comes from."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from sqlalchemy import Table

from kernel.algebra.verbs import OPERATOR_VERBS
from kernel.audit.lineage import authority_grounds
from kernel.audit.operations import OperationEntry, ask_ahead_of_operation, envelope_of
from kernel.audit.provenance import (
    STEPS_MAX,
    Kind,
    Named,
    Provenance,
    Step,
    walk_provenance,
    words_at,
    words_of_source,
)
from kernel.audit.provenance_of_sessions import elimination_step, session_step, survivor_step
from kernel.authority.recompute_pages import answered_requests, recompute_alone
from kernel.landscape.runtime.stages import stage_of
from kernel.landscape.runtime.ways import is_caused_by_row
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView, Request
from kernel.ledger.store.buffer import joined_ahead
from kernel.ledger.store.tables import Row, TableQuery
from kernel.model.node_kinds import SOURCE_ARTIFACT, UNDERSTANDING
from kernel.model.recomputes import RECALCULATE
from kernel.values.spans import sources_in, spans_in
from kernel.values.untrusted import text_of
from kernel.work.requests import status_of

SAID_CHARS_MAX = 200
ANSWERED_MAX = 64
"""Outcomes searched for the requests that an operation has answered: they are recorded with it."""

PARTS_MAX = 16
"""Places at which an id may be parted into a session and one of its hypotheses."""

_FROM_FIELDS = (
    *("docket_entry_ref", "document_ref", "artifact_ref"),
    *("source_filing_unit_id", "target_filing_unit_id"),
)
"""Fields by which a record names what it was made of, beside its spans and sources."""

_UNSAID = frozenset(
    {
        *("content", "acquisition_shape"),
        *("metadata_wrapper_applied", "prompt_injection_isolation_wrapper_applied"),
    }
)
"""Fields whose words are quoted anyway, or that are the same of every source."""

_RECORDS = tuple(
    table
    for table in schema.STATE_TABLES
    if table is not schema.nodes and len(table.primary_key.columns) == 1
)

READS_KEPT = 512
"""Of each kind of answer; what many steps lead to is soon asked for again."""


def provenance_of(
    view: LedgerView, name: str, hypothesis: str | None = None, *, steps_max: int = STEPS_MAX
) -> Provenance | None:
    """Return the way of what an id names; None where nothing on the ledger has the id.

    A survivor is named by its session and `hypothesis`, or by both in one with a slash between.
    """
    view = ReadOnceView(view)
    if hypothesis is None:
        _ask_ahead_of_name(view, name)
    named = (
        resolve_name(view, name)
        if hypothesis is None
        else Named("survivor", f"{name}/{hypothesis}")
    )
    first = None if named is None else step_of(view, named)
    if first is None:
        return None
    return walk_provenance(first, lambda further: step_of(view, further), steps_max=steps_max)


def step_of(view: LedgerView, named: Named) -> Step | None:
    """Return what the record says of a thing; None where it is not on the record."""
    return _STEPS[named.kind](view, named)


def _ask_ahead_of_name(view: LedgerView, name: str) -> None:
    ask_ahead_of_operation(
        view,
        name,
        joined_ahead(schema.nodes, "node_id", [name]),
        joined_ahead(schema.outbox, "request_id", [name]),
        joined_ahead(schema.outbox_outcomes, "request_id", [name]),
        joined_ahead(schema.belief_sessions, "session_id", [name]),
        joined_ahead(schema.belief_events, "event_id", [name]),
    )


def resolve_name(view: LedgerView, name: str) -> Named | None:
    """Find out what an id names: a node, an operation, a request, a session, a survivor, a record.

    None where it names nothing on the ledger.
    """
    if "\x00" in name:
        return None
    node = view.node(name)
    if node is not None:
        kinds: Mapping[str, Kind] = {UNDERSTANDING: "authority", SOURCE_ARTIFACT: "source"}
        return Named(kinds.get(node["node_kind"], "record"), name)
    lookups: tuple[tuple[Kind, Callable[[], object]], ...] = (
        ("operation", lambda: view.log_row_of(name)),
        ("request", lambda: view.tables.get(schema.outbox, name)),
        ("session", lambda: view.belief_session(name)),
        (
            "elimination",
            lambda: view.tables.scan(TableQuery(schema.belief_events, {"event_id": name})),
        ),
        ("record", lambda: _store_of(view, name) is not None),
        ("survivor", lambda: _session_in(view, name)),
    )
    return next((Named(kind, name) for kind, look in lookups if look()), None)


def _session_in(view: LedgerView, name: str) -> tuple[str, str] | None:
    """Return the session and the hypothesis that a name has in one, None where it has none."""
    at = name.find("/")
    for _ in range(PARTS_MAX):
        if at < 0:
            break
        if view.belief_session(name[:at]) is not None:
            return name[:at], name[at + 1 :]
        at = name.find("/", at + 1)
    return None


def _store_of(view: LedgerView, name: str) -> Table | None:
    return next((table for table in _RECORDS if view.record(table, name) is not None), None)


def _authority(view: LedgerView, named: Named) -> Step | None:
    grounds = authority_grounds(view, named.record_id)
    if grounds is None:
        return None
    record = _record(view, named)
    says: Document = {
        "authority": grounds.cu_authority,
        "computed_at": grounds.computed_at,
        "inputs": len(grounds.inputs),
    }
    if grounds.stale_since is not None:
        says["stale_since"] = grounds.stale_since
    inputs = [_resolve_ref(view, edge["parent_node_id"]) for edge in grounds.inputs]
    recompute = [] if grounds.operation is None else [grounds.operation.operation_id]
    written = [each for each in record.because if each.kind == "operation"] if record else []
    # The recompute as that of this understanding alone, where a page of them was recorded.
    causes = [*inputs, *(Named("request", each) for each in grounds.request_ids)]
    causes += [Named("operation", each) for each in recompute]
    return Step(named, says, _each_once([*causes, *written]), record.words if record else ())


def _source(view: LedgerView, named: Named) -> Step | None:
    step = _record(view, named)
    if step is None:
        return None
    created = (view.node(named.record_id) or {}).get("created_by_operation_id")
    because = () if created is None else (Named("operation", created),)
    return replace(step, because=because, words=words_of_source(view, named.record_id))


def _record(view: LedgerView, named: Named) -> Step | None:
    """Return what a record of whatever store says, with the words that it was drawn from."""
    name = named.record_id
    record, store = view.node(name), schema.nodes
    if record is None:
        table = _store_of(view, name)
        if table is None:
            return None
        record, store = view.record(table, name), table
    payload = record.get("payload", record) if record else {}
    says: Document = {
        "kind": (record or {}).get("node_kind", str(store.name)),
        **_plain_values(payload),
    }
    named_from = [payload[field] for field in _FROM_FIELDS if isinstance(payload.get(field), str)]
    run = payload.get("extracted", {}).get("extraction_run_id")
    named_from += [] if run is None else [f"{run}|1"]
    sources = [_resolve_ref(view, ref) for ref in [*named_from, *sources_in(payload)]]
    writers = [Named("operation", each) for each in _writers(view, str(store.name), name)]
    words = tuple(words_at(view, span) for span in spans_in(payload))
    return Step(named, says, _each_once([*writers, *sources]), words)


def _writers(view: LedgerView, store: str, key: str) -> Iterator[str]:
    """Yield the operation that wrote a record first, and the one that wrote it last."""
    where = {"store": store, "record_key": key}
    for descending in (False, True):
        query = TableQuery(
            schema.applied_effects,
            where,
            order_by="ec_sequence_number",
            descending=descending,
            limit=1,
        )
        rows = view.tables.scan(query)
        for row in rows:
            entry = view.log_row_at(row["ec_sequence_number"])
            if entry is not None:
                yield entry["operation_id"]


def _operation(view: LedgerView, named: Named) -> Step | None:
    row = view.log_row_of(named.record_id)
    if row is None:
        return None
    entry = OperationEntry.of_row(view, row)
    says: Document = {
        "ec_sequence_number": str(entry.ec_sequence_number),
        "semantic_intent": entry.semantic_intent,
        "actor": entry.actor,
        "committed_at": entry.committed_at,
    }
    if entry.quarantined:
        says["quarantined"] = True
    envelope = envelope_of(view, row)
    if envelope is None:
        says["envelope"] = "erased"
        return Step(named, says, _each_once(_parents(view, entry.causal_parent_operation_ids)))
    says = {"stage": stage_of(envelope), **says}
    if "duration_ms" in envelope:
        says["duration_ms"] = envelope["duration_ms"]
    if fire := envelope.get("binding_fire"):
        says["binding_id"] = fire["binding_id"]
    if entry.semantic_intent in OPERATOR_VERBS:
        about, others = envelope["target_refs"][0], len(envelope["target_refs"]) - 1
        says["about"] = f"{about} and {others} others" if others else about
        says |= _plain_values(envelope["primitive_effects"][0]["payload"])
    requests = [Named("request", each) for each in _requests_of(view, row, envelope)]
    sources = [_resolve_ref(view, ref) for ref in envelope["source_refs"]]
    if entry.semantic_intent == RECALCULATE and requests:
        # Its requests name each operation that caused it, and its inputs are what it has read.
        return Step(named, says, _each_once(requests))
    parents = _parents(view, entry.causal_parent_operation_ids)
    return Step(named, says, _each_once([*requests, *sources, *parents]))


def _parents(view: LedgerView, operation_ids: Iterable[str]) -> Iterator[Named]:
    """Yield the operations that an operation names as its causes.

    Not the recomputes: that an authority was computed meanwhile is no reason for what came later.
    """
    for operation_id in operation_ids:
        row = view.log_row_of(operation_id)
        if row is None or row["semantic_intent"] != RECALCULATE:
            yield Named("operation", operation_id)


def _requests_of(view: LedgerView, row: Row, envelope: Document) -> list[str]:
    """Return the requests that an operation has answered, or that it says it works for."""
    if envelope["semantic_intent"] == RECALCULATE:
        return [
            request_id
            for node_id in envelope["target_refs"]
            for request_id in answered_requests(recompute_alone(envelope, node_id), node_id)
        ]
    stated = [
        effect.get("payload", {}).get("request_id") for effect in envelope["primitive_effects"]
    ]
    answered = [] if envelope["actor"] == "user" else _answered_requests(view, row)
    return [*answered, *(each for each in stated if isinstance(each, str))]


def _answered_requests(view: LedgerView, row: Row) -> list[str]:
    """Return the requests whose outcomes name the operation of a row as their answer."""
    query = TableQuery(
        schema.outbox_outcomes,
        columns=("request_id", "operation_id"),
        order_by="closed_sequence",
        after=row["ec_sequence_number"] - 1,
        limit=ANSWERED_MAX,
    )
    outcomes = view.tables.scan(query)
    return [request_id for request_id, answer in outcomes if answer == row["operation_id"]]


def _request(view: LedgerView, named: Named) -> Step | None:
    row = view.tables.get(schema.outbox, named.record_id)
    status = status_of(view, named.record_id)
    if row is None or status is None:
        return None
    request = Request.of_row(row)
    document = request.document
    says: Document = {
        "queue": request.queue,
        "priority": request.priority,
        "item_key": request.item_key,
        "enqueued_at": document["enqueued_at"],
    }
    names = ("state", "closed_at", "reason", "dismissed", "settled_by", "requeued_as")
    closed = {name: getattr(status, name) for name in names}
    says |= {name: value for name, value in closed.items() if value is not None}
    says |= _plain_values(status.result or {})
    content = document.get("content", {})
    causes = [*_causes_of_request(view, request, document)]
    if status.settled_operation_id is not None:
        causes.append(Named("operation", status.settled_operation_id))
    refs = [content[name] for name in ("artifact_ref", "source_ref") if name in content]
    return Step(named, says, _each_once([*causes, *(_resolve_ref(view, ref) for ref in refs)]))


def _causes_of_request(view: LedgerView, request: Request, document: Document) -> Iterator[Named]:
    """Yield the operation in whose transaction a request was recorded because of it.

    A producer's request was caused by its producer alone, one that was given up and requeued by
    who requeued it.
    """
    if "requeues" in document:
        yield Named("request", document["requeues"])
    trigger = document.get("trigger_source_id")
    if isinstance(trigger, str):
        if view.log_row_of(trigger) is not None:
            yield Named("operation", trigger)
        return
    if is_caused_by_row(request, document):
        row = view.log_row_at(request.cause_sequence)
        if row is not None:
            yield Named("operation", row["operation_id"])


def _resolve_ref(view: LedgerView, ref: str) -> Named:
    return resolve_name(view, ref) or Named("record", ref)


def _plain_values(payload: Mapping[str, Any]) -> Document:
    """Return the plain values of a payload, words from outside without their markers."""
    said = {
        name: text_of(value)[:SAID_CHARS_MAX] if isinstance(value, str) else value
        for name, value in payload.items()
        if name not in _UNSAID and isinstance(value, str | int | float | bool)
    }
    metadata = payload.get("metadata")
    return said | (_plain_values(metadata) if isinstance(metadata, dict) else {})


def _each_once(named: Iterable[Named]) -> tuple[Named, ...]:
    return tuple(dict.fromkeys(named))


def _survivor(view: LedgerView, named: Named) -> Step | None:
    parts = _session_in(view, named.record_id)
    return None if parts is None else survivor_step(view, named, *parts)


_STEPS: Mapping[Kind, Callable[[LedgerView, Named], Step | None]] = MappingProxyType(
    {
        "authority": _authority,
        "source": _source,
        "record": _record,
        "operation": _operation,
        "request": _request,
        "survivor": _survivor,
        "session": session_step,
        "elimination": elimination_step,
    }
)


class ReadOnceView(LedgerView):
    """The same snapshot, which keeps what was read and decoded last; nobody may change it."""

    def __init__(self, view: LedgerView) -> None:
        super().__init__(view.tables, view.archive)
        self._records = lru_cache(READS_KEPT)(super().record)
        self._rows_of = lru_cache(READS_KEPT)(super().log_row_of)
        self._rows_at = lru_cache(READS_KEPT)(super().log_row_at)

    def record(self, table: Table, key: str) -> Document | None:
        """Return the newest record of a typed store."""
        return self._records(table, key)

    def log_row_of(self, operation_id: str) -> Row | None:
        """Return the log row of an operation; of one that was superseded, the superseding row."""
        return self._rows_of(operation_id)

    def log_row_at(self, ec_sequence_number: int) -> Row | None:
        """Return the log row with a sequence number."""
        return self._rows_at(ec_sequence_number)
