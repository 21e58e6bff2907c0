"""Declares the tables of the ledger; every adapter reads columns, keys and uniqueness here.

Two sorts of table. Records of history are only ever appended; triggers refuse change. Records of
state hold the newest version of a thing and are a fold of the history: verification computes them
again and compares. In each, the column of bytes is the truth and was hashed as it stands; the
columns beside it are derived from it so that they can be looked up. Applied effects have no such
column: what is hashed is made of theirs (`applied_effects.py`).

Sequences are assigned by the kernel inside the transaction, never by the database.

Names (verbs, kinds, stores, outcomes) are data: the registry guards them when a row is written and
verification when it is read. A database checks what no registry can see: shape, keys, append-only
(decision kernel/0188). A table has the columns and indexes that a query needs, and an index the
rows that one can find by it (decisions kernel/0101, kernel/0261).
"""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from sqlalchemy import (
    CheckConstraint,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    UniqueConstraint,
)

from kernel.ledger.landscape_tables import landscape_tables
from kernel.ledger.store.storage import (
    DOCUMENTS,
    GRAPH,
    KERNEL,
    MATTERS,
    SHARING,
    StateStore,
    of_record,
    state,
)
from kernel.model.bindings.lifecycle import RECORDED_STEPS

SCHEMA_VERSION = 48
"""The newest revision of `migrations/`; `make baseline` and `make revision` count it up."""

PROGRAMS_FROM = 48
"""The oldest program that works on these tables: the `programs_from` of the newest revision."""

TABLES_FROM = 48
"""The oldest tables on which this program works: below its own where its step only takes away."""

NAME_MAX = 512
"""Characters of a name by which records of the same entity are looked up."""

metadata = MetaData()


def _fields(*names: str) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
    return lambda record: tuple(record[name] for name in names)


def _where_not_null(column: str) -> dict[str, Any]:
    """Keep rows without a value out of an index; who asks for a value finds it all the same."""
    is_stated = Column(column, String).isnot(None)
    return {"sqlite_where": is_stated, "postgresql_where": is_stated}


def _recorded_steps(prior: str, state: str, steps: Iterable[tuple[str, str]]) -> CheckConstraint:
    """Return the constraint by which the last step that a row states is one of these."""
    allowed = " OR ".join(
        f"{prior} = '{before}' AND {state} = '{after}'" for before, after in steps
    )
    return CheckConstraint(allowed)


def _in_force(record: dict[str, Any]) -> int:
    return int(record["state"] == "effective")


def _is_active(record: dict[str, Any]) -> int:
    return int(record["state"] == "active")


def _stands(record: dict[str, Any]) -> int:
    return int(record["state"] not in ("rejected", "soft_deleted"))


def _is_candidate(record: dict[str, Any]) -> int | None:
    return 1 if record["state"] == "candidate" else None


def _end(side: str) -> Callable[[dict[str, Any]], str | None]:
    return lambda record: record["payload"].get(f"{side}_filing_unit_id")


def document_of(payload: dict[str, Any]) -> str | None:
    """Return the document that a filing unit names; no name is longer than an index takes."""
    refs = (payload.get(name) for name in ("document_ref", "document_id"))
    names = (name for name in refs if isinstance(name, str) and "\x00" not in name)
    return next((name for name in names if 0 < len(name) <= NAME_MAX), None)


def _is_open(lifecycle_state: str) -> Callable[[dict[str, Any]], int | None]:
    def derive(record: dict[str, Any]) -> int | None:
        stated = record["payload"].get("lifecycle_state")
        return 1 if record["state"] == "active" and stated == lifecycle_state else None

    return derive


def _source_of_run(record: dict[str, Any]) -> str | None:
    stated = record.get("source_ref") if record["attempt_number"] == 1 else None
    return stated if isinstance(stated, str) and stated else None


chain_head = Table(
    "chain_head",
    metadata,
    Column("ledger_id", String, primary_key=True),
    Column("ec_sequence_number", Integer, nullable=False),
    Column("row_hash", String, nullable=False),
    Column("receipt_sequence", Integer, nullable=False),
    Column("receipt_hash", String, nullable=False),
    Column("request_sequence", Integer, nullable=False),
    Column("committed_at_us", Integer, nullable=False),
    # Of the tree over the rows (`log_tree.py`); null in an older ledger until the tree is built.
    Column("frontier", LargeBinary),
)

tree_tiles = Table(
    "tree_tiles",
    metadata,
    Column("tile_level", Integer, primary_key=True),
    Column("tile_index", Integer, primary_key=True),
    # One behind the other; of the lowest level 256.
    Column("hashes", LargeBinary, nullable=False),
)

policy_snapshots = Table(
    "policy_snapshots",
    metadata,
    Column("policy_generation_id", String, primary_key=True),
    Column("generation", Integer, nullable=False, unique=True, info=of_record("generation")),
    # 0 once the generation was reverted.
    Column("in_force", Integer, nullable=False, info=of_record(_in_force)),
    Column("record", LargeBinary, nullable=False),
    Index("policy_snapshots_in_force", "in_force", "generation"),
    info=state(
        StateStore(
            KERNEL,
            searched_by=(),
        )
    ),
)

