"""Declares what the kernel asks of the record, over any store: the ledger's vocabulary.

Every query has its name here, so that an adapter knows rows and the kernel knows nouns. A record is
decoded once in a transaction and handed out as the same object: stores build new records and never
change one that they were given.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar, cast

import orjson
from sqlalchemy import Table

from kernel.ledger import schema
from kernel.ledger.archive import NO_ARCHIVE, Archive
from kernel.ledger.archive_segment import segment_of
from kernel.ledger.archived_tables import NEWEST_SEGMENT, with_archive
from kernel.ledger.blob_commitment import SALT_BYTES, blob_commitment
from kernel.ledger.damage import DamageFound
from kernel.ledger.head_watch import Ahead, Answered, HeadLook, HeadWatch, answers_in
from kernel.ledger.log_tree import LogTree, build, frontier_of, grow_tree
from kernel.ledger.outbox import OPEN, states_of
from kernel.ledger.quarantine import Quarantines, read_quarantines
from kernel.ledger.recent_changes import RecentChanges
from kernel.ledger.record_keys import membership_key
from kernel.ledger.store.buffer import BufferedTables, write
from kernel.ledger.store.catalog import StorageFault
from kernel.ledger.store.tables import (
    NO_QUESTIONS,
    DuplicateKey,
    Expected,
    HeldLate,
    Joined,
    LooksAhead,
    Questions,
    Replaceable,
    Row,
    Store,
    TableQuery,
    Tables,
    TablesView,
    ask_ahead,
)
from kernel.ledger.went_back import finding_stands
from kernel.model.rules_version import RULES_VERSION
from kernel.values.canonical import GENESIS_HASH, canonicalize, sha256_hex
from kernel.values.errors import CommitOutcomeUnknown, LedgerCorrupt, RulesVersionUnknown
from kernel.values.host import Host

T = TypeVar("T")

LEDGER_ID = "main"
GENESIS_POLICY = "PG-1"


EDGES_AT_ONCE = 4096
"""How many edges into a node are read at once."""

NODES_KEPT = 256
"""Of more nodes than this at once, a transaction keeps none for the next question."""

Document = dict[str, Any]

_GENESIS_RECORD: Document = {
    "policy_generation_id": GENESIS_POLICY,
    "generation": 1,
    "state": "effective",
    "version": 1,
    "payload": {},
}
"""The same in every ledger, so that the fold of the log begins with it."""


@dataclass(slots=True)
class Head:
    """The heads of the chains; they are written back once at the end of a transaction."""

    ec_sequence_number: int = 0
    row_hash: str = GENESIS_HASH
    receipt_sequence: int = 0
    receipt_hash: str = GENESIS_HASH
    request_sequence: int = 0
    committed_at_us: int = 0

    def copy(self) -> "Head":
        """Return a head that stands where this one does now."""
        return Head(
            self.ec_sequence_number,
            self.row_hash,
            self.receipt_sequence,
            self.receipt_hash,
            self.request_sequence,
            self.committed_at_us,
        )


@dataclass(frozen=True, slots=True)
class Request:
    """A piece of work that the record asks for, and who asked (an outbox row)."""

    request_id: str
    request_sequence: int
    queue: str
    item_key: str
    priority: str
    cause_sequence: int
    enqueued_at_us: int
    request_bytes: bytes

    @property
    def document(self) -> Document:
        """Everything that was recorded of the request."""
        document: Document = orjson.loads(self.request_bytes)
        return document

    @classmethod
    def of_row(cls, row: Row) -> "Request":
        """Read a row of the outbox."""
        return cls(
            row["request_id"],
            row["request_sequence"],
            row["queue"],
            row["item_key"],
            row["priority"],
            row["cause_sequence"],
            row["enqueued_at_us"],
            row["request_bytes"],
        )


class LogEntry(NamedTuple):
    """A row of the log without its bytes."""

    ec_sequence_number: int
    semantic_intent: str
    operation_id: str
    committed_at: str
    envelope_payload_blob_ref: str


_POLICY_IN_FORCE = TableQuery(
    schema.policy_snapshots, {"in_force": 1}, order_by="generation", descending=True, limit=1
)
_ANY_OVERLAY = TableQuery(
    schema.nodes, {"overlay_in_force": 1}, order_by="overlay_target", after="", limit=1
)
"""In the order of the index: by their ids, a planner may look for the first among all nodes. The
index has the nodes that have a target, as every overlay in force does."""

_UNDER_WAY = TableQuery(schema.rollbacks_under_way, limit=1)
ASKED_BY_EACH = (_POLICY_IN_FORCE, _ANY_OVERLAY, _UNDER_WAY)
"""What nearly every transaction asks, whatever it writes."""


class LedgerView:
    """Reading, at one point of the record."""

    has_gaps = False
    """Whether rows of the log may be left out, because whoever reads may not read them."""

    def __init__(self, tables: TablesView, archive: Archive | None = None) -> None:
        self.tables = tables
        self.archive = archive or NO_ARCHIVE
        """Where the segments lie that the tables read rows from."""

        self._quarantines: Quarantines | None = None
        self._policy: Row | None = None
        self._overlays: bool | None = None
        self._under_way: tuple[Document | None] | None = None

    def quarantines(self) -> Quarantines:
        """Return which ranges of the log are quarantined (§17.5); read once in a snapshot."""
        if self._quarantines is None:
            self._quarantines = read_quarantines(self.tables)
        return self._quarantines

    def finding_stands(self) -> bool:
        """Tell whether the ledger went back and nobody has accepted it (`went_back.py`)."""
        return finding_stands(self.tables)

    def batch(self) -> "LedgerView":
        """Return the same snapshot for a batch of like questions: what it reads it keeps.

        `kernel.authority.read_ahead` fills it with a few statements.
        """
        # Nothing is written to it, so it never writes to what it reads from.
        return LedgerView(BufferedTables(cast("Tables", self.tables)))

    def ask_ahead(
        self,
        *joined: Joined,
        others: Sequence[TableQuery] = (),
        counts: Sequence[TableQuery] = (),
    ) -> None:
        """Ask in one round trip what is going to be asked; it changes no answer (`ask_ahead`)."""
        ask_ahead(self.tables, Questions(joined, others, counts))

    def head(self) -> Head:
        """Return where the chains stand in this snapshot."""
        row = self.tables.get(schema.chain_head, LEDGER_ID)
        if row is None:
            raise LedgerCorrupt("the chain head is missing")
        return Head(*(row[name] for name in Head.__slots__))

    def log_tree(self) -> LogTree:
        """Return the Merkle tree over the rows of the log.

        Raises:
            LedgerCorrupt: the head has no frontier of that size.
        """
        row = self.tables.get(schema.chain_head, LEDGER_ID)
        if row is None:
            raise LedgerCorrupt("the chain head is missing")
        size = row["ec_sequence_number"]
        return LogTree(self.tables, size, frontier_of(size, row["frontier"]))

    def policy_row(self) -> Row:
        """Return the row of the policy generation in force; read once in a snapshot."""
        policy = self._policy
        if policy is None:
            [policy] = self.tables.scan(_POLICY_IN_FORCE)
            self._policy = policy
        return policy

    def policy_generation_id(self) -> str:
        """Return the policy generation in force."""
        return str(self.policy_row()["policy_generation_id"])

    def record(self, table: Table, key: str) -> Document | None:
        """Return the newest record of a typed store."""
        row = self.tables.get(table, key)
        return None if row is None else orjson.loads(row["record"])

    def node(self, node_id: str) -> Document | None:
        """Return a node's record."""
        return self.record(schema.nodes, node_id)

    def nodes(self, node_ids: Collection[str]) -> dict[str, Document]:
        """Return the records of those nodes that are there; what many are is not kept."""
        if len(node_ids) <= NODES_KEPT:
            records = ((node_id, self.node(node_id)) for node_id in node_ids)
            return {node_id: node for node_id, node in records if node is not None}
        rows = self.tables.scan(TableQuery(schema.nodes, any_of=("node_id", [*node_ids])))
        return {row["node_id"]: orjson.loads(row["record"]) for row in rows}

    def nodes_of_kind(self, node_kind: str, *, after: str | None, limit: int) -> list[Document]:
        """Return the records of a kind in the order of their ids."""
        rows = self.tables.scan(
            TableQuery(schema.nodes, {"node_kind": node_kind}, after=after, limit=limit)
        )
        return [orjson.loads(row["record"]) for row in rows]

    def overlay_nodes(self, target_ref: str, *, limit: int | None = None) -> list[Document]:
        """Return the nodes that put an overlay in force over a thing, or over a stretch of it."""
        where = {"overlay_in_force": 1, "overlay_target": target_ref}
        rows = self.tables.scan(TableQuery(schema.nodes, where, limit=limit))
        return [orjson.loads(row["record"]) for row in rows]

    def has_overlays(self) -> bool:
        """Tell whether any overlay is in force; read once in a snapshot."""
        if self._overlays is None:
            self._overlays = bool(self.tables.scan(_ANY_OVERLAY))
        return self._overlays

    def memberships_of(self, node_id: str) -> list[Document]:
        """Return a node's memberships of corpora, in whatever state they are."""
        rows = self.tables.scan(TableQuery(schema.corpus_membership_records, {"node_id": node_id}))
        return [orjson.loads(row["record"]) for row in rows]

    def membership(self, corpus_id: str, node_id: str) -> Document | None:
        """Return a node's membership of a corpus."""
        return self.record(*membership_key(corpus_id, node_id))

    def edges_out_of(self, node_id: str) -> list[Row]:
        """Return the edge rows that leave a node, removed ones included."""
        return self.tables.scan(TableQuery(schema.edges, {"source_node_id": node_id}))

    def edges_into(self, node_id: str) -> list[Row]:
        """Return the edge rows that lead to a node, removed ones included."""
        return self.tables.scan(TableQuery(schema.edges, {"target_node_id": node_id}))

    def standing_edges(self, node_id: str, *, limit: int) -> list[str]:
        """Return edges that leave a node or lead to it and were not removed, by their ids."""
        ends: dict[str, None] = {}
        for end in ("source_node_id", "target_node_id"):
            where = {end: node_id, "active": 1}
            # In the order of the index, which is that of the ids here as well.
            rows = self.tables.scan(TableQuery(schema.edges, where, order_by="active", limit=limit))
            ends |= dict.fromkeys(row["edge_id"] for row in rows)
        return sorted(ends)

    def standing_memberships(self, node_id: str, *, limit: int) -> list[str]:
        """Return a node's memberships that are neither rejected nor soft-deleted, by their ids."""
        where, order_by = {"node_id": node_id, "stands": 1}, "stands"
        table = schema.corpus_membership_records
        rows = self.tables.scan(TableQuery(table, where, order_by=order_by, limit=limit))
        return sorted(row["membership_id"] for row in rows)

    def views_of(self, node_id: str, *, limit: int) -> list[Document]:
        """Return the materialized views that show a node."""
        where = {"node_ref": node_id}
        # By their ids, which the index of a node's views has as well.
        rows = self.tables.scan(TableQuery(schema.materialized_views, where, limit=limit))
        return [orjson.loads(row["record"]) for row in rows]

    def input_edges(self, node_id: str) -> Iterator[Document]:
        """Yield the active edges through which a node's authority is fed, by edge id."""
        where = {"target_node_id": node_id}
        rows = self.tables.scan(TableQuery(schema.edges, where, limit=EDGES_AT_ONCE))
        while rows:
            for row in rows:
                if row["input_from"] is not None:
                    yield orjson.loads(row["record"])
            if len(rows) < EDGES_AT_ONCE:
                return
            after = rows[-1]["edge_id"]
            rows = self.tables.scan(
                TableQuery(schema.edges, where, after=after, limit=EDGES_AT_ONCE)
            )

    def input_sources(self, node_id: str, source_kind: str) -> list[str]:
        """Return the nodes of one kind that feed a node's authority."""
        where = {"input_from": source_kind, "target_node_id": node_id}
        return [row["source_node_id"] for row in self.tables.scan(TableQuery(schema.edges, where))]

    def blob(self, blob_ref: str) -> bytes | None:
        """Return content by its commitment, or None where it was erased."""
        row = self.tables.get(schema.blobs, blob_ref)
        return None if row is None else bytes(row["content"])

    def blob_opening(self, blob_ref: str) -> tuple[bytes, bytes] | None:
        """Return the salt and the content of a commitment, or None where it was erased."""
        row = self.tables.get(schema.blobs, blob_ref)
        return None if row is None else (bytes(row["salt"]), bytes(row["content"]))

    def pre_image(self, content_hash: str) -> bytes | None:
        """Return the state that an effect replaced, or None where it is not on record.

        Raises:
            LedgerCorrupt: when the bytes that are kept are not those of the digest.
        """
        row = self.tables.get(schema.pre_images, content_hash)
        if row is None:
            return None
        content = bytes(row["content"])
        if sha256_hex(content) != content_hash:
            raise LedgerCorrupt(f"the pre-image {content_hash} is not what its digest says")
        return content

    def log_rows(self, *, after: int = 0, limit: int = 1000) -> list[Row]:
        """Return log rows in sequence."""
        return self.tables.scan(TableQuery(schema.kernel_event_log, after=after, limit=limit))

    def log_entries(self, *, after: int, limit: int) -> list[LogEntry]:
        """Return the rows that follow a sequence, without their bytes."""
        names = ("ec_sequence_number", "semantic_intent", "operation_id", "committed_at")
        query = TableQuery(
            schema.kernel_event_log,
            columns=(*names, "envelope_payload_blob_ref"),
            order_by="ec_sequence_number",
            after=after,
            limit=limit,
        )
        rows = self.tables.scan(query)
        return [LogEntry(*row) for row in rows]

    def log_tail(self, limit: int) -> list[Row]:
        """Return the newest log rows, newest first."""
        return self.tables.scan(TableQuery(schema.kernel_event_log, descending=True, limit=limit))

    def log_row_at(self, ec_sequence_number: int) -> Row | None:
        """Return the log row with a sequence number."""
        return self.tables.get(schema.kernel_event_log, ec_sequence_number)

    def archived_at_us(self, ec_sequence_number: int) -> int | None:
        """Return when a row of the log was moved to the archive, in microseconds since 1970."""
        index, _ = segment_of(ec_sequence_number)
        newest = self.tables.scan(NEWEST_SEGMENT)
        if not newest or newest[0]["segment_index"] < index:
            return None
        row = self.tables.get(schema.archive_segments, index)
        return None if row is None else int(row["archived_at_us"])

    def has_written(self, before: Head, after: Head) -> bool:
        """Tell whether what took the chains from one head to another is on the record."""
        if after.ec_sequence_number > before.ec_sequence_number:
            row = self.log_row_at(after.ec_sequence_number)
            return row is not None and bool(row["row_hash"] == after.row_hash)
        if after.receipt_sequence > before.receipt_sequence:
            row = self.tables.get(schema.receipts, after.receipt_sequence)
            return row is not None and bool(row["receipt_hash"] == after.receipt_hash)
        return True

    def log_row_of(self, operation_id: str) -> Row | None:
        """Return the log row of an operation; of one that was superseded, the superseding row."""
        where, order_by = {"operation_id": operation_id}, "supersedes_sequence"
        rows = self.tables.scan(
            TableQuery(schema.kernel_event_log, where, order_by=order_by, descending=True, limit=1)
        )
        return rows[0] if rows else None

    def operations_on_record(self, operation_ids: Collection[str]) -> set[str]:
        """Return which of these operations are on the log, by one look into an index."""
        rows = self.tables.scan(
            TableQuery(schema.kernel_event_log, any_of=("operation_id", [*operation_ids]))
        )
        return {row["operation_id"] for row in rows}

    def sequences_caused_by(self, operation_id: str, *, after: int, limit: int) -> list[int]:
        """Return the log rows behind a place that name an operation among their causes."""
        where = {"parent_operation_id": operation_id}
        rows = self.tables.scan(TableQuery(schema.causal_parents, where, after=after, limit=limit))
        return [row["ec_sequence_number"] for row in rows]

    def epoch_rows(self, epoch_id: str, *, before: int | None = None, limit: int) -> list[Row]:
        """Return the log rows of an epoch, newest first, in front of a sequence."""
        where = {"commit_epoch_id": epoch_id}
        return self.tables.scan(
            TableQuery(schema.kernel_event_log, where, after=before, descending=True, limit=limit)
        )

    def rollback_under_way(self) -> Document | None:
        """Return where the rollback of an epoch stands that goes back in pages, if one does."""
        if self._under_way is None:
            rows = self.tables.scan(_UNDER_WAY)
            self._under_way = (orjson.loads(rows[0]["record"]) if rows else None,)
        return self._under_way[0]

    def epoch_marker(self, epoch_id: str, semantic_intent: str) -> Row | None:
        """Return the row that opened an epoch, or that closed it."""
        where = {"commit_epoch_id": epoch_id, "semantic_intent": semantic_intent}
        rows = self.tables.scan(TableQuery(schema.kernel_event_log, where, limit=1))
        return rows[0] if rows else None

    def envelope(self, operation_id: str) -> Document | None:
        """Return an envelope as it was submitted (kernel.read_envelope, §1.4).

        Where it was superseded, the superseding one; where it was not yet, a lite one.
        """
        row = self.log_row_of(operation_id)
        content = None if row is None else self.blob(row["envelope_payload_blob_ref"])
        return None if content is None else orjson.loads(content)

    def sound_envelope(self, operation_id: str) -> Document | None:
        """Return an envelope to compute from; of a quarantined row none, as of an erased one."""
        row = self.log_row_of(operation_id)
        if row is None or self.quarantines().over(row["ec_sequence_number"]) is not None:
            return None
        content = self.blob(row["envelope_payload_blob_ref"])
        return None if content is None else orjson.loads(content)

    def receipts_of(self, operation_id: str) -> list[Document]:
        """Return the durable receipts that name an operation, in the order of their chain."""
        rows = self.tables.scan(TableQuery(schema.receipts, {"operation_id": operation_id}))
        return [orjson.loads(row["receipt_bytes"]) for row in rows]

    def receipts_of_kind(self, receipt_kind: str, *, limit: int) -> list[Document]:
        """Return the newest durable receipts of a kind, newest first."""
        query = TableQuery(
            schema.receipts, {"receipt_kind": receipt_kind}, descending=True, limit=limit
        )
        rows = self.tables.scan(query)
        return [orjson.loads(row["receipt_bytes"]) for row in rows]

    def has_receipt(self, receipt_id: str) -> bool:
        """Tell whether a durable receipt with this id is on the record."""
        return bool(
            self.tables.scan(TableQuery(schema.receipts, {"receipt_id": receipt_id}, limit=1))
        )

    def receipt(self, receipt_id: str) -> Document | None:
        """Return a durable receipt, None where no such receipt is on the record."""
        rows = self.tables.scan(TableQuery(schema.receipts, {"receipt_id": receipt_id}, limit=1))
        return orjson.loads(rows[0]["receipt_bytes"]) if rows else None

    def receipt_rows(self, *, after: int, limit: int) -> list[Row]:
        """Return the rows of durable receipts in the order of their chain."""
        return self.tables.scan(
            TableQuery(schema.receipts, order_by="receipt_sequence", after=after, limit=limit)
        )

    def live_idempotency_record(self, key: str) -> Row | None:
        """Return the record of a key that still answers for it, which is in order its first."""
        # Not by the flag too: a batch reads ahead by the key alone.
        where, order_by = {"idempotency_key": key}, "archived"
        rows = self.tables.scan(
            TableQuery(schema.idempotency_records, where, order_by=order_by, limit=1)
        )
        return rows[0] if rows and not rows[0]["archived"] else None

    def open_requests_of(self, queue: str, item_key: str) -> list[Request]:
        """Return the requests for one item that have no outcome yet."""
        rows = self.tables.scan(requests_query(queue, item_key, is_open=True))
        return [Request.of_row(row) for row in rows]

    def open_priorities_of(self, queue: str, item_key: str) -> list[str]:
        """Return how urgent the requests for one item are that have no outcome yet."""
        rows = self.tables.scan(requests_query(queue, item_key, is_open=True))
        return [row["priority"] for row in rows]

    def open_requests(
        self, *, queue: str | None = None, after: int = 0, limit: int = 1000
    ) -> list[Request]:
        """Return requests without an outcome, of one queue or of all, as they were recorded."""
        query = first_open_query(queue, limit)._replace(after=after)
        return [Request.of_row(row) for row in self.tables.scan(query)]

    def open_request(self, request_id: str) -> Request | None:
        """Return a request of whatever queue, None where it has an outcome or is not known."""
        row = self.tables.get(schema.outbox, request_id)
        return Request.of_row(row) if row is not None and row["open"] else None

    def unknown_requests(self, request_ids: Sequence[str]) -> set[str]:
        """Return which of these requests were never recorded, or are on the record no longer."""
        rows = self.tables.scan(TableQuery(schema.outbox, any_of=("request_id", request_ids)))
        return set(request_ids) - {row["request_id"] for row in rows}

    def count_requests(self) -> int:
        """Return how many requests were ever recorded."""
        return self.head().request_sequence

    def count_open_requests(self, queue: str | None = None) -> int:
        """Return how many requests of a queue, or of all, have no outcome."""
        return self.tables.count(open_query(queue))

    def count_outcomes(self, outcome: str) -> int:
        """Return how many requests have had an outcome of a kind."""
        return sum(map(self.tables.count, outcome_queries(outcome)))

    def recorded_queues(self, *, after: int, limit: int) -> list[tuple[int, str]]:
        """Return the sequence and the queue of requests behind a sequence, in their order."""
        query = TableQuery(
            schema.outbox,
            columns=("request_sequence", "queue"),
            order_by="request_sequence",
            after=after,
            limit=limit,
        )
        rows = self.tables.scan(query)
        return [(sequence, queue) for sequence, queue in rows]

    def closed_requests(self, *, after: int, limit: int) -> list[Request]:
        """Return requests that had their outcome after an operation, in the order of outcomes."""
        outcomes = self.tables.scan(
            TableQuery(schema.outbox_outcomes, order_by="closed_sequence", after=after, limit=limit)
        )
        request_ids = [row["request_id"] for row in outcomes]
        rows = self.tables.scan(TableQuery(schema.outbox, any_of=("request_id", request_ids)))
        return [Request.of_row(row) for row in rows]

    def outcome_of(self, request_id: str) -> Row | None:
        """Return the outcome of a request, None while it is open."""
        return self.tables.get(schema.outbox_outcomes, request_id)

    def request_rows_of(self, queue: str, item_key: str) -> list[Row]:
        """Return every request for an item, open or not."""
        query = TableQuery(
            schema.outbox, {"queue": queue, "item_key": item_key}, order_by="request_sequence"
        )
        return self.tables.scan(query)

    def belief_events(
        self, session_id: str, *, first: int = 0, limit: int | None = None
    ) -> list[bytes]:
        """Return the stored audit entries of a belief session, in order, from one on."""
        query = TableQuery(
            schema.belief_events, {"session_id": session_id}, after=first - 1, limit=limit
        )
        rows = self.tables.scan(query)
        return [bytes(row["event_bytes"]) for row in rows]

    def belief_session(self, session_id: str) -> Row | None:
        """Return the summary row of a belief session."""
        return self.tables.get(schema.belief_sessions, session_id)

    def newest_belief_sessions(self, limit: int) -> list[Row]:
        """Return the summary rows of belief sessions, the last changed first."""
        query = TableQuery(
            schema.belief_sessions, order_by="updated_at_us", descending=True, limit=limit
        )
        return self.tables.scan(query)

    def belief_sessions_before(self, before: tuple[int, str] | None, *, limit: int) -> list[Row]:
        """Return the summary rows of belief sessions, the last changed first; or behind a place.

        A place is when a session changed and its id, because many may change with one commit.
        At least `limit` rows are returned where there are so many.
        """
        table, time_us = schema.belief_sessions, None
        rows: list[Row] = []
        if before is not None:
            time_us, session_id = before
            same_time = self.tables.scan(TableQuery(table, {"updated_at_us": time_us}))
            rows = [row for row in same_time if row["session_id"] < session_id]
        further = self.tables.scan(
            TableQuery(table, order_by="updated_at_us", after=time_us, descending=True, limit=limit)
        )
        if len(further) == limit:
            # Of those that changed last on this page there may be more than were read.
            last_us = further[-1]["updated_at_us"]
            further = [row for row in further if row["updated_at_us"] > last_us]
            further += self.tables.scan(TableQuery(table, {"updated_at_us": last_us}))
        rows += further
        return sorted(rows, key=lambda row: (row["updated_at_us"], row["session_id"]), reverse=True)

    def changed_belief_sessions(self, *, after_us: int, limit: int) -> list[Row]:
        """Return the summary rows of belief sessions that changed after a time, in its order."""
        query = TableQuery(
            schema.belief_sessions, order_by="updated_at_us", after=after_us, limit=limit
        )
        return self.tables.scan(query)

    def is_empty(self) -> bool:
        """Tell whether no table has a row: the ledger was not founded."""
        return not any(
            self.tables.scan(TableQuery(table, limit=1))
            for table in schema.metadata.tables.values()
        )

    def schema_faults(self) -> list[StorageFault]:
        """Return where the store's tables are not as this program makes them."""
        return self.tables.schema_faults()


