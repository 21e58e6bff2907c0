"""References between records of runs."""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"

INTEGER = sa.Integer().with_variant(sa.BigInteger(), "postgresql")
TEXT = sa.String().with_variant(sa.String(collation="C"), "postgresql")

TABLES = (
    "landscape_nodes",
    "landscape_payloads",
    "landscape_edges",
    "landscape_operations",
    "landscape_rows",
    "landscape_validation_errors",
    "landscape_tokens",
    "landscape_checkpoints",
    "landscape_node_states",
    "landscape_token_parents",
    "landscape_transform_errors",
    "landscape_artifacts",
    "landscape_batches",
    "landscape_calls",
    "landscape_routing_events",
    "landscape_batch_members",
    "landscape_batch_outputs",
    "landscape_token_outcomes",
)
"""In an order in which each refers to those before it."""

REFERENCES = (
    ("landscape_nodes", "landscape_runs", ["run_id"], ["run_id"]),
    ("landscape_payloads", "landscape_runs", ["run_id"], ["run_id"]),
    ("landscape_edges", "landscape_nodes", ["run_id", "from_node_id"], ["run_id", "node_id"]),
    ("landscape_edges", "landscape_nodes", ["run_id", "to_node_id"], ["run_id", "node_id"]),
    ("landscape_operations", "landscape_nodes", ["run_id", "node_id"], ["run_id", "node_id"]),
    ("landscape_rows", "landscape_nodes", ["run_id", "source_node_id"], ["run_id", "node_id"]),
    (
        "landscape_validation_errors",
        "landscape_nodes",
        ["run_id", "node_id"],
        ["run_id", "node_id"],
    ),
    ("landscape_validation_errors", "landscape_runs", ["run_id"], ["run_id"]),
    ("landscape_tokens", "landscape_rows", ["run_id", "row_id"], ["run_id", "row_id"]),
    ("landscape_checkpoints", "landscape_nodes", ["run_id", "node_id"], ["run_id", "node_id"]),
    ("landscape_checkpoints", "landscape_tokens", ["run_id", "token_id"], ["run_id", "token_id"]),
    ("landscape_node_states", "landscape_nodes", ["run_id", "node_id"], ["run_id", "node_id"]),
    ("landscape_node_states", "landscape_tokens", ["run_id", "token_id"], ["run_id", "token_id"]),
    (
        "landscape_token_parents",
        "landscape_tokens",
        ["run_id", "parent_token_id"],
        ["run_id", "token_id"],
    ),
    ("landscape_token_parents", "landscape_tokens", ["run_id", "token_id"], ["run_id", "token_id"]),
    (
        "landscape_transform_errors",
        "landscape_nodes",
        ["run_id", "transform_id"],
        ["run_id", "node_id"],
    ),
    (
        "landscape_transform_errors",
        "landscape_tokens",
        ["run_id", "token_id"],
        ["run_id", "token_id"],
    ),
    (
        "landscape_artifacts",
        "landscape_node_states",
        ["run_id", "produced_by_state_id"],
        ["run_id", "state_id"],
    ),
    ("landscape_artifacts", "landscape_nodes", ["run_id", "sink_node_id"], ["run_id", "node_id"]),
    (
        "landscape_batches",
        "landscape_node_states",
        ["run_id", "aggregation_state_id"],
        ["run_id", "state_id"],
    ),
    (
        "landscape_batches",
        "landscape_nodes",
        ["run_id", "aggregation_node_id"],
        ["run_id", "node_id"],
    ),
    ("landscape_calls", "landscape_node_states", ["run_id", "state_id"], ["run_id", "state_id"]),
    (
        "landscape_calls",
        "landscape_operations",
        ["run_id", "operation_id"],
        ["run_id", "operation_id"],
    ),
    ("landscape_routing_events", "landscape_edges", ["run_id", "edge_id"], ["run_id", "edge_id"]),
    (
        "landscape_routing_events",
        "landscape_node_states",
        ["run_id", "state_id"],
        ["run_id", "state_id"],
    ),
    (
        "landscape_batch_members",
        "landscape_batches",
        ["run_id", "batch_id"],
        ["run_id", "batch_id"],
    ),
    ("landscape_batch_members", "landscape_tokens", ["run_id", "token_id"], ["run_id", "token_id"]),
    (
        "landscape_batch_outputs",
        "landscape_batches",
        ["run_id", "batch_id"],
        ["run_id", "batch_id"],
    ),
    (
        "landscape_token_outcomes",
        "landscape_batches",
        ["run_id", "batch_id"],
        ["run_id", "batch_id"],
    ),
    (
        "landscape_token_outcomes",
        "landscape_tokens",
        ["run_id", "token_id"],
        ["run_id", "token_id"],
    ),
)