kernel_event_log = Table(
    "kernel_event_log",
    metadata,
    Column("ec_sequence_number", Integer, primary_key=True),
    Column("operation_id", String, nullable=False),
    # The row of the lite operation whose place this one takes (K24); 0 where it takes none.
    Column("supersedes_sequence", Integer, nullable=False),
    # An operation has one row, and a second one only if that takes the place of the first.
    UniqueConstraint("operation_id", "supersedes_sequence"),
    Column("prior_row_hash", String, nullable=False, unique=True),
    Column("row_hash", String, nullable=False),
    # Under which version of the rules the row was recorded (K30).
    Column("rules_version", Integer, nullable=False),
    Column("row_bytes", LargeBinary, nullable=False),
    Column("envelope_payload_blob_ref", String, nullable=False),
    Column("semantic_intent", String, nullable=False),
    CheckConstraint("rules_version >= 1"),
    Column("session_id", String),
    Column("commit_epoch_id", String),
    Column("committed_at", String, nullable=False),
    Index(
        "kernel_event_log_by_session",
        "session_id",
        "ec_sequence_number",
        **_where_not_null("session_id"),
    ),
    Index("kernel_event_log_by_intent", "semantic_intent", "ec_sequence_number"),
    Index(
        "kernel_event_log_by_epoch",
        "commit_epoch_id",
        "ec_sequence_number",
        **_where_not_null("commit_epoch_id"),
    ),
    # Each operation in an epoch asks whether it is open. By the intent alone that costs more with
    # every epoch that was closed, by the epoch alone with every operation in it.
    Index(
        "kernel_event_log_by_epoch_intent",
        "commit_epoch_id",
        "semantic_intent",
        "ec_sequence_number",
        **_where_not_null("commit_epoch_id"),
    ),
    info={"append_only": True, "moves_to": "archived_rows"},
)

archived_rows = Table(
    "archived_rows",
    metadata,
    # What a row of the log that lies in a segment is looked up by; the rest is in the segment.
    Column("ec_sequence_number", Integer, primary_key=True),
    Column("operation_id", String, nullable=False),
    Column("supersedes_sequence", Integer, nullable=False),
    UniqueConstraint("operation_id", "supersedes_sequence"),
    Column("envelope_payload_blob_ref", String, nullable=False, index=True),
    Column("semantic_intent", String, nullable=False),
    Column("session_id", String),
    Column("commit_epoch_id", String),
    Column("committed_at", String, nullable=False),
    Index(
        "archived_rows_by_session",
        "session_id",
        "ec_sequence_number",
        **_where_not_null("session_id"),
    ),
    Index("archived_rows_by_intent", "semantic_intent", "ec_sequence_number"),
    Index(
        "archived_rows_by_epoch",
        "commit_epoch_id",
        "ec_sequence_number",
        **_where_not_null("commit_epoch_id"),
    ),
    info={"append_only": True},
)

archive_segments = Table(
    "archive_segments",
    metadata,
    # The index of the tile of the lowest level whose rows the segment holds.
    Column("segment_index", Integer, primary_key=True),
    # SHA-256 of the file, under which it lies in the archive.
    Column("content_hash", String, nullable=False),
    Column("stored_bytes", Integer, nullable=False),
    # How many envelopes it holds: of each row one, but for those that were erased.
    Column("envelopes", Integer, nullable=False),
    # 1 once the envelopes are in the segment alone.
    Column("collected", Integer, nullable=False),
    Column("archived_at_us", Integer, nullable=False),
    CheckConstraint("collected IN (0, 1)"),
    Index("archive_segments_by_collected", "collected", "segment_index"),
)

causal_parents = Table(
    "causal_parents",
    metadata,
    # What a row of the log names among its causes, by which the row is found from its cause.
    Column("parent_operation_id", String, primary_key=True),
    Column("ec_sequence_number", Integer, primary_key=True),
    info={"append_only": True},
)

blobs = Table(
    "blobs",
    metadata,
    Column("blob_ref", String, primary_key=True),
    Column("salt", LargeBinary, nullable=False),
    Column("content", LargeBinary, nullable=False),
)

applied_effects = Table(
    "applied_effects",
    metadata,
    Column("ec_sequence_number", Integer, primary_key=True),
    Column("ordinal", Integer, primary_key=True),
    Column("store", String, nullable=False),
    Column("record_key", String, nullable=False),
    Column("effect_id", String, nullable=False),
    Column("effect_kind", String, nullable=False),
    Column("canonical_kind", String, nullable=False),
    # Empty where there was, or is, no record.
    Column("pre_image_hash", LargeBinary, nullable=False),
    Column("post_image_hash", LargeBinary, nullable=False),
    Index("applied_effects_by_record", "store", "record_key", "ec_sequence_number"),
    info={"append_only": True},
)

pre_images = Table(
    "pre_images",
    metadata,
    Column("content_hash", String, primary_key=True),
    Column("content", LargeBinary, nullable=False),
)

receipts = Table(
    "receipts",
    metadata,
    Column("receipt_sequence", Integer, primary_key=True),
    Column("receipt_id", String, nullable=False, unique=True),
    Column("receipt_kind", String, nullable=False),
    Column("reason_code", String),
    Column("operation_id", String),
    Column("prior_receipt_hash", String, nullable=False),
    Column("receipt_hash", String, nullable=False, unique=True),
    Column("receipt_bytes", LargeBinary, nullable=False),
    Index("receipts_by_operation", "operation_id"),
    Index("receipts_by_kind", "receipt_kind", "receipt_sequence"),
    info={"append_only": True},
)