class LedgerTransaction(LedgerView):
    """Writing, inside the one transaction that holds the head."""

    tables: Tables

    def __init__(self, tables: Tables, host: Host, kept: dict[Any, Any] | None = None) -> None:
        super().__init__(tables)
        self.host = host
        self.kept: dict[Any, Any] = {} if kept is None else kept
        """What the process keeps of the state between its transactions, by whoever keeps it."""

        self.peek = tables.peek if isinstance(tables, BufferedTables) else tables.get
        """Returns the row of a primary key as `get` does, for reading only."""

        self._known_nodes: Mapping[tuple[str | int, ...], Row | None] = (
            tables.buffered_rows(schema.nodes) if isinstance(tables, BufferedTables) else {}
        )
        self.head_now = super().head()
        self._begun_at = self.head_now.copy()
        self.begun_at_sequence = self.head_now.ec_sequence_number
        """The sequence of the last operation before this transaction."""

        self.requests_before = self.head_now.request_sequence
        """The sequence of the last request before this transaction."""

        self._decoded: dict[bytes, Document] = {}
        self.known_of_requests: dict[str, Any] = {}
        """What `kernel.authority.requests` has read; forgotten when a savepoint is undone."""

        self.known_of_bindings: dict[str, Any] = {}
        """What `kernel.records.active_bindings` has read; forgotten likewise."""

        self.wrote_bindings = False
        """Whether an operation wrote a binding, even one that was undone."""

        self._known_at: tuple[int, ...] = ()
        self._known: dict[Any, Any] = {}

    @cached_property
    def changes(self) -> RecentChanges:
        """What was written to the graph of late."""
        return RecentChanges(self.begun_at_sequence)

    def record(self, table: Table, key: str) -> Document | None:
        """Return the newest record of a typed store, the same object every time: for reading only.

        Bytes say the same as long as they exist, so what was decoded never has to be forgotten.
        """
        row = self.peek(table, key)
        if row is None:
            return None
        content = row["record"]
        document = self._decoded.get(content)
        if document is None:
            document = self._decoded[content] = orjson.loads(content)
        return document

    def node(self, node_id: str) -> Document | None:
        """Return a node's record, as `record` does; it is asked for most of all."""
        row = self._known_nodes.get((node_id,)) or self.peek(schema.nodes, node_id)
        if row is None:
            return None
        return self._decoded.get(row["record"]) or self.record(schema.nodes, node_id)

    def forget_policy(self) -> None:
        """Read the policy generation again the next time: it may be another."""
        self._policy = None

    def forget_overlays(self) -> None:
        """Look for overlays again the next time: there may be others."""
        self._overlays = None

    def forget_rollback(self) -> None:
        """Look for a rollback that is under way again the next time: it may stand elsewhere."""
        self._under_way = None

    def forget_quarantines(self) -> None:
        """Read the quarantines again the next time: there may be others."""
        self._quarantines = None

    def head(self) -> Head:
        """Return the head as this transaction has advanced it."""
        return self.head_now

    def savepoint(self) -> AbstractContextManager[None]:
        """Undo the writes and the head's advance when an exception leaves the block."""
        before = self.head_now.copy()
        return self.tables.savepoint(lambda: self.stand_at(before))

    def stand_at(self, head: Head) -> None:
        """Go back to where the chains stood; what was read of the state since may be untrue."""
        self.head_now = head
        self.changes.cut(head.ec_sequence_number)
        self.forget_policy()
        self.forget_overlays()
        self.forget_rollback()
        self.forget_quarantines()
        self.known_of_requests.clear()
        self.known_of_bindings.clear()
        self._known_at = ()

    def head_cache(self) -> dict[Any, Any]:
        """Return what was found out since the head moved last, for the asker to add to."""
        head = self.head_now
        at = (head.ec_sequence_number, head.receipt_sequence, head.request_sequence)
        if at != self._known_at:
            self._known_at, self._known = at, {}
        return self._known

    def next_commit_time_us(self) -> int:
        """Return a time later than every commit before it, and advance the head's clock."""
        self.head_now.committed_at_us = max(self.host.now_us(), self.head_now.committed_at_us + 1)
        return self.head_now.committed_at_us

    def write_causes(self, sequence: int, operation_ids: Collection[str]) -> None:
        """Keep which operations the log row of a sequence names among its causes."""
        for name in dict.fromkeys(operation_ids):
            row = {"parent_operation_id": name, "ec_sequence_number": sequence}
            self.tables.append(schema.causal_parents, row)

    def put_blob(self, content: bytes) -> str:
        """Keep content under a salted commitment and return the commitment."""
        salt = self.host.random_bytes(SALT_BYTES)
        blob_ref = blob_commitment(salt, content)
        row = {"blob_ref": blob_ref, "salt": salt, "content": content}
        self.tables.append(schema.blobs, row)
        return blob_ref

    def drop_blob(self, blob_ref: str) -> None:
        """Erase content; who puts an answer and has its envelope refused takes it back."""
        self.tables.delete(schema.blobs, blob_ref)

    def _has_written(self) -> bool:
        return not isinstance(self.tables, BufferedTables) or self.tables.has_changes

    def write_head(self) -> None:
        """Store the head, the last write of a transaction; what differs never has the same head.

        A transaction that wrote, but advanced no chain and took no time, moves the clock on by a
        microsecond. So an equal head says that nobody has written.
        """
        if self.head_now == self._begun_at and self._has_written():
            self.head_now.committed_at_us += 1
        values = {name: getattr(self.head_now, name) for name in Head.__slots__}
        before, size = self.begun_at_sequence, self.head_now.ec_sequence_number
        # A fold moves its head over rows that lie elsewhere.
        if size > before and self.peek(schema.kernel_event_log, size) is not None:
            frontier = cast("Row", self.peek(schema.chain_head, LEDGER_ID))["frontier"]
            values["frontier"] = grow_tree(self.tables, frontier, before, size)
        self.tables.update(schema.chain_head, (LEDGER_ID,), values)