def upgrade() -> None:
    """Go this step; a record that names one that is not there stops it, and nothing has changed."""
    if op.get_context().dialect.name == "sqlite":
        build_anew()
    else:
        for table, referred, columns, keys in REFERENCES:
            op.create_foreign_key(None, table, referred, list(columns), list(keys))
    op.create_index(
        "landscape_calls_by_request_hash", "landscape_calls", ["run_id", "request_hash"]
    )


def build_anew() -> None:
    """Build the tables anew, because SQLite adds no foreign key to one that is there."""
    for table in TABLES:
        op.rename_table(table, f"{table}_before")
    for index in (
        "landscape_operations_by_node_id",
        "landscape_validation_errors_by_row_hash",
        "landscape_tokens_by_row_id",
        "landscape_node_states_by_node_id",
        "landscape_transform_errors_by_token_id",
        "landscape_artifacts_by_produced_by_state_id",
        "landscape_calls_of_operations",
        "landscape_calls_of_states",
        "landscape_routing_events_by_state_id",
        "landscape_token_outcomes_by_token_id",
        "landscape_token_outcomes_terminal",
    ):
        op.execute(f"DROP INDEX {index}")
    create_tables()
    for table in TABLES:
        op.execute(f"INSERT INTO {table} SELECT * FROM {table}_before")  # noqa: S608 - names of the schema
    for table in TABLES[::-1]:
        op.drop_table(f"{table}_before")
    create_indexes()
    # No statement of SQLite's refuses by itself what `foreign_key_check` lists.
    op.execute("CREATE TABLE dangling_references (count INTEGER CHECK (count = 0))")
    op.execute("INSERT INTO dangling_references SELECT count(*) FROM pragma_foreign_key_check")
    op.execute("DROP TABLE dangling_references")


