"""Declares the tables of runs (seed 003): what a pipeline did, beside the log (ruling L4).

They are no fold of the log. Rows of a run come and are completed while it runs; when it has ended,
the digests of its tables are stated by an operation, and `landscape_seals` holds what was stated:
that table is folded (decision kernel/0420). Every key begins with the run, and the column behind it
orders a table: so a run is read, exported and digested in one total order. Foreign keys see to it
that everything is there that a record names of its run (decision kernel/0478). The records of a run
that one transaction wrote are a group, and the groups are a chain (decision kernel/0610).

Its name and its `info` say what a column holds: `values` are those that it admits. `_hash` and
`_ref` are SHA-256 in hex, `_json` is canonical data, `_us` is microseconds.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sqlalchemy import (
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    text,
)
from sqlalchemy.schema import SchemaItem

RUN_STATUSES = ("running", "completed", "failed", "interrupted")
STATE_STATUSES = ("open", "pending", "completed", "failed")
OPERATION_TYPES = ("source_load", "sink_write")
OPERATION_STATUSES = ("open", "pending", "completed", "failed")
BATCH_STATUSES = ("draft", "executing", "completed", "failed")
TRIGGERS = ("count", "timeout", "condition", "end_of_source", "manual")
NODE_TYPES = ("source", "transform", "gate", "aggregation", "coalesce", "sink")
DETERMINISMS = (
    *("deterministic", "seeded", "io_read", "io_write"),
    *("external_call", "non_deterministic"),
)
MODES = ("move", "copy")
CALL_TYPES = ("llm", "http", "sql", "filesystem")
CALL_STATUSES = ("success", "error")
TERMINAL_OUTCOMES = (
    *("completed", "routed", "forked", "expanded"),
    *("consumed_in_batch", "coalesced", "quarantined", "failed"),
)
OUTCOMES = (*TERMINAL_OUTCOMES, "buffered")
GRADES = ("full_reproducible", "replay_reproducible", "attributable_only")
OUTPUT_TYPES = ("token", "artifact")

CHANGING: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "landscape_runs": ("status", "completed_at_us", "reproducibility_grade"),
        "landscape_node_states": (
            *("status", "output_hash", "output_ref", "context_after_json", "error_json"),
            *("success_reason_json", "completed_at_us", "duration_us"),
        ),
        "landscape_operations": (
            *("status", "output_data_ref", "error_message", "completed_at_us", "duration_us"),
        ),
        "landscape_batches": (
            *("aggregation_state_id", "trigger_type", "trigger_reason"),
            *("status", "completed_at_us"),
        ),
    }
)
"""The columns that a record may change until it is finished; every other one stays as written."""

_ONE_PARENT = (
    "state_id IS NOT NULL AND operation_id IS NULL OR state_id IS NULL AND operation_id IS NOT NULL"
)


def _text(name: str, values: tuple[str, ...] = ()) -> Column[Any]:
    return Column(name, String, nullable=False, info={"values": values} if values else {})


def _maybe(name: str, values: tuple[str, ...] = ()) -> Column[Any]:
    return Column(name, String, info={"values": values} if values else {})


def _number(name: str) -> Column[Any]:
    return Column(name, Integer, nullable=False)


def _maybe_number(name: str) -> Column[Any]:
    return Column(name, Integer)


def _unique_where(name: str, condition: str, *columns: str) -> Index:
    where = text(condition)
    return Index(name, *columns, unique=True, sqlite_where=where, postgresql_where=where)


def _refers(name: str, *columns: str) -> list[ForeignKeyConstraint]:
    """Return that columns name a record of a table of the same run; None names nothing."""
    table, key = f"landscape_{name}", _KEYS[name]
    return [
        ForeignKeyConstraint(
            ["run_id", *([] if key == "run_id" else [column])],
            [f"{table}.run_id", *([] if key == "run_id" else [f"{table}.{key}"])],
        )
        for column in columns
    ]


_KEYS = {
    "runs": "run_id",
    "nodes": "node_id",
    "edges": "edge_id",
    "rows": "row_id",
    "tokens": "token_id",
    "node_states": "state_id",
    "operations": "operation_id",
    "batches": "batch_id",
}


def landscape_tables(metadata: MetaData) -> tuple[Table, ...]:
    """Add the tables of runs; those of records in the order in which a run writes them."""

    def records(name: str, key: str, *parts: SchemaItem) -> Table:
        of_run = [] if key == "run_id" else [Column("run_id", String, primary_key=True)]
        key_column: Column[Any] = Column(key, String, primary_key=True)
        own = (*of_run, key_column, *parts)
        return Table(f"landscape_{name}", metadata, *own, info={"landscape": True})

    def by(table: str, *columns: str) -> Index:
        return Index(f"landscape_{table}_by_{columns[0]}", "run_id", *columns)

    tables = (
        records(
            "runs",
            "run_id",
            _text("status", RUN_STATUSES),
            _text("config_hash"),
            _text("settings_json"),
            _text("canonical_version"),
            _maybe("source_schema_json"),
            _maybe("source_field_resolution_json"),
            _number("started_at_us"),
            _maybe_number("completed_at_us"),
            # As it was at the end; a purge takes from it.
            _maybe("reproducibility_grade", GRADES),
            # After the end, and in no digest.
            Column("payloads_purged_at_us", Integer, info={"after_the_end": True}),
            Index("landscape_runs_by_start", "started_at_us"),
        ),
        records(
            "nodes",
            "node_id",
            *(_text("plugin_name"), _text("plugin_version")),
            _text("node_type", NODE_TYPES),
            _text("determinism", DETERMINISMS),
            *(_text("config_hash"), _text("config_json")),
            *(_maybe("schema_hash"), _maybe("schema_json")),
            _maybe_number("sequence_in_pipeline"),
            _number("registered_at_us"),
            *_refers("runs", "run_id"),
        ),
        records(
            "edges",
            "edge_id",
            *(_text("from_node_id"), _text("to_node_id"), _text("label")),
            _text("default_mode", MODES),
            _number("created_at_us"),
            UniqueConstraint("run_id", "from_node_id", "label"),
            *_refers("nodes", "from_node_id", "to_node_id"),
        ),
        records(
            "rows",
            "row_id",
            *(_text("source_node_id"), _number("row_index")),
            *(_text("source_data_hash"), _maybe("source_data_ref")),
            _number("created_at_us"),
            UniqueConstraint("run_id", "row_index"),
            *_refers("nodes", "source_node_id"),
        ),
        records(
            "tokens",
            "token_id",
            _text("row_id"),
            *(_maybe("fork_group_id"), _maybe("join_group_id"), _maybe("expand_group_id")),
            *(_maybe("branch_name"), _maybe_number("step_in_pipeline")),
            _number("created_at_us"),
            by("tokens", "row_id"),
            *_refers("rows", "row_id"),
        ),
        records(
            "token_parents",
            "link_id",
            *(_text("token_id"), _text("parent_token_id"), _number("ordinal")),
            UniqueConstraint("run_id", "token_id", "ordinal"),
            UniqueConstraint("run_id", "parent_token_id", "token_id"),
            *_refers("tokens", "parent_token_id", "token_id"),
        ),
        records(
            "node_states",
            "state_id",
            *(_text("token_id"), _text("node_id"), _number("step_index"), _number("attempt")),
            _text("status", STATE_STATUSES),
            *(_text("input_hash"), _maybe("input_ref")),
            *(_maybe("output_hash"), _maybe("output_ref")),
            *(_maybe("context_before_json"), _maybe("context_after_json")),
            *(_maybe("error_json"), _maybe("success_reason_json")),
            _number("started_at_us"),
            *(_maybe_number("completed_at_us"), _maybe_number("duration_us")),
            UniqueConstraint("run_id", "token_id", "node_id", "attempt"),
            UniqueConstraint("run_id", "token_id", "step_index", "attempt"),
            by("node_states", "node_id", "status"),
            *_refers("nodes", "node_id"),
            *_refers("tokens", "token_id"),
        ),
        records(
            "operations",
            "operation_id",
            _text("node_id"),
            _text("operation_type", OPERATION_TYPES),
            _text("status", OPERATION_STATUSES),
            *(_maybe("input_data_ref"), _maybe("output_data_ref"), _maybe("error_message")),
            _number("started_at_us"),
            *(_maybe_number("completed_at_us"), _maybe_number("duration_us")),
            by("operations", "node_id"),
            *_refers("nodes", "node_id"),
        ),
        records(
            "calls",
            "call_id",
            *(_maybe("state_id"), _maybe("operation_id"), _number("call_index")),
            _text("call_type", CALL_TYPES),
            _text("status", CALL_STATUSES),
            *(_text("request_hash"), _maybe("request_ref")),
            *(_maybe("response_hash"), _maybe("response_ref")),
            *(_maybe("error_json"), _maybe_number("latency_us")),
            _number("created_at_us"),
            CheckConstraint(_ONE_PARENT),
            by("calls", "request_hash"),
            _unique_where(
                "landscape_calls_of_states",
                "state_id IS NOT NULL",
                *("run_id", "state_id", "call_index"),
            ),
            _unique_where(
                "landscape_calls_of_operations",
                "operation_id IS NOT NULL",
                *("run_id", "operation_id", "call_index"),
            ),
            *_refers("operations", "operation_id"),
            *_refers("node_states", "state_id"),
        ),
        records(
            "routing_events",
            "event_id",
            *(_text("state_id"), _text("edge_id"), _text("routing_group_id"), _number("ordinal")),
            _text("mode", MODES),
            *(_maybe("reason_hash"), _maybe("reason_ref")),
            _number("created_at_us"),
            UniqueConstraint("run_id", "routing_group_id", "ordinal"),
            by("routing_events", "state_id"),
            *_refers("edges", "edge_id"),
            *_refers("node_states", "state_id"),
        ),
        records(
            "batches",
            "batch_id",
            *(_text("aggregation_node_id"), _maybe("aggregation_state_id")),
            *(_maybe("trigger_type", TRIGGERS), _maybe("trigger_reason")),
            *(_number("attempt"), _text("status", BATCH_STATUSES)),
            *(_number("created_at_us"), _maybe_number("completed_at_us")),
            *_refers("nodes", "aggregation_node_id"),
            *_refers("node_states", "aggregation_state_id"),
        ),
        records(
            "batch_members",
            "member_id",
            *(_text("batch_id"), _text("token_id"), _number("ordinal")),
            UniqueConstraint("run_id", "batch_id", "ordinal"),
            UniqueConstraint("run_id", "token_id", "batch_id"),
            *_refers("batches", "batch_id"),
            *_refers("tokens", "token_id"),
        ),
        records(
            "batch_outputs",
            "batch_output_id",
            *(_text("batch_id"), _text("output_type", OUTPUT_TYPES), _text("output_id")),
            UniqueConstraint("run_id", "batch_id", "output_type", "output_id"),
            *_refers("batches", "batch_id"),
        ),
        records(
            "artifacts",
            "artifact_id",
            *(_text("produced_by_state_id"), _text("sink_node_id"), _text("artifact_type")),
            *(_text("path_or_uri"), _text("content_hash"), _number("size_bytes")),
            *(_maybe("idempotency_key"), _number("created_at_us")),
            by("artifacts", "produced_by_state_id"),
            *_refers("node_states", "produced_by_state_id"),
            *_refers("nodes", "sink_node_id"),
        ),
        records(
            "validation_errors",
            "error_id",
            *(_maybe("node_id"), _text("row_hash"), _maybe("row_data_json")),
            *(_text("error"), _text("schema_mode"), _text("destination")),
            _number("created_at_us"),
            by("validation_errors", "row_hash"),
            *_refers("nodes", "node_id"),
            *_refers("runs", "run_id"),
        ),
        records(
            "transform_errors",
            "error_id",
            *(_text("token_id"), _text("transform_id"), _text("row_hash")),
            *(_maybe("row_data_json"), _maybe("error_details_json"), _text("destination")),
            _number("created_at_us"),
            by("transform_errors", "token_id"),
            *_refers("tokens", "token_id"),
            *_refers("nodes", "transform_id"),
        ),
        records(
            "token_outcomes",
            "outcome_id",
            *(_text("token_id"), _text("outcome", OUTCOMES), _number("is_terminal")),
            *(_maybe("sink_name"), _maybe("batch_id"), _maybe("error_hash")),
            *(_maybe("fork_group_id"), _maybe("join_group_id"), _maybe("expand_group_id")),
            *(_maybe("context_json"), _maybe("expected_branches_json")),
            _number("recorded_at_us"),
            by("token_outcomes", "token_id"),
            _unique_where(
                "landscape_token_outcomes_terminal", "is_terminal = 1", "run_id", "token_id"
            ),
            *_refers("batches", "batch_id"),
            *_refers("tokens", "token_id"),
        ),
        records(
            "checkpoints",
            "checkpoint_id",
            *(_text("token_id"), _text("node_id"), _number("sequence_number")),
            _maybe("aggregation_state_json"),
            *(_text("topology_hash"), _text("node_config_hash"), _number("format_version")),
            _number("created_at_us"),
            UniqueConstraint("run_id", "sequence_number"),
            *_refers("nodes", "node_id"),
            *_refers("tokens", "token_id"),
        ),
    )
    Table(
        "landscape_payloads",
        metadata,
        # Of each run its own, so that a run's payloads go with it (decision kernel/0421).
        Column("run_id", String, primary_key=True),
        Column("content_hash", String, primary_key=True),
        Column("content", LargeBinary, nullable=False),
        *_refers("runs", "run_id"),
    )
    Table(
        "landscape_record_groups",
        metadata,
        # What one transaction wrote of a run: its bytes name the records, and the group before.
        Column("group_sequence", Integer, primary_key=True),
        Column("run_id", String, nullable=False),
        Column("prior_group_hash", String, nullable=False),
        Column("group_hash", String, nullable=False),
        Column("group_bytes", LargeBinary, nullable=False),
        Index("landscape_record_groups_by_run", "run_id", "group_sequence"),
        info={"append_only": True},
    )
    Table(
        "landscape_seals",
        metadata,
        # What an operation states of a run that has ended.
        Column("run_id", String, primary_key=True),
        Column("record_count", Integer, nullable=False),
        Column("run_digest", String, nullable=False),
        # Canonical JSON: of each table the number of its records and their digest.
        Column("table_digests", LargeBinary, nullable=False),
        Column("ec_sequence_number", Integer, nullable=False),
        Column("sealed_at_us", Integer, nullable=False),
        info={"folded": True},
    )
    return tables