_Written = tuple[Head, tuple[Answered, ...]]
"""Where a transaction leaves the chains, and what it writes by name."""


@dataclass(slots=True)
class _Commit:
    """How far a transaction has come."""

    is_computed: bool = False
    """Whether its block has ended, so that from then on it is written."""

    summary: _Written | None = None


class Ledger:
    """The record: one writer at a time, any number of snapshots."""

    def __init__(self, store: Store, host: Host, archive: Archive | None = None) -> None:
        """Hold a store whose ledger exists; see `Ledger.create`.

        `archive` is where rows lie that have left the log; without it they cannot be read.
        """
        self.store = store
        self._late = store if isinstance(store, HeldLate) else None
        self.host = host
        self.archive = archive or NO_ARCHIVE
        self.kept: dict[Any, Any] = {}
        """What this process keeps of the state between transactions; each has it as `kept`."""

        self._replaceable: Replaceable | None = None
        self.watch_of_head: HeadWatch | None = None
        """What compares the record with the head that is known; None where nobody asked for it."""

        self.damage = DamageFound()
        """Damaged records that were met here; see `kernel/ledger/damage.py`."""

    @property
    def is_local(self) -> bool:
        """Whether a question to the store costs no round trip."""
        return self._late is None

    def watch(self, watch: HeadWatch) -> None:
        """Compare every transaction and every snapshot with the head that is known from now on."""
        self.watch_of_head = watch
        # To ask whether a store is of a kind costs more than all that is asked of it.
        self._replaceable = self.store if isinstance(self.store, Replaceable) else None
        if isinstance(self.store, LooksAhead):
            self.store.look_ahead(lambda: watch.known)

    @classmethod
    def create(cls, store: Store, host: Host, archive: Archive | None = None) -> "Ledger":
        """Open the ledger of a store, founding it with its genesis rows when it is new.

        The tree over the log is built where an older program has written the log without it.

        Raises:
            RulesVersionUnknown: when a newer program has written to it (K30).
            LedgerCorrupt: when there is no tree, and rows of the log are missing.
        """
        with store.transaction() as tables:
            head = tables.get(schema.chain_head, LEDGER_ID)
            if head is None:
                _write_genesis(tables)
            elif head["frontier"] is None:
                build_tree(tables)
            newest = tables.scan(TableQuery(schema.kernel_event_log, descending=True, limit=1))
            if newest and newest[0]["rules_version"] > RULES_VERSION:
                version = newest[0]["rules_version"]
                raise RulesVersionUnknown(
                    f"the ledger is written under version {version} of the rules, this program"
                    f" has {RULES_VERSION}: use a newer program"
                )
        return cls(store, host, archive)

    @contextmanager
    def transaction(self) -> Iterator[LedgerTransaction]:
        """Open the writing transaction; durable when the block has ended, else undone.

        Raises:
            LedgerUnavailable: when the lock was not had in time.
            CommitOutcomeUnknown: when COMMIT failed (K25).
        """
        self._expect_sound()
        with self._note_commit() as commit, self.store.transaction() as tables:
            buffer = BufferedTables(with_archive(tables, self.archive))
            transaction = LedgerTransaction(buffer, self.host, self.kept)
            self._compare(buffer, transaction.head_now)
            yield transaction
            commit.is_computed = True
            transaction.write_head()
            commit.summary = self._commit_summary(transaction, buffer)
            write(buffer.changes(), tables)

    @contextmanager
    def optimistic_transaction(
        self,
        still: Callable[[], Sequence[Expected]] = tuple,
        questions: Callable[[], Questions] = lambda: NO_QUESTIONS,
    ) -> Iterator[LedgerTransaction]:
        """Open a writing transaction that holds the head only while it is written.

        The block computes it on a snapshot. When the block has ended, the head is locked and must
        stand where the snapshot had it, and so must the rows that `still` returns; then the
        transaction is written and committed (decision kernel/0255). The answers to `questions`
        come with the snapshot. Where the store cannot lock its head late, this is `transaction`.

        Raises:
            HeadMoved: others have written meanwhile, so nothing was written; compute it again.
            LedgerUnavailable: when the lock was not had in time.
            CommitOutcomeUnknown: when COMMIT failed (K25).
        """
        store = self._late
        if store is None:
            with self.transaction() as transaction:
                yield transaction
            return
        known = self._expect_sound()
        all_questions = questions()
        others = (*all_questions.others, *ASKED_BY_EACH)
        all_questions = all_questions._replace(others=others)
        with self._note_commit() as commit, store.turn(all_questions) as turn:
            buffer = BufferedTables(with_archive(turn.snapshot, self.archive))
            transaction = LedgerTransaction(buffer, self.host, self.kept)
            self._compare(turn.snapshot, transaction.head_now, known)
            before = transaction.head_now.copy()
            yield transaction
            commit.is_computed = True
            transaction.write_head()
            commit.summary = self._commit_summary(transaction, buffer)
            head = {name: getattr(before, name) for name in Head.__slots__}
            expected = [(schema.chain_head, {"ledger_id": LEDGER_ID, **head}), *still()]
            write(buffer.changes(), turn.hold(expected))

    @contextmanager
    def view(self) -> Iterator[LedgerView]:
        """Open a snapshot; what is read inside belongs to one sequence."""
        known = self._expect_sound()
        try:
            with self.store.view() as tables:
                self._compare(tables, None, known)
                archive = self.archive.of_snapshot()
                yield LedgerView(with_archive(tables, archive), archive)
        except Exception as error:
            self.damage.note(error)
            raise

    def read(self, question: Callable[[LedgerView], T]) -> T:
        """Answer a question from a snapshot; it may not keep the view."""
        with self.view() as view:
            return question(view)

    def rebuild_tree(self) -> LogTree:
        """Build the tree over the log anew from its rows, archived ones included, and return it.

        Raises:
            LedgerCorrupt: when rows of the log are missing.
        """
        with self.store.transaction() as tables:
            return build_tree(with_archive(tables, self.archive))

    def settle_outcome(self) -> None:
        """Know that the last COMMIT of unknown outcome is on the record."""
        if self.watch_of_head is not None:
            self.watch_of_head.settle()

    def close(self) -> None:
        """Release the store."""
        self.store.close()

    def _expect_sound(self) -> Head | None:
        watch = self.watch_of_head
        if watch is None:
            return None
        if self._replaceable is not None and self._replaceable.is_replaced():
            watch.halt("file_replaced")
        return watch.expect_sound()

    def _compare(self, tables: TablesView, now: Head | None, known: Head | None = None) -> None:
        """Compare what was opened with a head that was known before, under the lock with the known.

        Raises:
            LedgerWentBack: the record is not the one that was answered from.
        """
        watch = self.watch_of_head
        if watch is None:
            return
        ahead: Ahead | None = getattr(tables, "ahead", None)
        if ahead is not None:
            known, look = ahead.known, ahead.look
        else:
            known = known or watch.known
            now = now or LedgerView(tables).head()
            if now == known:
                return
            look = HeadLook(now.copy(), None, None, finding_stands(tables))
        if known is not None:
            look = self._with_hashes(tables, known, look)
        watch.look(known, look)

    def _with_hashes(self, tables: TablesView, known: Head, look: HeadLook) -> HeadLook:
        """Return a look with the hashes at a known head, which may lie in the archive."""
        if None not in (look.row_hash, look.receipt_hash):
            return look
        row = tables.get(schema.kernel_event_log, known.ec_sequence_number)
        if row is None and known.ec_sequence_number <= look.now.ec_sequence_number:
            archived = with_archive(cast("Tables", tables), self.archive)
            row = archived.get(schema.kernel_event_log, known.ec_sequence_number)
        receipt = tables.get(schema.receipts, known.receipt_sequence)
        return look._replace(
            row_hash=None if row is None else row["row_hash"],
            receipt_hash=None if receipt is None else receipt["receipt_hash"],
        )

    @contextmanager
    def _note_commit(self) -> Iterator["_Commit"]:
        """Tell the watch what became of a transaction, and a refusal of what was written from it.

        Raises:
            LedgerCorrupt: a row that was new by construction is there already.
        """
        commit, watch = _Commit(), self.watch_of_head
        try:
            yield commit
        except DuplicateKey as error:
            if not commit.is_computed:
                raise
            raise LedgerCorrupt(f"what was to be new is there already: {error}") from error
        except CommitOutcomeUnknown:
            if watch is not None and commit.summary is not None:
                watch.doubt(*commit.summary)
            raise
        if watch is not None and commit.summary is not None:
            watch.note_commit(*commit.summary)

    def _commit_summary(
        self, transaction: LedgerTransaction, tables: BufferedTables
    ) -> _Written | None:
        if self.watch_of_head is None:
            return None
        return transaction.head_now.copy(), answers_in(tables, transaction.requests_before)