def create_tables() -> None:
    """Create the tables as they are from here on."""
    op.create_table(
        "landscape_nodes",
        sa.Column("run_id", TEXT, nullable=False),
        sa.Column("node_id", TEXT, nullable=False),
        sa.Column("plugin_name", TEXT, nullable=False),
        sa.Column("plugin_version", TEXT, nullable=False),
        sa.Column("node_type", TEXT, nullable=False),
        sa.Column("determinism", TEXT, nullable=False),
        sa.Column("config_hash", TEXT, nullable=False),
        sa.Column("config_json", TEXT, nullable=False),
        sa.Column("schema_hash", TEXT, nullable=True),
        sa.Column("schema_json", TEXT, nullable=True),
        sa.Column("sequence_in_pipeline", INTEGER, nullable=True),
        sa.Column("registered_at_us", INTEGER, nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"],
            ["landscape_runs.run_id"],
        ),
        sa.PrimaryKeyConstraint("run_id", "node_id"),
    )
    op.create_table(
        "landscape_payloads",
        sa.Column("run_id", TEXT, nullable=False),
        sa.Column("content_hash", TEXT, nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"],
            ["landscape_runs.run_id"],
        ),
        sa.PrimaryKeyConstraint("run_id", "content_hash"),
    )
    op.create_table(
        "landscape_edges",
        sa.Column("run_id", TEXT, nullable=False),
        sa.Column("edge_id", TEXT, nullable=False),
        sa.Column("from_node_id", TEXT, nullable=False),
        sa.Column("to_node_id", TEXT, nullable=False),
        sa.Column("label", TEXT, nullable=False),
        sa.Column("default_mode", TEXT, nullable=False),
        sa.Column("created_at_us", INTEGER, nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "from_node_id"],
            ["landscape_nodes.run_id", "landscape_nodes.node_id"],
        ),
        sa.ForeignKeyConstraint(
            ["run_id", "to_node_id"],
            ["landscape_nodes.run_id", "landscape_nodes.node_id"],
        ),
        sa.PrimaryKeyConstraint("run_id", "edge_id"),
        sa.UniqueConstraint("run_id", "from_node_id", "label"),
    )
    op.create_table(
        "landscape_operations",
        sa.Column("run_id", TEXT, nullable=False),
        sa.Column("operation_id", TEXT, nullable=False),
        sa.Column("node_id", TEXT, nullable=False),
        sa.Column("operation_type", TEXT, nullable=False),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("input_data_ref", TEXT, nullable=True),
        sa.Column("output_data_ref", TEXT, nullable=True),
        sa.Column("error_message", TEXT, nullable=True),
        sa.Column("started_at_us", INTEGER, nullable=False),
        sa.Column("completed_at_us", INTEGER, nullable=True),
        sa.Column("duration_us", INTEGER, nullable=True),
        sa.ForeignKeyConstraint(
            ["run_id", "node_id"],
            ["landscape_nodes.run_id", "landscape_nodes.node_id"],
        ),
        sa.PrimaryKeyConstraint("run_id", "operation_id"),
    )
    op.create_table(
        "landscape_rows",
        sa.Column("run_id", TEXT, nullable=False),
        sa.Column("row_id", TEXT, nullable=False),
        sa.Column("source_node_id", TEXT, nullable=False),
        sa.Column("row_index", INTEGER, nullable=False),
        sa.Column("source_data_hash", TEXT, nullable=False),
        sa.Column("source_data_ref", TEXT, nullable=True),
        sa.Column("created_at_us", INTEGER, nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "source_node_id"],
            ["landscape_nodes.run_id", "landscape_nodes.node_id"],
        ),
        sa.PrimaryKeyConstraint("run_id", "row_id"),
        sa.UniqueConstraint("run_id", "row_index"),
    )
    op.create_table(
        "landscape_validation_errors",
        sa.Column("run_id", TEXT, nullable=False),
        sa.Column("error_id", TEXT, nullable=False),
        sa.Column("node_id", TEXT, nullable=True),
        sa.Column("row_hash", TEXT, nullable=False),
        sa.Column("row_data_json", TEXT, nullable=True),
        sa.Column("error", TEXT, nullable=False),
        sa.Column("schema_mode", TEXT, nullable=False),
        sa.Column("destination", TEXT, nullable=False),
        sa.Column("created_at_us", INTEGER, nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "node_id"],
            ["landscape_nodes.run_id", "landscape_nodes.node_id"],
        ),
        sa.ForeignKeyConstraint(
            ["run_id"],
            ["landscape_runs.run_id"],
        ),
        sa.PrimaryKeyConstraint("run_id", "error_id"),
    )
    op.create_table(
        "landscape_tokens",
        sa.Column("run_id", TEXT, nullable=False),
        sa.Column("token_id", TEXT, nullable=False),
        sa.Column("row_id", TEXT, nullable=False),
        sa.Column("fork_group_id", TEXT, nullable=True),
        sa.Column("join_group_id", TEXT, nullable=True),
        sa.Column("expand_group_id", TEXT, nullable=True),
        sa.Column("branch_name", TEXT, nullable=True),
        sa.Column("step_in_pipeline", INTEGER, nullable=True),
        sa.Column("created_at_us", INTEGER, nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "row_id"],
            ["landscape_rows.run_id", "landscape_rows.row_id"],
        ),
        sa.PrimaryKeyConstraint("run_id", "token_id"),
    )
    op.create_table(
        "landscape_checkpoints",
        sa.Column("run_id", TEXT, nullable=False),
        sa.Column("checkpoint_id", TEXT, nullable=False),
        sa.Column("token_id", TEXT, nullable=False),
        sa.Column("node_id", TEXT, nullable=False),
        sa.Column("sequence_number", INTEGER, nullable=False),
        sa.Column("aggregation_state_json", TEXT, nullable=True),
        sa.Column("topology_hash", TEXT, nullable=False),
        sa.Column("node_config_hash", TEXT, nullable=False),
        sa.Column("format_version", INTEGER, nullable=False),
        sa.Column("created_at_us", INTEGER, nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "node_id"],
            ["landscape_nodes.run_id", "landscape_nodes.node_id"],
        ),
        sa.ForeignKeyConstraint(
            ["run_id", "token_id"],
            ["landscape_tokens.run_id", "landscape_tokens.token_id"],
        ),
        sa.PrimaryKeyConstraint("run_id", "checkpoint_id"),
        sa.UniqueConstraint("run_id", "sequence_number"),
    )
    op.create_table(
        "landscape_node_states",
        sa.Column("run_id", TEXT, nullable=False),
        sa.Column("state_id", TEXT, nullable=False),
        sa.Column("token_id", TEXT, nullable=False),
        sa.Column("node_id", TEXT, nullable=False),
        sa.Column("step_index", INTEGER, nullable=False),
        sa.Column("attempt", INTEGER, nullable=False),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("input_hash", TEXT, nullable=False),
        sa.Column("input_ref", TEXT, nullable=True),
        sa.Column("output_hash", TEXT, nullable=True),
        sa.Column("output_ref", TEXT, nullable=True),
        sa.Column("context_before_json", TEXT, nullable=True),
        sa.Column("context_after_json", TEXT, nullable=True),
        sa.Column("error_json", TEXT, nullable=True),
        sa.Column("success_reason_json", TEXT, nullable=True),
        sa.Column("started_at_us", INTEGER, nullable=False),
        sa.Column("completed_at_us", INTEGER, nullable=True),
        sa.Column("duration_us", INTEGER, nullable=True),
        sa.ForeignKeyConstraint(
            ["run_id", "node_id"],
            ["landscape_nodes.run_id", "landscape_nodes.node_id"],
        ),
        sa.ForeignKeyConstraint(
            ["run_id", "token_id"],
            ["landscape_tokens.run_id", "landscape_tokens.token_id"],
        ),
        sa.PrimaryKeyConstraint("run_id", "state_id"),
        sa.UniqueConstraint("run_id", "token_id", "node_id", "attempt"),
        sa.UniqueConstraint("run_id", "token_id", "step_index", "attempt"),
    )
    op.create_table(
        "landscape_token_parents",
        sa.Column("run_id", TEXT, nullable=False),
        sa.Column("link_id", TEXT, nullable=False),
        sa.Column("token_id", TEXT, nullable=False),
        sa.Column("parent_token_id", TEXT, nullable=False),
        sa.Column("ordinal", INTEGER, nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "parent_token_id"],
            ["landscape_tokens.run_id", "landscape_tokens.token_id"],
        ),
        sa.ForeignKeyConstraint(
            ["run_id", "token_id"],
            ["landscape_tokens.run_id", "landscape_tokens.token_id"],
        ),
        sa.PrimaryKeyConstraint("run_id", "link_id"),
        sa.UniqueConstraint("run_id", "parent_token_id", "token_id"),
        sa.UniqueConstraint("run_id", "token_id", "ordinal"),
    )
    op.create_table(
        "landscape_transform_errors",
        sa.Column("run_id", TEXT, nullable=False),
        sa.Column("error_id", TEXT, nullable=False),
        sa.Column("token_id", TEXT, nullable=False),
        sa.Column("transform_id", TEXT, nullable=False),
        sa.Column("row_hash", TEXT, nullable=False),
        sa.Column("row_data_json", TEXT, nullable=True),
        sa.Column("error_details_json", TEXT, nullable=True),
        sa.Column("destination", TEXT, nullable=False),
        sa.Column("created_at_us", INTEGER, nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "token_id"],
            ["landscape_tokens.run_id", "landscape_tokens.token_id"],
        ),
        sa.ForeignKeyConstraint(
            ["run_id", "transform_id"],
            ["landscape_nodes.run_id", "landscape_nodes.node_id"],
        ),
        sa.PrimaryKeyConstraint("run_id", "error_id"),
    )
    op.create_table(
        "landscape_artifacts",
        sa.Column("run_id", TEXT, nullable=False),
        sa.Column("artifact_id", TEXT, nullable=False),
        sa.Column("produced_by_state_id", TEXT, nullable=False),
        sa.Column("sink_node_id", TEXT, nullable=False),
        sa.Column("artifact_type", TEXT, nullable=False),
        sa.Column("path_or_uri", TEXT, nullable=False),
        sa.Column("content_hash", TEXT, nullable=False),
        sa.Column("size_bytes", INTEGER, nullable=False),
        sa.Column("idempotency_key", TEXT, nullable=True),
        sa.Column("created_at_us", INTEGER, nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "produced_by_state_id"],
            ["landscape_node_states.run_id", "landscape_node_states.state_id"],
        ),
        sa.ForeignKeyConstraint(
            ["run_id", "sink_node_id"],
            ["landscape_nodes.run_id", "landscape_nodes.node_id"],
        ),
        sa.PrimaryKeyConstraint("run_id", "artifact_id"),
    )
    op.create_table(
        "landscape_batches",
        sa.Column("run_id", TEXT, nullable=False),
        sa.Column("batch_id", TEXT, nullable=False),
        sa.Column("aggregation_node_id", TEXT, nullable=False),
        sa.Column("aggregation_state_id", TEXT, nullable=True),
        sa.Column("trigger_type", TEXT, nullable=True),
        sa.Column("trigger_reason", TEXT, nullable=True),
        sa.Column("attempt", INTEGER, nullable=False),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("created_at_us", INTEGER, nullable=False),
        sa.Column("completed_at_us", INTEGER, nullable=True),
        sa.ForeignKeyConstraint(
            ["run_id", "aggregation_node_id"],
            ["landscape_nodes.run_id", "landscape_nodes.node_id"],
        ),
        sa.ForeignKeyConstraint(
            ["run_id", "aggregation_state_id"],
            ["landscape_node_states.run_id", "landscape_node_states.state_id"],
        ),
        sa.PrimaryKeyConstraint("run_id", "batch_id"),
    )
    op.create_table(
        "landscape_calls",
        sa.Column("run_id", TEXT, nullable=False),
        sa.Column("call_id", TEXT, nullable=False),
        sa.Column("state_id", TEXT, nullable=True),
        sa.Column("operation_id", TEXT, nullable=True),
        sa.Column("call_index", INTEGER, nullable=False),
        sa.Column("call_type", TEXT, nullable=False),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("request_hash", TEXT, nullable=False),
        sa.Column("request_ref", TEXT, nullable=True),
        sa.Column("response_hash", TEXT, nullable=True),
        sa.Column("response_ref", TEXT, nullable=True),
        sa.Column("error_json", TEXT, nullable=True),
        sa.Column("latency_us", INTEGER, nullable=True),
        sa.Column("created_at_us", INTEGER, nullable=False),
        sa.CheckConstraint(
            "state_id IS NOT NULL AND operation_id IS NULL OR state_id IS NULL AND operation_id IS NOT NULL"
        ),
        sa.ForeignKeyConstraint(
            ["run_id", "operation_id"],
            ["landscape_operations.run_id", "landscape_operations.operation_id"],
        ),
        sa.ForeignKeyConstraint(
            ["run_id", "state_id"],
            ["landscape_node_states.run_id", "landscape_node_states.state_id"],
        ),
        sa.PrimaryKeyConstraint("run_id", "call_id"),
    )
    op.create_table(
        "landscape_routing_events",
        sa.Column("run_id", TEXT, nullable=False),
        sa.Column("event_id", TEXT, nullable=False),
        sa.Column("state_id", TEXT, nullable=False),
        sa.Column("edge_id", TEXT, nullable=False),
        sa.Column("routing_group_id", TEXT, nullable=False),
        sa.Column("ordinal", INTEGER, nullable=False),
        sa.Column("mode", TEXT, nullable=False),
        sa.Column("reason_hash", TEXT, nullable=True),
        sa.Column("reason_ref", TEXT, nullable=True),
        sa.Column("created_at_us", INTEGER, nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "edge_id"],
            ["landscape_edges.run_id", "landscape_edges.edge_id"],
        ),
        sa.ForeignKeyConstraint(
            ["run_id", "state_id"],
            ["landscape_node_states.run_id", "landscape_node_states.state_id"],
        ),
        sa.PrimaryKeyConstraint("run_id", "event_id"),
        sa.UniqueConstraint("run_id", "routing_group_id", "ordinal"),
    )
    op.create_table(
        "landscape_batch_members",
        sa.Column("run_id", TEXT, nullable=False),
        sa.Column("member_id", TEXT, nullable=False),
        sa.Column("batch_id", TEXT, nullable=False),
        sa.Column("token_id", TEXT, nullable=False),
        sa.Column("ordinal", INTEGER, nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "batch_id"],
            ["landscape_batches.run_id", "landscape_batches.batch_id"],
        ),
        sa.ForeignKeyConstraint(
            ["run_id", "token_id"],
            ["landscape_tokens.run_id", "landscape_tokens.token_id"],
        ),
        sa.PrimaryKeyConstraint("run_id", "member_id"),
        sa.UniqueConstraint("run_id", "batch_id", "ordinal"),
        sa.UniqueConstraint("run_id", "token_id", "batch_id"),
    )
    op.create_table(
        "landscape_batch_outputs",
        sa.Column("run_id", TEXT, nullable=False),
        sa.Column("batch_output_id", TEXT, nullable=False),
        sa.Column("batch_id", TEXT, nullable=False),
        sa.Column("output_type", TEXT, nullable=False),
        sa.Column("output_id", TEXT, nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "batch_id"],
            ["landscape_batches.run_id", "landscape_batches.batch_id"],
        ),
        sa.PrimaryKeyConstraint("run_id", "batch_output_id"),
        sa.UniqueConstraint("run_id", "batch_id", "output_type", "output_id"),
    )
    op.create_table(
        "landscape_token_outcomes",
        sa.Column("run_id", TEXT, nullable=False),
        sa.Column("outcome_id", TEXT, nullable=False),
        sa.Column("token_id", TEXT, nullable=False),
        sa.Column("outcome", TEXT, nullable=False),
        sa.Column("is_terminal", INTEGER, nullable=False),
        sa.Column("sink_name", TEXT, nullable=True),
        sa.Column("batch_id", TEXT, nullable=True),
        sa.Column("error_hash", TEXT, nullable=True),
        sa.Column("fork_group_id", TEXT, nullable=True),
        sa.Column("join_group_id", TEXT, nullable=True),
        sa.Column("expand_group_id", TEXT, nullable=True),
        sa.Column("context_json", TEXT, nullable=True),
        sa.Column("expected_branches_json", TEXT, nullable=True),
        sa.Column("recorded_at_us", INTEGER, nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "batch_id"],
            ["landscape_batches.run_id", "landscape_batches.batch_id"],
        ),
        sa.ForeignKeyConstraint(
            ["run_id", "token_id"],
            ["landscape_tokens.run_id", "landscape_tokens.token_id"],
        ),
        sa.PrimaryKeyConstraint("run_id", "outcome_id"),
    )