ephemeral_receipts = Table(
    "ephemeral_receipts",
    metadata,
    Column("receipt_id", String, primary_key=True),
    Column("receipt_kind", String, nullable=False),
    Column("operation_id", String),
    Column("expires_at_us", Integer, nullable=False, index=True),
    Column("receipt_bytes", LargeBinary, nullable=False),
)

idempotency_records = Table(
    "idempotency_records",
    metadata,
    Column("ec_sequence_number", Integer, primary_key=True),
    Column("idempotency_key", String, nullable=False),
    Column("content_digest", String, nullable=False),
    # Of the answer, what neither the log nor its effects say (`answers.py`): the hash that was
    # told, beside the log's own, and the kinds of the receipts.
    Column("row_hash", LargeBinary, nullable=False),
    Column("emitted_receipts", String, nullable=False),
    Column("expires_at_us", Integer, nullable=False),
    # 0 while the record answers for its key, afterwards its own sequence (decision kernel/0110).
    Column("archived", Integer, nullable=False),
    # One answer at a time: a second live record of a key cannot exist.
    UniqueConstraint("idempotency_key", "archived"),
)

nodes = Table(
    "nodes",
    metadata,
    Column("node_id", String, primary_key=True),
    Column("node_kind", String, nullable=False, info=of_record("node_kind")),
    # 1 while the node puts an access overlay in force; over what, or over a stretch of what.
    Column("overlay_in_force", Integer, nullable=False),
    Column("overlay_target", String),
    # What the node is about, where it says so; nodes that are about the same are one entity.
    Column(
        "identity_key", String, info=of_record(lambda record: record["payload"].get("identity_key"))
    ),
    Column("updated_at", String, nullable=False, info=of_record("updated_at")),
    Column("record", LargeBinary, nullable=False),
    Index("nodes_by_kind", "node_kind", "node_id"),
    Index(
        "nodes_by_overlay",
        "overlay_in_force",
        "overlay_target",
        **_where_not_null("overlay_target"),
    ),
    Index("nodes_by_identity", "identity_key", "updated_at", **_where_not_null("identity_key")),
    info=state(StateStore(GRAPH, holds_things=True)),
)

edges = Table(
    "edges",
    metadata,
    Column("edge_id", String, primary_key=True),
    Column("source_node_id", String, nullable=False, info=of_record("source_node_id")),
    Column("target_node_id", String, nullable=False, info=of_record("target_node_id")),
    # 1 while the edge stands, 0 once it was removed.
    Column("active", Integer, nullable=False, info=of_record(_is_active)),
    # The kind of node that feeds the target's authority through this edge, null for other edges.
    Column("input_from", String),
    Column("record", LargeBinary, nullable=False),
    Index("edges_by_target", "target_node_id", "input_from"),
    # What hangs on a node is asked for when it is retracted, however much was removed before.
    Index("edges_active_out_of", "source_node_id", "active"),
    Index("edges_active_into", "target_node_id", "active"),
    # The inputs of one node in pages, in the order of their digest.
    Index("edges_of_target", "target_node_id", "edge_id"),
    info=state(
        StateStore(
            GRAPH,
            holds_things=True,
            speaks_of=_fields("source_node_id", "target_node_id"),
        )
    ),
)

corpus_membership_records = Table(
    "corpus_membership_records",
    metadata,
    Column("membership_id", String, primary_key=True),
    Column("node_id", String, nullable=False, info=of_record("node_id")),
    # 1 unless the membership was rejected or soft-deleted.
    Column("stands", Integer, nullable=False, info=of_record(_stands)),
    Column("record", LargeBinary, nullable=False),
    # 1 while it waits to be confirmed or rejected, by which a look costs what waits.
    Column("is_open", Integer, info=of_record(_is_candidate)),
    Index("corpus_membership_records_of_node", "node_id", "stands"),
    Index(
        "corpus_membership_records_open", "is_open", "membership_id", **_where_not_null("is_open")
    ),
    info=state(StateStore(KERNEL, speaks_of=_fields("node_id", "corpus_id"))),
)

derived_indexes = Table(
    "derived_indexes",
    metadata,
    Column("entry_id", String, primary_key=True),
    Column("record", LargeBinary, nullable=False),
    info=state(
        StateStore(
            GRAPH,
            "derived_index",
            speaks_of=_fields("target_ref"),
        )
    ),
)

materialized_views = Table(
    "materialized_views",
    metadata,
    Column("view_id", String, primary_key=True),
    # The node that the view shows, where it says so.
    Column("node_ref", String, info=of_record(lambda record: record.get("node_ref"))),
    Column("record", LargeBinary, nullable=False),
    Index("materialized_views_of_node", "node_ref", "view_id"),
    info=state(
        StateStore(
            GRAPH,
            "atomic_view",
        )
    ),
)

membership_state_transitions = Table(
    "membership_state_transitions",
    metadata,
    Column("transition_id", String, primary_key=True),
    Column("record", LargeBinary, nullable=False),
    info=state(StateStore(KERNEL, written_once=True)),
)

filing_units = Table(
    "filing_units",
    metadata,
    Column("filing_unit_id", String, primary_key=True),
    # Where the unit says of which document it is.
    Column("document_ref", String, info=of_record(lambda record: document_of(record["payload"]))),
    Column("updated_at", String, nullable=False, info=of_record("updated_at")),
    Column("record", LargeBinary, nullable=False),
    Index(
        "filing_units_by_document", "document_ref", "updated_at", **_where_not_null("document_ref")
    ),
    info=state(
        StateStore(
            MATTERS,
            holds_things=True,
        )
    ),
)

