"""Baseline: the tables of the first release."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = None

INTEGER = sa.Integer().with_variant(sa.BigInteger(), "postgresql")
TEXT = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    """Go this step."""
    if op.get_context().dialect.name == "postgresql":
        op.execute(
            "CREATE FUNCTION rotulus_refuses() RETURNS trigger LANGUAGE plpgsql"
            " AS $$ BEGIN RAISE EXCEPTION 'append only'; END $$"
        )
    op.create_table(
        "adjudications",
        sa.Column("receipt_id", TEXT, nullable=False),
        sa.Column("operation_id", TEXT, nullable=False),
        sa.Column("ec_sequence_number", INTEGER, nullable=False),
        sa.Column("adjudicated_at", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("receipt_id"),
    )
    op.create_index(
        op.f("ix_adjudications_ec_sequence_number"),
        "adjudications",
        ["ec_sequence_number"],
        unique=False,
    )
    op.create_table(
        "applied_effects",
        sa.Column("ec_sequence_number", INTEGER, autoincrement=False, nullable=False),
        sa.Column("ordinal", INTEGER, autoincrement=False, nullable=False),
        sa.Column("store", TEXT, nullable=False),
        sa.Column("record_key", TEXT, nullable=False),
        sa.Column("effect_id", TEXT, nullable=False),
        sa.Column("effect_kind", TEXT, nullable=False),
        sa.Column("canonical_kind", TEXT, nullable=False),
        sa.Column("pre_image_hash", sa.LargeBinary(), nullable=False),
        sa.Column("post_image_hash", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("ec_sequence_number", "ordinal"),
    )
    op.create_index(
        "applied_effects_by_record",
        "applied_effects",
        ["store", "record_key", "ec_sequence_number"],
        unique=False,
    )
    op.create_table(
        "belief_anchors",
        sa.Column("session_id", TEXT, nullable=False),
        sa.Column("n_events", INTEGER, nullable=False),
        sa.Column("head_event_hash", TEXT, nullable=False),
        sa.Column("ec_sequence_number", INTEGER, nullable=False),
        sa.Column("anchored_at_us", INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("session_id"),
    )
    op.create_table(
        "belief_events",
        sa.Column("session_id", TEXT, nullable=False),
        sa.Column("event_index", INTEGER, autoincrement=False, nullable=False),
        sa.Column("event_id", TEXT, nullable=False),
        sa.Column("event_hash", TEXT, nullable=False),
        sa.Column("event_bytes", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("session_id", "event_index"),
        sa.UniqueConstraint("event_id"),
    )
    op.create_table(
        "belief_sessions",
        sa.Column("session_id", TEXT, nullable=False),
        sa.Column("title", TEXT, nullable=False),
        sa.Column("n_universe", INTEGER, nullable=False),
        sa.Column("n_survivors", INTEGER, nullable=False),
        sa.Column("n_events", INTEGER, nullable=False),
        sa.Column("head_event_hash", TEXT, nullable=False),
        sa.Column("survivors_shown", sa.LargeBinary(), nullable=False),
        sa.Column("updated_at_us", INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("session_id"),
    )
    op.create_index(
        op.f("ix_belief_sessions_updated_at_us"), "belief_sessions", ["updated_at_us"], unique=False
    )
    op.create_table(
        "belief_snapshots",
        sa.Column("session_id", TEXT, nullable=False),
        sa.Column("n_events", INTEGER, autoincrement=False, nullable=False),
        sa.Column("snapshot_bytes", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("session_id", "n_events"),
    )
    op.create_table(
        "binding_cycle_outcomes",
        sa.Column("request_id", TEXT, nullable=False),
        sa.Column("source_event_id", TEXT, nullable=False),
        sa.Column("receipt_id", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("request_id"),
    )
    op.create_index(
        op.f("ix_binding_cycle_outcomes_source_event_id"),
        "binding_cycle_outcomes",
        ["source_event_id"],
        unique=False,
    )
    op.create_table(
        "binding_evaluation_manifests",
        sa.Column("manifest_id", TEXT, nullable=False),
        sa.Column("source_event_id", TEXT, nullable=False),
        sa.Column("cycle", INTEGER, nullable=False),
        sa.Column("operation_id", TEXT, nullable=False),
        sa.Column("ec_sequence_number", INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("manifest_id"),
        sa.UniqueConstraint("source_event_id", "cycle"),
    )
    op.create_table(
        "binding_generation_snapshots",
        sa.Column("snapshot_id", TEXT, nullable=False),
        sa.Column("binding_id", TEXT, nullable=False),
        sa.Column("generation", INTEGER, nullable=False),
        sa.Column("in_force", INTEGER, nullable=False),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("snapshot_id"),
        sa.UniqueConstraint("binding_id", "generation"),
    )
    op.create_table(
        "binding_pairs",
        sa.Column("pair_id", TEXT, nullable=False),
        sa.Column("binding_id", TEXT, nullable=False),
        sa.Column("binding_generation_id", TEXT, nullable=False),
        sa.Column("artifact_ref", TEXT, nullable=False),
        sa.Column("source_event_id", TEXT, nullable=False),
        sa.Column("evaluation_number", INTEGER, nullable=False),
        sa.Column("prior_state", TEXT, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("awaited_phase", TEXT, nullable=True),
        sa.Column("inputs_digest", TEXT, nullable=True),
        sa.Column("request_id", TEXT, nullable=True),
        sa.CheckConstraint(
            "prior_state = '' AND state = 'pending_intake' OR prior_state = 'pending_intake' AND state = 'ready_to_evaluate' OR prior_state = 'ready_to_evaluate' AND state = 'evaluated' OR prior_state = 'evaluated' AND state = 'fired' OR prior_state = 'evaluated' AND state = 'matched_no_fire' OR prior_state = 'evaluated' AND state = 'no_match'"
        ),
        sa.PrimaryKeyConstraint("pair_id"),
    )
    op.create_index(
        "binding_pairs_awaiting",
        "binding_pairs",
        ["awaited_phase", "artifact_ref"],
        unique=False,
        sqlite_where=sa.text("awaited_phase IS NOT NULL"),
        postgresql_where=sa.text("awaited_phase IS NOT NULL"),
    )
    op.create_index(
        "binding_pairs_by_request",
        "binding_pairs",
        ["request_id"],
        unique=False,
        sqlite_where=sa.text("request_id IS NOT NULL"),
        postgresql_where=sa.text("request_id IS NOT NULL"),
    )
    op.create_index(
        "binding_pairs_by_state",
        "binding_pairs",
        ["binding_id", "binding_generation_id", "state"],
        unique=False,
    )
    op.create_index(
        "binding_pairs_of_event", "binding_pairs", ["source_event_id", "binding_id"], unique=False
    )
    op.create_table(
        "blobs",
        sa.Column("blob_ref", TEXT, nullable=False),
        sa.Column("salt", sa.LargeBinary(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("blob_ref"),
    )
    op.create_table(
        "case_resolution_events",
        sa.Column("case_resolution_event_id", TEXT, nullable=False),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("case_resolution_event_id"),
    )
    op.create_table(
        "causal_parents",
        sa.Column("parent_operation_id", TEXT, nullable=False),
        sa.Column("ec_sequence_number", INTEGER, autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("parent_operation_id", "ec_sequence_number"),
    )
    op.create_table(
        "chain_head",
        sa.Column("ledger_id", TEXT, nullable=False),
        sa.Column("ec_sequence_number", INTEGER, nullable=False),
        sa.Column("row_hash", TEXT, nullable=False),
        sa.Column("receipt_sequence", INTEGER, nullable=False),
        sa.Column("receipt_hash", TEXT, nullable=False),
        sa.Column("request_sequence", INTEGER, nullable=False),
        sa.Column("committed_at_us", INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("ledger_id"),
    )
    op.create_table(
        "corpus_membership_records",
        sa.Column("membership_id", TEXT, nullable=False),
        sa.Column("node_id", TEXT, nullable=False),
        sa.Column("stands", INTEGER, nullable=False),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("membership_id"),
    )
    op.create_index(
        "corpus_membership_records_of_node",
        "corpus_membership_records",
        ["node_id", "stands"],
        unique=False,
    )
    op.create_table(
        "court_disposition_observations",
        sa.Column("observation_id", TEXT, nullable=False),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("observation_id"),
    )
    op.create_table(
        "daily_operation_counts",
        sa.Column("day_and_kind", TEXT, nullable=False),
        sa.Column("operation_count", INTEGER, nullable=False),
        sa.Column("alerted", INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("day_and_kind"),
    )
    op.create_table(
        "derived_indexes",
        sa.Column("entry_id", TEXT, nullable=False),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("entry_id"),
    )
    op.create_table(
        "document_artifacts",
        sa.Column("document_artifact_id", TEXT, nullable=False),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("document_artifact_id"),
    )
    op.create_table(
        "edges",
        sa.Column("edge_id", TEXT, nullable=False),
        sa.Column("source_node_id", TEXT, nullable=False),
        sa.Column("target_node_id", TEXT, nullable=False),
        sa.Column("active", INTEGER, nullable=False),
        sa.Column("input_from", TEXT, nullable=True),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("edge_id"),
    )
    op.create_index("edges_active_into", "edges", ["target_node_id", "active"], unique=False)
    op.create_index("edges_active_out_of", "edges", ["source_node_id", "active"], unique=False)
    op.create_index("edges_by_target", "edges", ["target_node_id", "input_from"], unique=False)
    op.create_index("edges_of_target", "edges", ["target_node_id", "edge_id"], unique=False)
    op.create_table(
        "ephemeral_receipts",
        sa.Column("receipt_id", TEXT, nullable=False),
        sa.Column("receipt_kind", TEXT, nullable=False),
        sa.Column("operation_id", TEXT, nullable=True),
        sa.Column("expires_at_us", INTEGER, nullable=False),
        sa.Column("receipt_bytes", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("receipt_id"),
    )
    op.create_index(
        op.f("ix_ephemeral_receipts_expires_at_us"),
        "ephemeral_receipts",
        ["expires_at_us"],
        unique=False,
    )
    op.create_table(
        "extraction_attempts",
        sa.Column("attempt_id", TEXT, nullable=False),
        sa.Column("extraction_run_id", TEXT, nullable=False),
        sa.Column("attempt_number", INTEGER, nullable=False),
        sa.Column("source_ref", TEXT, nullable=True),
        sa.Column("current_state", TEXT, nullable=False),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("attempt_id"),
        sa.UniqueConstraint("extraction_run_id", "attempt_number"),
    )
    op.create_index(
        "extraction_attempts_by_source",
        "extraction_attempts",
        ["source_ref", "attempt_id"],
        unique=False,
        sqlite_where=sa.text("source_ref IS NOT NULL"),
        postgresql_where=sa.text("source_ref IS NOT NULL"),
    )
    op.create_index(
        "extraction_attempts_by_state",
        "extraction_attempts",
        ["current_state", "attempt_id"],
        unique=False,
    )
    op.create_table(
        "filing_relationships",
        sa.Column("filing_relationship_id", TEXT, nullable=False),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("filing_relationship_id"),
    )
    op.create_table(
        "filing_unit_text_versions",
        sa.Column("filing_unit_text_version_id", TEXT, nullable=False),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("filing_unit_text_version_id"),
    )
    op.create_table(
        "filing_unit_versions",
        sa.Column("filing_unit_version_id", TEXT, nullable=False),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("filing_unit_version_id"),
    )
    op.create_table(
        "filing_units",
        sa.Column("filing_unit_id", TEXT, nullable=False),
        sa.Column("document_ref", TEXT, nullable=True),
        sa.Column("updated_at", TEXT, nullable=False),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("filing_unit_id"),
    )
    op.create_index(
        "filing_units_by_document",
        "filing_units",
        ["document_ref", "updated_at"],
        unique=False,
        sqlite_where=sa.text("document_ref IS NOT NULL"),
        postgresql_where=sa.text("document_ref IS NOT NULL"),
    )
    op.create_table(
        "idempotency_records",
        sa.Column("ec_sequence_number", INTEGER, autoincrement=False, nullable=False),
        sa.Column("idempotency_key", TEXT, nullable=False),
        sa.Column("content_digest", TEXT, nullable=False),
        sa.Column("row_hash", sa.LargeBinary(), nullable=False),
        sa.Column("emitted_receipts", TEXT, nullable=False),
        sa.Column("expires_at_us", INTEGER, nullable=False),
        sa.Column("archived", INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("ec_sequence_number"),
        sa.UniqueConstraint("idempotency_key", "archived"),
    )
    op.create_table(
        "implication_detectors",
        sa.Column("detector", TEXT, nullable=False),
        sa.Column("implication_epoch", INTEGER, nullable=False),
        sa.Column("after_sequence", INTEGER, nullable=False),
        sa.Column("through_sequence", INTEGER, nullable=False),
        sa.Column("operation_id", TEXT, nullable=False),
        sa.Column("recorded_at_us", INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("detector"),
    )
    op.create_table(
        "implication_halts",
        sa.Column("halt_id", TEXT, nullable=False),
        sa.Column("detector", TEXT, nullable=False),
        sa.Column("reason_code", TEXT, nullable=False),
        sa.Column("operation_kind", TEXT, nullable=True),
        sa.Column("target_ref", TEXT, nullable=True),
        sa.Column("error_code", TEXT, nullable=True),
        sa.Column("operation_id", TEXT, nullable=False),
        sa.Column("halted_at_us", INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("halt_id"),
    )
    op.create_table(
        "implication_loops",
        sa.Column("loop_id", TEXT, nullable=False),
        sa.Column("operation_kind", TEXT, nullable=False),
        sa.Column("target_ref", TEXT, nullable=False),
        sa.Column("repetitions", INTEGER, nullable=False),
        sa.Column("chain_epochs", INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("loop_id"),
    )
    op.create_table(
        "implied_operations",
        sa.Column("operation_id", TEXT, nullable=False),
        sa.Column("detector", TEXT, nullable=False),
        sa.Column("implication_epoch", INTEGER, nullable=False),
        sa.Column("chain_epochs", INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("operation_id"),
    )
    op.create_table(
        "kernel_event_log",
        sa.Column("ec_sequence_number", INTEGER, autoincrement=False, nullable=False),
        sa.Column("operation_id", TEXT, nullable=False),
        sa.Column("supersedes_sequence", INTEGER, nullable=False),
        sa.Column("prior_row_hash", TEXT, nullable=False),
        sa.Column("row_hash", TEXT, nullable=False),
        sa.Column("rules_version", INTEGER, nullable=False),
        sa.Column("row_bytes", sa.LargeBinary(), nullable=False),
        sa.Column("envelope_payload_blob_ref", TEXT, nullable=False),
        sa.Column("semantic_intent", TEXT, nullable=False),
        sa.Column("session_id", TEXT, nullable=True),
        sa.Column("commit_epoch_id", TEXT, nullable=True),
        sa.Column("committed_at", TEXT, nullable=False),
        sa.CheckConstraint("rules_version >= 1"),
        sa.PrimaryKeyConstraint("ec_sequence_number"),
        sa.UniqueConstraint("operation_id", "supersedes_sequence"),
        sa.UniqueConstraint("prior_row_hash"),
    )
    op.create_index(
        "kernel_event_log_by_epoch",
        "kernel_event_log",
        ["commit_epoch_id", "ec_sequence_number"],
        unique=False,
        sqlite_where=sa.text("commit_epoch_id IS NOT NULL"),
        postgresql_where=sa.text("commit_epoch_id IS NOT NULL"),
    )
    op.create_index(
        "kernel_event_log_by_epoch_intent",
        "kernel_event_log",
        ["commit_epoch_id", "semantic_intent", "ec_sequence_number"],
        unique=False,
        sqlite_where=sa.text("commit_epoch_id IS NOT NULL"),
        postgresql_where=sa.text("commit_epoch_id IS NOT NULL"),
    )
    op.create_index(
        "kernel_event_log_by_intent",
        "kernel_event_log",
        ["semantic_intent", "ec_sequence_number"],
        unique=False,
    )
    op.create_index(
        "kernel_event_log_by_session",
        "kernel_event_log",
        ["session_id", "ec_sequence_number"],
        unique=False,
        sqlite_where=sa.text("session_id IS NOT NULL"),
        postgresql_where=sa.text("session_id IS NOT NULL"),
    )
    op.create_table(
        "mail_keys",
        sa.Column("name", TEXT, nullable=False),
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "mailbox_offsets",
        sa.Column("session_id", TEXT, nullable=False),
        sa.Column("mailbox_id", TEXT, nullable=False),
        sa.Column("consumed_to", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("session_id"),
    )
    op.create_table(
        "materializations",
        sa.Column("materialization_id", TEXT, nullable=False),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("materialization_id"),
    )
    op.create_table(
        "materialized_views",
        sa.Column("view_id", TEXT, nullable=False),
        sa.Column("node_ref", TEXT, nullable=True),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("view_id"),
    )
    op.create_index(
        "materialized_views_of_node", "materialized_views", ["node_ref", "view_id"], unique=False
    )
    op.create_table(
        "membership_state_transitions",
        sa.Column("transition_id", TEXT, nullable=False),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("transition_id"),
    )
    op.create_table(
        "nodes",
        sa.Column("node_id", TEXT, nullable=False),
        sa.Column("node_kind", TEXT, nullable=False),
        sa.Column("overlay_in_force", INTEGER, nullable=False),
        sa.Column("overlay_target", TEXT, nullable=True),
        sa.Column("identity_key", TEXT, nullable=True),
        sa.Column("updated_at", TEXT, nullable=False),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("node_id"),
    )
    op.create_index(
        "nodes_by_identity",
        "nodes",
        ["identity_key", "updated_at"],
        unique=False,
        sqlite_where=sa.text("identity_key IS NOT NULL"),
        postgresql_where=sa.text("identity_key IS NOT NULL"),
    )
    op.create_index("nodes_by_kind", "nodes", ["node_kind", "node_id"], unique=False)
    op.create_index(
        "nodes_by_overlay",
        "nodes",
        ["overlay_in_force", "overlay_target"],
        unique=False,
        sqlite_where=sa.text("overlay_target IS NOT NULL"),
        postgresql_where=sa.text("overlay_target IS NOT NULL"),
    )
    op.create_table(
        "operation_rollbacks",
        sa.Column("operation_id", TEXT, nullable=False),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("operation_id"),
    )
    op.create_table(
        "outbox",
        sa.Column("request_id", TEXT, nullable=False),
        sa.Column("request_sequence", INTEGER, nullable=False),
        sa.Column("queue", TEXT, nullable=False),
        sa.Column("item_key", TEXT, nullable=False),
        sa.Column("priority", TEXT, nullable=False),
        sa.Column("cause_sequence", INTEGER, nullable=False),
        sa.Column("open", INTEGER, nullable=False),
        sa.Column("enqueued_at_us", INTEGER, nullable=False),
        sa.Column("request_bytes", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint("open IN (0, 1)"),
        sa.PrimaryKeyConstraint("request_id"),
        sa.UniqueConstraint("request_sequence"),
    )
    op.create_index(
        "outbox_by_item", "outbox", ["queue", "item_key", "open", "request_sequence"], unique=False
    )
    op.create_index("outbox_open", "outbox", ["open", "queue", "request_sequence"], unique=False)
    op.create_table(
        "outbox_outcomes",
        sa.Column("request_id", TEXT, nullable=False),
        sa.Column("outcome", TEXT, nullable=False),
        sa.Column("operation_id", TEXT, nullable=True),
        sa.Column("closed_sequence", INTEGER, nullable=False),
        sa.Column("closed_at_us", INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("request_id"),
    )
    op.create_index("outbox_outcomes_by_outcome", "outbox_outcomes", ["outcome"], unique=False)
    op.create_index(
        "outbox_outcomes_by_sequence", "outbox_outcomes", ["closed_sequence"], unique=False
    )
    op.create_table(
        "policy_snapshots",
        sa.Column("policy_generation_id", TEXT, nullable=False),
        sa.Column("generation", INTEGER, nullable=False),
        sa.Column("in_force", INTEGER, nullable=False),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("policy_generation_id"),
        sa.UniqueConstraint("generation"),
    )
    op.create_index(
        "policy_snapshots_in_force", "policy_snapshots", ["in_force", "generation"], unique=False
    )
    op.create_table(
        "pre_images",
        sa.Column("content_hash", TEXT, nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("content_hash"),
    )
    op.create_table(
        "queue_pauses",
        sa.Column("pause_key", TEXT, nullable=False),
        sa.Column("queue", TEXT, nullable=False),
        sa.Column("priority", TEXT, nullable=True),
        sa.Column("paused_at_us", INTEGER, nullable=False),
        sa.Column("decided_by", TEXT, nullable=False),
        sa.Column("reason", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("pause_key"),
    )
    op.create_table(
        "receipts",
        sa.Column("receipt_sequence", INTEGER, autoincrement=False, nullable=False),
        sa.Column("receipt_id", TEXT, nullable=False),
        sa.Column("receipt_kind", TEXT, nullable=False),
        sa.Column("reason_code", TEXT, nullable=True),
        sa.Column("operation_id", TEXT, nullable=True),
        sa.Column("prior_receipt_hash", TEXT, nullable=False),
        sa.Column("receipt_hash", TEXT, nullable=False),
        sa.Column("receipt_bytes", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("receipt_sequence"),
        sa.UniqueConstraint("receipt_hash"),
        sa.UniqueConstraint("receipt_id"),
    )
    op.create_index("receipts_by_kind", "receipts", ["receipt_kind", "reason_code"], unique=False)
    op.create_index("receipts_by_operation", "receipts", ["operation_id"], unique=False)
    op.create_table(
        "recorded_model_outputs",
        sa.Column("recorded_output_id", TEXT, nullable=False),
        sa.Column("output_payload_blob_ref", TEXT, nullable=False),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("recorded_output_id"),
    )
    op.create_index(
        op.f("ix_recorded_model_outputs_output_payload_blob_ref"),
        "recorded_model_outputs",
        ["output_payload_blob_ref"],
        unique=False,
    )
    op.create_table(
        "rollbacks_under_way",
        sa.Column("epoch_id", TEXT, nullable=False),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("epoch_id"),
    )
    op.create_table(
        "routing_marks",
        sa.Column("mark_id", TEXT, nullable=False),
        sa.Column("routed_to", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("mark_id"),
    )
    op.create_table(
        "ruling_dispositions",
        sa.Column("ruling_disposition_id", TEXT, nullable=False),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("ruling_disposition_id"),
    )
    op.create_table(
        "run_operation_counts",
        sa.Column("run_id", TEXT, nullable=False),
        sa.Column("operation_count", INTEGER, nullable=False),
        sa.Column("alerted", INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("run_id"),
    )
    op.create_table(
        "shard_epochs",
        sa.Column("shard", INTEGER, autoincrement=False, nullable=False),
        sa.Column("epoch", INTEGER, nullable=False),
        sa.Column("owner", TEXT, nullable=False),
        sa.Column("acquired_at_us", INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("shard"),
    )
    op.create_table(
        "share_links",
        sa.Column("share_link_id", TEXT, nullable=False),
        sa.Column("token_sha256", TEXT, nullable=True),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("share_link_id"),
    )
    op.create_index(
        op.f("ix_share_links_token_sha256"), "share_links", ["token_sha256"], unique=False
    )
    op.create_table(
        "topic_assignments",
        sa.Column("topic_assignment_id", TEXT, nullable=False),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("topic_assignment_id"),
    )
    refuse_change("applied_effects")
    refuse_change("belief_events")
    refuse_change("causal_parents")
    refuse_change("kernel_event_log")
    refuse_change("outbox_outcomes")
    refuse_change("receipts")


def downgrade() -> None:
    """Refuse."""
    raise NotImplementedError("the ledger's schema goes forward only")


def refuse_change(table: str) -> None:
    """Make a table append-only."""
    if op.get_context().dialect.name == "sqlite":
        for change in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {table}_refuses_{change.lower()} BEFORE {change} "
                f"ON {table} BEGIN SELECT RAISE(ABORT, 'append only'); END"
            )
        return
    for change, each in (("UPDATE OR DELETE", "ROW"), ("TRUNCATE", "STATEMENT")):
        op.execute(
            f"CREATE TRIGGER {table}_refuses_{each.lower()} BEFORE {change} ON {table}"
            f" FOR EACH {each} EXECUTE FUNCTION rotulus_refuses()"
        )