def build_tree(tables: Tables) -> LogTree:
    """Build the tree over the log anew from its rows, whatever was kept of it, and return it.

    The head's clock moves on by a microsecond, so a transaction that was computed meanwhile on the
    tree as it was is not written.

    Raises:
        LedgerCorrupt: when rows of the log are missing.
    """
    clock_us = LedgerView(tables).head().committed_at_us + 1
    values = {"frontier": build(tables), "committed_at_us": clock_us}
    tables.update(schema.chain_head, (LEDGER_ID,), values)
    return LedgerView(tables).log_tree()


def _write_genesis(tables: Tables) -> None:
    head = Head()
    tables.insert(
        schema.chain_head,
        {
            "ledger_id": LEDGER_ID,
            **{name: getattr(head, name) for name in Head.__slots__},
            "frontier": b"",
        },
    )
    tables.insert(
        schema.policy_snapshots,
        {
            "policy_generation_id": GENESIS_POLICY,
            "generation": 1,
            "in_force": 1,
            "record": canonicalize(_GENESIS_RECORD),
        },
    )


def requests_query(queue: str, item_key: str, *, is_open: bool) -> TableQuery:
    """Return the query of the requests for an item that have no outcome, or that have one."""
    where = {"queue": queue, "open": int(is_open), "item_key": item_key}
    return TableQuery(schema.outbox, where, order_by="request_sequence")


def open_query(queue: str | None = None) -> TableQuery:
    """Return the query of the requests of a queue, or of all, that have no outcome."""
    where: Document = {"state": OPEN} if queue is None else {"state": OPEN, "queue": queue}
    return TableQuery(schema.outbox, where)


def first_open_query(queue: str | None, limit: int) -> TableQuery:
    """Return the query of the first of those as they were recorded."""
    return open_query(queue)._replace(order_by="request_sequence", after=0, limit=limit)


def outcome_queries(outcome: str) -> list[TableQuery]:
    """Return the queries of the requests that have had an outcome of a kind."""
    return [TableQuery(schema.outbox, {"state": state}) for state in states_of(outcome)]