filing_unit_versions = Table(
    "filing_unit_versions",
    metadata,
    Column("filing_unit_version_id", String, primary_key=True),
    Column("record", LargeBinary, nullable=False),
    info=state(StateStore(MATTERS, holds_things=True)),
)

filing_unit_text_versions = Table(
    "filing_unit_text_versions",
    metadata,
    Column("filing_unit_text_version_id", String, primary_key=True),
    Column("record", LargeBinary, nullable=False),
    info=state(StateStore(MATTERS, holds_things=True)),
)

filing_relationships = Table(
    "filing_relationships",
    metadata,
    Column("filing_relationship_id", String, primary_key=True),
    Column("record", LargeBinary, nullable=False),
    Column("source_filing_unit_id", String, info=of_record(_end("source"))),
    # Unknown where the other filing is not matched.
    Column("target_filing_unit_id", String, info=of_record(_end("target"))),
    # 1 while it waits to be confirmed or rejected, by which a look costs what waits.
    Column("is_open", Integer, info=of_record(_is_open("candidate"))),
    Index(
        "filing_relationships_open",
        "is_open",
        "filing_relationship_id",
        **_where_not_null("is_open"),
    ),
    Index(
        "filing_relationships_by_source",
        "source_filing_unit_id",
        **_where_not_null("source_filing_unit_id"),
    ),
    Index(
        "filing_relationships_by_target",
        "target_filing_unit_id",
        **_where_not_null("target_filing_unit_id"),
    ),
    info=state(StateStore(MATTERS)),
)

ruling_dispositions = Table(
    "ruling_dispositions",
    metadata,
    Column("ruling_disposition_id", String, primary_key=True),
    Column("record", LargeBinary, nullable=False),
    info=state(StateStore(MATTERS)),
)

court_disposition_observations = Table(
    "court_disposition_observations",
    metadata,
    Column("observation_id", String, primary_key=True),
    Column("record", LargeBinary, nullable=False),
    Column("is_open", Integer, info=of_record(_is_open("observed"))),
    Index(
        "court_disposition_observations_open",
        "is_open",
        "observation_id",
        **_where_not_null("is_open"),
    ),
    info=state(StateStore(MATTERS)),
)

case_resolution_events = Table(
    "case_resolution_events",
    metadata,
    Column("case_resolution_event_id", String, primary_key=True),
    Column("record", LargeBinary, nullable=False),
    info=state(StateStore(MATTERS)),
)

topic_assignments = Table(
    "topic_assignments",
    metadata,
    Column("topic_assignment_id", String, primary_key=True),
    Column("record", LargeBinary, nullable=False),
    info=state(
        StateStore(
            MATTERS,
            speaks_of=lambda record: (
                record["payload"].get("node_id"),
                record["payload"].get("topic_id"),
            ),
        )
    ),
)

binding_generation_snapshots = Table(
    "binding_generation_snapshots",
    metadata,
    Column("snapshot_id", String, primary_key=True),
    Column("binding_id", String, nullable=False, info=of_record("binding_id")),
    Column(
        "generation",
        Integer,
        nullable=False,
        info=of_record(lambda record: int(record["binding_generation_id"])),
    ),
    Column("in_force", Integer, nullable=False, info=of_record(_in_force)),
    Column("record", LargeBinary, nullable=False),
    UniqueConstraint("binding_id", "generation"),
    info=state(
        StateStore(
            KERNEL,
            searched_by=("binding_id",),
            speaks_of=_fields("binding_id"),
        )
    ),
)

binding_pairs = Table(
    "binding_pairs",
    metadata,
    # A digest of the generation, the event and the number of the evaluation (decision kernel/0281).
    Column("pair_id", String, primary_key=True),
    Column("binding_id", String, nullable=False),
    Column("binding_generation_id", String, nullable=False),
    Column("artifact_ref", String, nullable=False),
    Column("source_event_id", String, nullable=False),
    # From 1; a further evaluation of the same event is asked for when its inputs have changed.
    Column("evaluation_number", Integer, nullable=False),
    # The last step: from which state it led (empty at the beginning), and where to.
    Column("prior_state", String, nullable=False),
    Column("state", String, nullable=False),
    # The phase for which a pair waits, null once its artifact has passed it.
    Column("awaited_phase", String),
    # What the evaluation was asked for with, of all that its selectors look at; null before.
    Column("inputs_digest", String),
    Column("request_id", String),
    _recorded_steps("prior_state", "state", RECORDED_STEPS),
    Index("binding_pairs_of_event", "source_event_id", "binding_id"),
    Index(
        "binding_pairs_awaiting",
        "awaited_phase",
        "artifact_ref",
        **_where_not_null("awaited_phase"),
    ),
    Index("binding_pairs_by_request", "request_id", **_where_not_null("request_id")),
    Index("binding_pairs_by_state", "binding_id", "binding_generation_id", "state"),
    info={"folded": True, "steps": ("prior_state", "state", RECORDED_STEPS)},
)

routing_marks = Table(
    "routing_marks",
    metadata,
    # "binding|id" or "artifact|id": what is still to be routed, from where on. Goes at its end.
    Column("mark_id", String, primary_key=True),
    Column("routed_to", String, nullable=False),
    info={"folded": True},
)

