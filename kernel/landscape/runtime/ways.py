"""Reads a stretch of the log as operations and requests, and what came from what.

A request belongs to the run in which it got its outcome, an operation to the one that has its row.
An operation comes from the requests that it answered or worked for, else from the operation that
brought the source that it is about; a request from the operation that asked for it. A record that
comes from nothing in the run is a row of it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import orjson

from kernel.landscape.runtime.stages import STAGE_OF_QUEUE, stage_of
from kernel.landscape.runtime.stretches import RuntimeRun
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView, Request
from kernel.ledger.store.tables import Row, TableQuery
from kernel.model.node_kinds import SOURCE_ARTIFACT
from kernel.model.recomputes import RECALCULATE
from kernel.values.canonical import sha256_hex
from kernel.values.host import parse_time_us

ROWS_AT_ONCE = 500


@dataclass(slots=True)
class Way:
    """The way of one operation, or of one request, through the run."""

    name: str
    node_id: str
    """The stage at which it was made, or worked at."""

    began_us: int
    ended_us: int
    content_hash: str
    parents: list[str] = field(default_factory=list)
    outcome: str = ""
    """Of a request, how it ended; empty of an operation."""

    row: Row = field(default_factory=dict)
    envelope: Document = field(default_factory=dict)

    @property
    def is_request(self) -> bool:
        """Whether it is a request."""
        return self.outcome != ""

    @property
    def joins(self) -> bool:
        """Whether what it comes from ends in it together."""
        return self.envelope.get("semantic_intent") == RECALCULATE


def ways_of(view: LedgerView, stretch: RuntimeRun) -> list[Way]:
    """Return the ways of a stretch, each behind those that it comes from; linear in its rows."""
    operations = [*_operations(view, stretch)]
    # A database returns what was closed behind one row in any order.
    requests = sorted(_requests(view, stretch), key=lambda pair: pair[0].request_sequence)
    _connect(operations, requests)
    ordered: list[tuple[tuple[int, int], Way]] = [
        *(((way.row["ec_sequence_number"], 0), way) for way in operations),
        *(((r.cause_sequence, r.request_sequence), way) for r, way in requests),
    ]
    ordered.sort(key=lambda entry: entry[0])
    return [way for _, way in ordered]


def _operations(view: LedgerView, stretch: RuntimeRun) -> Iterator[Way]:
    after = stretch.first - 1
    while after < stretch.last:
        rows = view.log_rows(after=after, limit=min(ROWS_AT_ONCE, stretch.last - after))
        if not rows:
            return
        refs = [row["envelope_payload_blob_ref"] for row in rows]
        blobs = view.tables.scan(TableQuery(schema.blobs, any_of=("blob_ref", refs)))
        contents = {blob["blob_ref"]: blob["content"] for blob in blobs}
        for row in rows:
            # What took a lite row's place decided nothing anew (K24).
            if not row["supersedes_sequence"]:
                content = contents.get(row["envelope_payload_blob_ref"])
                yield _operation(row, {} if content is None else orjson.loads(content))
        after = rows[-1]["ec_sequence_number"]


def _operation(row: Row, envelope: Document) -> Way:
    committed_us = parse_time_us(row["committed_at"])
    stated = envelope.get("recorded_at")
    recorded_us = parse_time_us(stated) if isinstance(stated, str) else committed_us
    return Way(
        row["operation_id"],
        stage_of(envelope),
        min(recorded_us, committed_us),
        committed_us,
        row["envelope_payload_blob_ref"],
        row=row,
        envelope=envelope,
    )


def _requests(view: LedgerView, stretch: RuntimeRun) -> Iterator[tuple[Request, Way]]:
    outcomes = _outcomes(view, stretch)
    names = [*outcomes]
    for at in range(0, len(names), ROWS_AT_ONCE):
        part = names[at : at + ROWS_AT_ONCE]
        for row in view.tables.scan(TableQuery(schema.outbox, any_of=("request_id", part))):
            request, outcome = Request.of_row(row), outcomes[row["request_id"]]
            yield request, _way_of_request(request, outcome)


def _outcomes(view: LedgerView, stretch: RuntimeRun) -> dict[str, Row]:
    """Return the outcomes of a stretch by their requests.

    All that were recorded behind one row come together, so a page goes up to a whole row.
    """
    outcomes: dict[str, Row] = {}
    after, at_once = stretch.first - 1, ROWS_AT_ONCE
    while after < stretch.last:
        query = TableQuery(
            schema.outbox_outcomes, order_by="closed_sequence", after=after, limit=at_once
        )
        page = view.tables.scan(query)
        is_last = len(page) < at_once
        last = stretch.last if is_last else page[-1]["closed_sequence"] - 1
        if last <= after:
            at_once *= 2  # as many as this belong to one row
            continue
        within = (row for row in page if row["closed_sequence"] <= min(last, stretch.last))
        outcomes |= {row["request_id"]: row for row in within}
        after = last
    return outcomes


def _way_of_request(request: Request, outcome: Row) -> Way:
    return Way(
        request.request_id,
        STAGE_OF_QUEUE.get(request.queue, request.queue),
        request.enqueued_at_us,
        max(outcome["closed_at_us"], request.enqueued_at_us),
        sha256_hex(request.request_bytes),
        outcome=outcome["outcome"],
        row=outcome,
    )


def _connect(operations: list[Way], requests: list[tuple[Request, Way]]) -> None:
    by_sequence = {way.row["ec_sequence_number"]: way.name for way in operations}
    by_name = {way.name: way for way in operations}
    works = _Works(requests)
    for request, way in requests:
        way.parents = [
            name
            for name in _causing_operations(request, by_sequence)
            if name in by_name and name != way.name
        ]
    sources: dict[str, str] = {}
    for way in operations:
        way.parents = works.of(way) if way.joins else works.of(way)[:1]
        if not way.parents:
            about = [*way.envelope.get("source_refs", ()), *way.envelope.get("target_refs", ())]
            origin = next((sources[ref] for ref in about if ref in sources), None)
            way.parents = [] if origin is None else [origin]
        for ref in _written_sources(way.envelope):
            sources.setdefault(ref, way.name)


class _Works:
    """The requests of a run by what an operation that works for one names."""

    def __init__(self, requests: Iterable[tuple[Request, Way]]) -> None:
        self._ids: set[str] = set()
        self._of: dict[tuple[str, ...], list[str]] = {}
        for request, way in requests:
            self._ids.add(way.name)
            closed_by = way.row["operation_id"]
            if closed_by is not None:
                self._note("closed_by", closed_by, name=way.name)
            content = request.document.get("content", {})
            for kind, fields in _NAMED_BY.items():
                named = [content.get(each) for each in fields]
                if all(isinstance(each, str) for each in named):
                    self._note(kind, *map(str, named), name=way.name)

    def of(self, way: Way) -> list[str]:
        """Return the requests that an operation answered, else that it worked for."""
        answered = self._of.get(("closed_by", way.name))
        if answered:
            return answered
        for effect in way.envelope.get("primitive_effects", ()):
            payload = effect.get("payload", {})
            if payload.get("request_id") in self._ids:
                return [payload["request_id"]]
            extracted = payload.get("extracted")
            if isinstance(extracted, dict):
                return self._of.get(("run", str(extracted.get("extraction_run_id"))), [])
        fire = way.envelope.get("binding_fire")
        if not fire:
            return []
        return self._of.get(("pair", fire["binding_id"], fire["source_event_id"]), [])

    def _note(self, *key: str, name: str) -> None:
        self._of.setdefault(key, []).append(name)


_NAMED_BY: Mapping[str, tuple[str, ...]] = {
    "run": ("extraction_run_id",),
    "pair": ("binding_id", "source_event_id"),
}


def _causing_operations(request: Request, by_sequence: Mapping[int, str]) -> Iterator[str]:
    """Yield the operation because of which a request was recorded."""
    document = request.document
    trigger = document.get("trigger_source_id")
    if isinstance(trigger, str):
        yield trigger
    elif is_caused_by_row(request, document) and request.cause_sequence in by_sequence:
        yield by_sequence[request.cause_sequence]


def is_caused_by_row(request: Request, document: Document) -> bool:
    """Tell whether a request was recorded because of the operation behind which it stands.

    What a producer asks for stands behind whatever was last.
    """
    was_routed = document.get("request_key") == request.request_id
    return was_routed or document.get("content", {}).get("cause") == "binding_fired"


def _written_sources(envelope: Document) -> Iterator[str]:
    for effect in envelope.get("primitive_effects", ()):
        if effect.get("payload", {}).get("node_kind") == SOURCE_ARTIFACT:
            yield effect["target_ref"]
