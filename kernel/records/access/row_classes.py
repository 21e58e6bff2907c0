"""Says up to which clearance a row of the ledger is read (§7.1, §7.2, §12.1, K35).

1. A node is as restricted as its class, and as what it was drawn from where that was restricted
   later (`kernel/records/sources.py`). An overlay that lets nobody write it hides it.
2. Any other row is as restricted as the most restrictive class that it states, as every node that
   it names, and as the operation, the request, the receipt or the session that it belongs to.
3. An operation is as restricted as its envelope. One whose envelope was erased or is damaged is as
   restricted as anything can be: nobody can say that it was not.
4. A record that operations write is as restricted as any of those.

What names a node by its own words, in a text, is not seen as naming it.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson
from sqlalchemy import Table

from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.ledger.store.keys import key_names
from kernel.ledger.store.tables import Row, TableQuery
from kernel.records.access.clearance import CLEARANCES
from kernel.records.overlays.access import forbidding
from kernel.records.overlays.containment import Containment, ContainmentTooWide
from kernel.records.overlays.overlay import overlay_of
from kernel.records.overlays.resolution import Writer, resolve
from kernel.records.sources import MAX_NESTED, SourceClasses
from kernel.values.errors import RowDamaged
from kernel.values.spans import names_of
from kernel.values.visibility import RANKS

OPEN_TABLES: Final = frozenset(
    {
        # Chains, trees and where they stand: hashes and numbers.
        *(schema.chain_head, schema.tree_tiles, schema.merkle_nodes, schema.archive_segments),
        *(schema.thought_segments, schema.rounds, schema.shard_epochs, schema.mailbox_offsets),
        *(schema.gateway_keys, schema.ledger_ids, schema.implication_detectors),
        # Found by a digest alone, which stands in a row that is judged.
        *(schema.blobs, schema.pre_images),
        # What those who operate the runtime say of it.
        *(schema.policy_snapshots, schema.queue_pauses, schema.queue_registrations),
        *(schema.access_grants, schema.access_keys, schema.chart_blocks),
        *(schema.daily_operation_counts, schema.run_operation_counts),
        # What has no class: thoughts, and the rows of pipelines.
        *(schema.audit_sessions, schema.thought_records, *schema.LANDSCAPE_TABLES),
        *(schema.landscape_payloads, schema.landscape_record_groups, schema.landscape_seals),
    }
)
"""Tables of which every row is read by whoever may ask at all."""

HIDDEN: Final = len(CLEARANCES) - 1
"""The rank that is read with a clearance of everything alone."""

MOST_RESTRICTED: Final = HIDDEN - 1
NAMES_MAX: Final = 4_096
"""Names in one row; with more it counts as most restricted."""

WRITERS_MAX: Final = 256
EVENTS_MAX: Final = 10_000
"""Operations of one record, events of one session; with more it counts as most restricted."""

_NAME_CHARS_MAX: Final = schema.NAME_MAX
_NO_NAMES: Final = ("_kind", "_intent", "_code", "_version", "_at", "_us", "_hash", "_digest")
"""Ends of fields whose values are words of our own."""

_NAMELESS: Final = frozenset(
    {"actor", "state", "status", "outcome", "queue", "priority", "verb", "role", "submitter"}
)
_SESSIONS: Final = frozenset(
    {schema.belief_sessions, schema.belief_events, schema.belief_snapshots, schema.belief_anchors}
)
_OF_LOG: Final = frozenset({schema.kernel_event_log, schema.archived_rows})


class RowClasses:
    """How restricted rows are for one reader, each looked up once in a snapshot."""

    def __init__(self, view: LedgerView, principal: str | None) -> None:
        self._view = view
        self._reader = Writer(principal)
        self._sources = SourceClasses(view)
        self._containment = Containment(view)
        self._nodes: dict[str, int] = {}
        self._known: dict[tuple[str, Any], int] = {}

    def rank(self, table: Table, row: Row) -> int:
        """Return up to which clearance a row is read, as its place in `CLEARANCES`."""
        if table in OPEN_TABLES:
            return 0
        key = (table.name, tuple(row[name] for name in key_names(table)))
        if key not in self._known:
            # What leads back to itself adds nothing.
            self._known[key] = 0
            self._known[key] = self._look(table, row)
        return self._known[key]

    def rank_of_answer(self, answer: Any) -> int:
        """Return up to which clearance a document is read that was made of the whole record."""
        return self._of_document(answer)

    def _look(self, table: Table, row: Row) -> int:
        try:
            if table is schema.nodes:
                return self._of_node(row["node_id"])
            if table in _OF_LOG:
                return self._of_operation(row)
            if table in _SESSIONS:
                return self._of_session(row["session_id"])
            rank = max(self._of_document(row), *self._of_owners(table, row))
            if table in schema.STATE_TABLES:
                rank = max(rank, self._of_writers(table, row))
        except (RowDamaged, ContainmentTooWide):
            return MOST_RESTRICTED
        return rank

    # Nodes

    def _of_node(self, node_id: str) -> int:
        if node_id not in self._nodes:
            visibility = self._sources.of_ref(node_id)
            rank = MOST_RESTRICTED if visibility is None else RANKS[visibility]
            self._nodes[node_id] = max(rank, self._of_overlays(node_id))
        return self._nodes[node_id]

    def _of_overlays(self, ref: str) -> int:
        """Return the rank of a thing by the overlays over it, over what it lies in, and in it."""
        if not self._view.has_overlays():
            return 0
        if forbidding(self._view, self._containment, ref, self._reader, frozenset()) is not None:
            return HIDDEN
        # Of a thing that is read whole each stretch is read.
        overlays = map(overlay_of, self._view.overlay_nodes(ref))
        for overlay in overlays:
            stated = None if overlay is None else resolve([overlay])
            if stated is not None and not stated.permits(ref, self._reader, frozenset()):
                return HIDDEN
        return 0

    # Documents

    def _of_document(self, document: Any) -> int:
        """Return the rank of what a document states and of what it names."""
        stated, names = 0, set[str]()
        for field, text in _texts_in(document):
            if "visibility" in field:
                stated = max(stated, RANKS.get(text, 0))
            elif 0 < len(text) <= _NAME_CHARS_MAX and not _is_nameless(field):
                if text.count("#") <= MAX_NESTED:
                    names.update(names_of(text))
                if len(names) > NAMES_MAX:
                    return MOST_RESTRICTED
        return max(stated, self._of_names(names))

    def _of_names(self, names: set[str]) -> int:
        unknown = [name for name in names if name not in self._nodes and "\x00" not in name]
        if unknown:
            query = TableQuery(
                schema.nodes, columns=("node_id",), any_of=("node_id", sorted(unknown))
            )
            there = {node_id for (node_id,) in self._view.tables.scan(query)}
            for name in unknown:
                if name in there:
                    self._of_node(name)
                else:
                    self._nodes[name] = self._of_overlays(name)
        return max((self._nodes.get(name, 0) for name in names), default=0)

    # What a row belongs to

    def _of_owners(self, table: Table, row: Row) -> Iterator[int]:
        yield 0
        get, tables = row.get, self._view.tables
        sequence, operation_id = get("ec_sequence_number"), get("operation_id")
        if sequence is not None:
            yield self._of_row(
                schema.kernel_event_log, tables.get(schema.kernel_event_log, sequence)
            )
        elif isinstance(operation_id, str):
            yield self._of_row(schema.kernel_event_log, self._view.log_row_of(operation_id))
        if table is schema.outbox:
            if row["cause_sequence"]:
                cause = tables.get(schema.kernel_event_log, row["cause_sequence"])
                yield self._of_row(schema.kernel_event_log, cause)
            return
        if isinstance(request_id := get("request_id"), str):
            yield self._of_row(schema.outbox, tables.get(schema.outbox, request_id))
            # Of a recompute the attempt stands under its operation.
            yield self._of_row(schema.kernel_event_log, self._view.log_row_of(request_id))
        elif (number := get("request_sequence")) is not None:
            rows = tables.scan(TableQuery(schema.outbox, {"request_sequence": number}, limit=1))
            yield self._of_row(schema.outbox, rows[0] if rows else None)
        if table not in (schema.receipts, schema.ephemeral_receipts) and get("receipt_id"):
            query = TableQuery(schema.receipts, {"receipt_id": row["receipt_id"]}, limit=1)
            for receipt in tables.scan(query):
                yield self.rank(schema.receipts, receipt)

    def _of_row(self, table: Table, row: Row | None) -> int:
        """Return the rank of a row that another one belongs to; nothing where it is not there."""
        return 0 if row is None else self.rank(table, row)

    def _of_operation(self, row: Row) -> int:
        content = self._view.blob(row["envelope_payload_blob_ref"])
        if content is None:
            return MOST_RESTRICTED
        return self._of_document(orjson.loads(content))

    def _of_writers(self, table: Table, row: Row) -> int:
        """Return the rank of a record by the operations that wrote it, and by its overlays."""
        key = str(row[key_names(table)[0]])
        query = TableQuery(
            schema.applied_effects,
            {"store": table.name, "record_key": key},
            columns=("ec_sequence_number",),
            grouped=True,
        )
        writers = self._view.tables.scan(query)
        if len(writers) > WRITERS_MAX:
            return MOST_RESTRICTED
        rank = self._of_overlays(key)
        for sequence, _ in writers:
            written_by = self._view.tables.get(schema.kernel_event_log, sequence)
            rank = max(rank, self._of_row(schema.kernel_event_log, written_by))
        return rank

    def _of_session(self, session_id: str) -> int:
        key = ("session", session_id)
        if key not in self._known:
            events = self._view.belief_events(session_id, limit=EVENTS_MAX + 1)
            rank = MOST_RESTRICTED if len(events) > EVENTS_MAX else 0
            for event in events:
                rank = max(rank, self._of_document(orjson.loads(event)))
            self._known[key] = rank
        return self._known[key]


def _is_nameless(field: str) -> bool:
    return field in _NAMELESS or field.endswith(_NO_NAMES)


def _texts_in(document: Any) -> Iterator[tuple[str, str]]:
    """Yield each text of a document with the field that has it; bytes are JSON where they can be.

    Lists have the field that they stand under.
    """
    waiting: list[tuple[str, Any]] = [("", document)]
    while waiting:
        field, value = waiting.pop()
        if isinstance(value, str):
            yield field, value
        elif isinstance(value, Mapping):
            waiting += ((str(name), member) for name, member in value.items())
        elif isinstance(value, list | tuple):
            waiting += ((field, member) for member in value)
        elif isinstance(value, bytes):
            try:
                waiting.append((field, orjson.loads(value)))
            except orjson.JSONDecodeError:
                continue