extraction_attempts = Table(
    "extraction_attempts",
    metadata,
    Column("attempt_id", String, primary_key=True),
    Column("extraction_run_id", String, nullable=False, info=of_record("extraction_run_id")),
    Column("attempt_number", Integer, nullable=False, info=of_record("attempt_number")),
    # Of the first step of a run, by which the runs of a source are found.
    Column("source_ref", String, info=of_record(_source_of_run)),
    Column("current_state", String, nullable=False, info=of_record("current_state")),
    Column("record", LargeBinary, nullable=False),
    UniqueConstraint("extraction_run_id", "attempt_number"),
    Index(
        "extraction_attempts_by_source", "source_ref", "attempt_id", **_where_not_null("source_ref")
    ),
    Index("extraction_attempts_by_state", "current_state", "attempt_id"),
    info=state(
        StateStore(
            DOCUMENTS,
            searched_by=("extraction_run_id",),
            speaks_of=_fields("extraction_run_id"),
        )
    ),
)

running_extractions = Table(
    "running_extractions",
    metadata,
    # A row for each run that a worker performs and that is running.
    Column("extraction_run_id", String, primary_key=True),
    Column("source_ref", String, nullable=False),
    # 1 once a write has given the source another text; null before.
    Column("source_changed", Integer),
    Index("running_extractions_by_source", "source_ref"),
    Index(
        "running_extractions_of_changed_sources",
        "source_changed",
        "extraction_run_id",
        **_where_not_null("source_changed"),
    ),
    info={"folded": True},
)

document_artifacts = Table(
    "document_artifacts",
    metadata,
    Column("document_artifact_id", String, primary_key=True),
    Column("record", LargeBinary, nullable=False),
    info=state(StateStore(DOCUMENTS, holds_things=True)),
)

materializations = Table(
    "materializations",
    metadata,
    Column("materialization_id", String, primary_key=True),
    Column("record", LargeBinary, nullable=False),
    info=state(StateStore(DOCUMENTS, holds_things=True)),
)

operation_rollbacks = Table(
    "operation_rollbacks",
    metadata,
    Column("operation_id", String, primary_key=True),
    Column("record", LargeBinary, nullable=False),
    info={"folded": True},
)

rollbacks_under_way = Table(
    "rollbacks_under_way",
    metadata,
    # An epoch that goes back in pages, from the first of them to the last but one.
    Column("epoch_id", String, primary_key=True),
    Column("record", LargeBinary, nullable=False),
    info={"folded": True},
)

share_links = Table(
    "share_links",
    metadata,
    Column("share_link_id", String, primary_key=True),
    # Null until the token was issued.
    Column(
        "token_sha256",
        String,
        index=True,
        info=of_record(lambda record: record.get("token_sha256")),
    ),
    Column("record", LargeBinary, nullable=False),
    info=state(StateStore(SHARING)),
)

daily_operation_counts = Table(
    "daily_operation_counts",
    metadata,
    # "YYYY-MM-DD|operation_kind", the day in UTC.
    Column("day_and_kind", String, primary_key=True),
    Column("operation_count", Integer, nullable=False),
    Column("alerted", Integer, nullable=False),
    info={"folded": True},
)

run_operation_counts = Table(
    "run_operation_counts",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("operation_count", Integer, nullable=False),
    Column("alerted", Integer, nullable=False),
    info={"folded": True},
)

adjudications = Table(
    "adjudications",
    metadata,
    # The primary key is the promise: an item of the review queue is resolved once.
    Column("receipt_id", String, primary_key=True),
    Column("operation_id", String, nullable=False),
    Column("ec_sequence_number", Integer, nullable=False, index=True),
    Column("adjudicated_at", String, nullable=False),
    info={"folded": True},
)

recorded_model_outputs = Table(
    "recorded_model_outputs",
    metadata,
    Column("recorded_output_id", String, primary_key=True),
    Column(
        "output_payload_blob_ref",
        String,
        nullable=False,
        index=True,
        info=of_record("output_payload_blob_ref"),
    ),
    Column("record", LargeBinary, nullable=False),
    info=state(StateStore(KERNEL)),
)

outbox = Table(
    "outbox",
    metadata,
    Column("request_id", String, primary_key=True),
    Column("request_sequence", Integer, nullable=False, unique=True),
    Column("queue", String, nullable=False),
    Column("item_key", String, nullable=False),
    Column("priority", String, nullable=False),
    Column("cause_sequence", Integer, nullable=False),
    Column("open", Integer, nullable=False),
    # How it stands (`outbox.py`).
    Column("state", Integer, nullable=False),
    Column("enqueued_at_us", Integer, nullable=False),
    Column("request_bytes", LargeBinary, nullable=False),
    CheckConstraint("open IN (0, 1)"),
    CheckConstraint("state IN (0, 1, 2, 3, 4)"),
    # Of an item the open and the closed ones are asked for, each in their order; its states are
    # compared in the index.
    Index("outbox_by_item", "queue", "item_key", "open", "request_sequence", "state"),
    Index("outbox_by_state", "state", "queue", "request_sequence"),
)

dead_letters = Table(
    "dead_letters",
    metadata,
    # Why a request was given up; rows of no others.
    Column("request_sequence", Integer, primary_key=True),
    Column("queue", String, nullable=False),
    Column("error_signature", String, nullable=False),
    # 1 once it was requeued or dismissed.
    Column("settled", Integer, nullable=False),
    CheckConstraint("settled IN (0, 1)"),
    Index("dead_letters_by_signature", "settled", "queue", "error_signature", "request_sequence"),
)