def create_indexes() -> None:
    """Create their indexes."""
    op.create_index(
        "landscape_operations_by_node_id",
        "landscape_operations",
        ["run_id", "node_id"],
        unique=False,
    )
    op.create_index(
        "landscape_validation_errors_by_row_hash",
        "landscape_validation_errors",
        ["run_id", "row_hash"],
        unique=False,
    )
    op.create_index(
        "landscape_tokens_by_row_id", "landscape_tokens", ["run_id", "row_id"], unique=False
    )
    op.create_index(
        "landscape_node_states_by_node_id",
        "landscape_node_states",
        ["run_id", "node_id", "status"],
        unique=False,
    )
    op.create_index(
        "landscape_transform_errors_by_token_id",
        "landscape_transform_errors",
        ["run_id", "token_id"],
        unique=False,
    )
    op.create_index(
        "landscape_artifacts_by_produced_by_state_id",
        "landscape_artifacts",
        ["run_id", "produced_by_state_id"],
        unique=False,
    )
    op.create_index(
        "landscape_calls_of_operations",
        "landscape_calls",
        ["run_id", "operation_id", "call_index"],
        unique=True,
        sqlite_where=sa.text("operation_id IS NOT NULL"),
        postgresql_where=sa.text("operation_id IS NOT NULL"),
    )
    op.create_index(
        "landscape_calls_of_states",
        "landscape_calls",
        ["run_id", "state_id", "call_index"],
        unique=True,
        sqlite_where=sa.text("state_id IS NOT NULL"),
        postgresql_where=sa.text("state_id IS NOT NULL"),
    )
    op.create_index(
        "landscape_routing_events_by_state_id",
        "landscape_routing_events",
        ["run_id", "state_id"],
        unique=False,
    )
    op.create_index(
        "landscape_token_outcomes_by_token_id",
        "landscape_token_outcomes",
        ["run_id", "token_id"],
        unique=False,
    )
    op.create_index(
        "landscape_token_outcomes_terminal",
        "landscape_token_outcomes",
        ["run_id", "token_id"],
        unique=True,
        sqlite_where=sa.text("is_terminal = 1"),
        postgresql_where=sa.text("is_terminal = 1"),
    )


def downgrade() -> None:
    """Refuse."""
    raise NotImplementedError("the ledger's schema goes forward only")