outbox_outcomes = Table(
    "outbox_outcomes",
    metadata,
    # The primary key is the promise: a request has one outcome, and never a second.
    Column("request_id", String, primary_key=True),
    Column("outcome", String, nullable=False),
    Column("operation_id", String),
    Column("closed_sequence", Integer, nullable=False),
    Column("closed_at_us", Integer, nullable=False),
    Index("outbox_outcomes_by_sequence", "closed_sequence"),
    info={"append_only": True},
)

request_failures = Table(
    "request_failures",
    metadata,
    # Beside the record: how often a request was tried that did not succeed at once.
    Column("request_id", String, primary_key=True),
    Column("queue", String, nullable=False),
    Column("request_sequence", Integer, nullable=False),
    # Claims of it that were reported: those that failed, asked for a pause or were lost.
    Column("deliveries", Integer, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("snoozes", Integer, nullable=False),
    # Workers that ended while they worked on it alone.
    Column("worker_ends", Integer, nullable=False),
    # Attempts that were described, kept or not.
    Column("attempts", Integer, nullable=False),
    Column("first_started_at_us", Integer, nullable=False),
    # Of the newest attempt; null where it only asked for pauses.
    Column("error_signature", String),
    # The claim that was reported last: the same report once more changes nothing.
    Column("last_claim", String, nullable=False),
    # 1 while it waits by its policy; one that asked for its pause itself does not.
    Column("waits", Integer, nullable=False),
    Column("next_attempt_at_us", Integer, nullable=False),
    # Of the policy by which the pause was counted.
    Column("policy_version", String, nullable=False),
    CheckConstraint("waits IN (0, 1)"),
    Index(
        "request_failures_by_signature",
        "error_signature",
        "queue",
        "request_sequence",
        **_where_not_null("error_signature"),
    ),
    Index("request_failures_by_policy", "queue", "waits", "policy_version", "request_sequence"),
)

request_attempts = Table(
    "request_attempts",
    metadata,
    # Beside the record: attempts that failed, the first and the last ones of each request; and, by
    # the id of a recompute's operation, the attempt by which it was computed.
    Column("request_id", String, primary_key=True),
    # Counted from one; 0 of an operation.
    Column("attempt_number", Integer, primary_key=True),
    Column("attempt_bytes", LargeBinary, nullable=False),
)

request_tags = Table(
    "request_tags",
    metadata,
    # A row for each tag of a request; a request without tags has none.
    Column("request_sequence", Integer, primary_key=True),
    # "key=value".
    Column("tag", String, primary_key=True),
    Column("queue", String, nullable=False),
    # That of the request.
    Column("state", Integer, nullable=False),
    CheckConstraint("state IN (0, 1, 2, 3, 4)"),
    Index("request_tags_by_tag", "tag", "state", "queue", "request_sequence"),
)

bulk_operations = Table(
    "bulk_operations",
    metadata,
    # The operation of the log that decided it.
    Column("ec_sequence_number", Integer, primary_key=True),
    # 1 while requests are left, null once it has ended.
    Column("running", Integer),
    Column("record", LargeBinary, nullable=False),
    Index(
        "bulk_operations_running",
        "running",
        "ec_sequence_number",
        **_where_not_null("running"),
    ),
)

queue_pauses = Table(
    "queue_pauses",
    metadata,
    # "queue|priority", without a priority for the whole queue: a row for each pause that stands.
    Column("pause_key", String, primary_key=True),
    Column("queue", String, nullable=False),
    # Null for the whole queue.
    Column("priority", String),
    Column("paused_at_us", Integer, nullable=False),
    Column("decided_by", String, nullable=False),
    Column("reason", String, nullable=False),
)

queue_registrations = Table(
    "queue_registrations",
    metadata,
    # The newest registration of each queue that workers serve and that is no part of Rotulus.
    Column("queue", String, primary_key=True),
    Column("registered_at_us", Integer, nullable=False),
    Column("definition", LargeBinary, nullable=False),
)

access_grants = Table(
    "access_grants",
    metadata,
    # "principal|role|scope": a row for each grant that stands.
    Column("grant_key", String, primary_key=True),
    Column("principal", String, nullable=False),
    Column("role", String, nullable=False),
    Column("scope", String, nullable=False),
    # Up to which visibility class its holder reads.
    Column("clearance", String, nullable=False),
    Column("granted_at_us", Integer, nullable=False),
)

access_keys = Table(
    "access_keys",
    metadata,
    Column("key_id", String, primary_key=True),
    Column("principal", String, nullable=False),
    # SHA-256 of a secret of 32 random bytes.
    Column("secret_hash", String, nullable=False),
    Column("created_at_us", Integer, nullable=False, index=True),
    Column("expires_at_us", Integer, nullable=False, index=True),
    # The key with which somebody logged in; null of a key that is handed out.
    Column("opened_by", String, index=True),
)

chart_blocks = Table(
    "chart_blocks",
    metadata,
    # Beside the record: what gateways counted of late (`chart_blocks.py`). A row is a slot that is
    # written again when its time comes round.
    Column("sample_s", Integer, primary_key=True),
    Column("slot", Integer, primary_key=True),
    # Of the gateways that write, which one.
    Column("part", Integer, primary_key=True),
    Column("began_s", Integer, nullable=False),
    Column("samples", LargeBinary, nullable=False),
)

binding_evaluation_manifests = Table(
    "binding_evaluation_manifests",
    metadata,
    Column("manifest_id", String, primary_key=True),
    Column("source_event_id", String, nullable=False),
    Column("cycle", Integer, nullable=False),
    Column("operation_id", String, nullable=False),
    Column("ec_sequence_number", Integer, nullable=False),
    # A cycle of an event has one manifest, and never a second.
    UniqueConstraint("source_event_id", "cycle"),
    info={"folded": True},
)

binding_cycle_outcomes = Table(
    "binding_cycle_outcomes",
    metadata,
    # The outcomes that no manifest names yet, with the receipt that tells of each.
    Column("request_id", String, primary_key=True),
    Column("source_event_id", String, nullable=False, index=True),
    Column("receipt_id", String, nullable=False),
    info={"folded": True},
)

outcomes_to_review = Table(
    "outcomes_to_review",
    metadata,
    # The receipt of each outcome that a person has to look at, until it is settled.
    Column("receipt_id", String, primary_key=True),
    # The place of its request: the order of the queue.
    Column("request_sequence", Integer, nullable=False, unique=True),
    info={"folded": True},
)

belief_sessions = Table(
    "belief_sessions",
    metadata,
    Column("session_id", String, primary_key=True),
    Column("title", String, nullable=False),
    Column("n_universe", Integer, nullable=False),
    Column("n_survivors", Integer, nullable=False),
    Column("n_events", Integer, nullable=False),
    Column("head_event_hash", String, nullable=False),
    Column("survivors_shown", LargeBinary, nullable=False),
    Column("updated_at_us", Integer, nullable=False, index=True),
    Column("terminated", Integer),
    Column("successor_id", String),
)

belief_events = Table(
    "belief_events",
    metadata,
    Column("session_id", String, primary_key=True),
    Column("event_index", Integer, primary_key=True),
    Column("event_id", String, nullable=False, unique=True),
    Column("event_hash", String, nullable=False),
    Column("event_bytes", LargeBinary, nullable=False),
    info={"append_only": True},
)

belief_snapshots = Table(
    "belief_snapshots",
    metadata,
    # What replaying so many events came to; may be gone, for the events say the same.
    Column("session_id", String, primary_key=True),
    Column("n_events", Integer, primary_key=True),
    Column("snapshot_bytes", LargeBinary, nullable=False),
)

belief_anchors = Table(
    "belief_anchors",
    metadata,
    # Where the newest anchor in the log says that the session's chain ends.
    Column("session_id", String, primary_key=True),
    Column("n_events", Integer, nullable=False),
    Column("head_event_hash", String, nullable=False),
    Column("ec_sequence_number", Integer, nullable=False),
    Column("anchored_at_us", Integer, nullable=False),
    info={"folded": True},
)

audit_sessions = Table(
    "audit_sessions",
    metadata,
    # A session of thoughts (seed 002), as far as its operations on the log have brought it.
    Column("session_id", String, primary_key=True),
    Column("task_id", String, nullable=False),
    Column("state", String, nullable=False),
    Column("thought_count", Integer, nullable=False),
    # The content hash of the newest thought, 64 zeros before the first.
    Column("zeta_head", String, nullable=False),
    # How many of its first thoughts the newest reading of the chain has covered.
    Column("verified_count", Integer, nullable=False),
    # Of the tree that the seed builds and of that of RFC 6962: the roots of complete subtrees.
    Column("eta_frontier", LargeBinary, nullable=False),
    Column("rfc6962_frontier", LargeBinary, nullable=False),
    # Null until the session is finalized: its round, and the operation with its seal.
    Column("round_number", Integer),
    Column("seal_sequence", Integer),
    # Without its signatures, which stand beside it: each signer's public key and line of a note.
    Column("seal_bytes", LargeBinary),
    Column("signatures", LargeBinary),
    Index(
        "audit_sessions_by_round",
        "round_number",
        "seal_sequence",
        **_where_not_null("round_number"),
    ),
    info={"folded": True},
)

thought_records = Table(
    "thought_records",
    metadata,
    Column("session_id", String, primary_key=True),
    # Counted from one.
    Column("thought_sequence", Integer, primary_key=True),
    Column("thought_id", String, nullable=False),
    Column("content_hash", String, nullable=False),
    Column("record_bytes", LargeBinary, nullable=False),
    # The operation that recorded it.
    Column("ec_sequence_number", Integer, nullable=False),
    UniqueConstraint("session_id", "thought_id"),
    info={
        "append_only": True,
        "moves_to": "thought_segments",
        "moved_where": "session_id = OLD.session_id"
        " AND OLD.thought_sequence BETWEEN first_sequence AND last_sequence",
    },
)

merkle_nodes = Table(
    "merkle_nodes",
    metadata,
    Column("session_id", String, primary_key=True),
    # In the order in which nodes are known (decision kernel/0370).
    Column("node_index", Integer, primary_key=True),
    # 0 for the leaves.
    Column("level", Integer, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    # Null for a leaf; the same for a node that is paired with itself.
    Column("left_child_index", Integer),
    Column("right_child_index", Integer),
    info={
        "append_only": True,
        "moves_to": "thought_segments",
        "moved_where": "session_id = OLD.session_id"
        " AND OLD.node_index BETWEEN first_node AND last_node",
    },
)

thought_segments = Table(
    "thought_segments",
    metadata,
    # SHA-256 of the file, under which it lies in the archive.
    Column("content_hash", String, primary_key=True),
    Column("session_id", String, nullable=False),
    # The thoughts that it holds, and the nodes of the tree that are known with them.
    Column("first_sequence", Integer, nullable=False),
    Column("last_sequence", Integer, nullable=False),
    Column("first_node", Integer, nullable=False),
    Column("last_node", Integer, nullable=False),
    Column("stored_bytes", Integer, nullable=False),
    UniqueConstraint("session_id", "first_sequence"),
)

rounds = Table(
    "rounds",
    metadata,
    Column("round_number", Integer, primary_key=True),
    Column("genesis_bytes", LargeBinary, nullable=False),
    Column("opened_sequence", Integer, nullable=False),
    Column("opened_at_us", Integer, nullable=False),
    # How many sessions were finalized in it.
    Column("session_count", Integer, nullable=False),
    # Null while the round is open.
    Column("seal_bytes", LargeBinary),
    Column("signatures", LargeBinary),
    Column("sealed_sequence", Integer),
    info={"folded": True},
)

implication_detectors = Table(
    "implication_detectors",
    metadata,
    # How far each detector of implications has read (§19.1).
    Column("detector", String, primary_key=True),
    # The number of its newest run, which are counted over all detectors (K31).
    Column("implication_epoch", Integer, nullable=False),
    Column("after_sequence", Integer, nullable=False),
    Column("through_sequence", Integer, nullable=False),
    # The operation that recorded the run.
    Column("operation_id", String, nullable=False),
    Column("recorded_at_us", Integer, nullable=False),
    info={"folded": True},
)

implied_operations = Table(
    "implied_operations",
    metadata,
    # How many epochs lie between an implied operation and what set its chain off.
    Column("operation_id", String, primary_key=True),
    Column("detector", String, nullable=False),
    Column("implication_epoch", Integer, nullable=False),
    Column("chain_epochs", Integer, nullable=False),
    info={"folded": True},
)

implication_loops = Table(
    "implication_loops",
    metadata,
    # The digest of both.
    Column("loop_id", String, primary_key=True),
    Column("operation_kind", String, nullable=False),
    Column("target_ref", String, nullable=False),
    # In how many epochs in a row of one chain it was implied, and the last of them.
    Column("repetitions", Integer, nullable=False),
    Column("chain_epochs", Integer, nullable=False),
    info={"folded": True},
)

implication_halts = Table(
    "implication_halts",
    metadata,
    # A row for each halt that stands: the loop's id, or "detector:" and the detector's name.
    Column("halt_id", String, primary_key=True),
    Column("detector", String, nullable=False),
    Column("reason_code", String, nullable=False),
    # Null where the detector is halted.
    Column("operation_kind", String),
    Column("target_ref", String),
    # Why the detector is halted.
    Column("error_code", String),
    Column("operation_id", String, nullable=False),
    Column("halted_at_us", Integer, nullable=False),
    info={"folded": True},
)

shard_epochs = Table(
    "shard_epochs",
    metadata,
    # One row for each shard from the founding of the first gateway on.
    Column("shard", Integer, primary_key=True),
    # Raised whenever the shard changes hands; who holds an older one may not write for it.
    Column("epoch", Integer, nullable=False),
    # Empty while nobody holds it.
    Column("owner", String, nullable=False),
    Column("acquired_at_us", Integer, nullable=False),
)

mailbox_offsets = Table(
    "mailbox_offsets",
    metadata,
    Column("session_id", String, primary_key=True),
    # The mailbox that was read; a lost one has a successor with offsets of its own.
    Column("mailbox_id", String, nullable=False),
    # Entries up to this one, as text that sorts like them, have taken effect.
    Column("consumed_to", String, nullable=False),
)

gateway_keys = Table(
    "gateway_keys",
    metadata,
    # One row for each gateway that sends or reads mail. Nothing of it is secret.
    Column("gateway", String, primary_key=True),
    # The X25519 key of the process; its private half is in its memory alone.
    Column("public_key", LargeBinary, nullable=False),
    # The number of the mail's key that is sealed to it, 0 while it has none.
    Column("key_number", Integer, nullable=False),
    # HPKE (RFC 9180) of the mail's key under the public key.
    Column("sealed_key", LargeBinary, nullable=False),
)

ledger_ids = Table(
    "ledger_ids",
    metadata,
    # One row from the founding of the first gateway on.
    Column("ledger_id", String, primary_key=True),
)

LANDSCAPE_TABLES = landscape_tables(metadata)
"""Records of runs, in the order in which a run writes them."""

landscape_runs = metadata.tables["landscape_runs"]
landscape_payloads = metadata.tables["landscape_payloads"]
landscape_record_groups = metadata.tables["landscape_record_groups"]
landscape_seals = metadata.tables["landscape_seals"]


def _tables_with(sort: str) -> tuple[Table, ...]:
    return tuple(table for table in metadata.sorted_tables if table.info.get(sort))


STATE_TABLES = _tables_with("state")
"""The typed stores: what the log folds into."""

STORES = {str(table.name): table for table in STATE_TABLES}
"""The typed stores by name."""

FOLDED_TABLES = _tables_with("folded")
"""What the log folds into beside the typed stores: written by applying, by no effect."""

APPEND_ONLY_TABLES = _tables_with("append_only")
"""Whose rows are neither changed nor deleted; one of a table that `moves_to` another may be deleted
once the other has a row of its key, or one of which `moved_where` holds."""


@cache
def store_of(table: Table) -> StateStore | None:
    """Return what is known of a typed store; None of any other table."""
    store: StateStore | None = table.info.get("state")
    return store
