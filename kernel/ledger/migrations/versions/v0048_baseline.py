"""Baseline: the tables of the first release."""

import sqlalchemy as sa
from alembic import op

revision = "0048"
programs_from = "0048"
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
        "access_grants",
        sa.Column("grant_key", TEXT, nullable=False),
        sa.Column("principal", TEXT, nullable=False),
        sa.Column("role", TEXT, nullable=False),
        sa.Column("scope", TEXT, nullable=False),
        sa.Column("clearance", TEXT, nullable=False),
        sa.Column("granted_at_us", INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("grant_key"),
    )
    op.create_table(
        "access_keys",
        sa.Column("key_id", TEXT, nullable=False),
        sa.Column("principal", TEXT, nullable=False),
        sa.Column("secret_hash", TEXT, nullable=False),
        sa.Column("created_at_us", INTEGER, nullable=False),
        sa.Column("expires_at_us", INTEGER, nullable=False),
        sa.Column("opened_by", TEXT, nullable=True),
        sa.PrimaryKeyConstraint("key_id"),
    )
    op.create_index(
        op.f("ix_access_keys_created_at_us"), "access_keys", ["created_at_us"], unique=False
    )
    op.create_index(
        op.f("ix_access_keys_expires_at_us"), "access_keys", ["expires_at_us"], unique=False
    )
    op.create_index(op.f("ix_access_keys_opened_by"), "access_keys", ["opened_by"], unique=False)
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
        "archive_segments",
        sa.Column("segment_index", INTEGER, autoincrement=False, nullable=False),
        sa.Column("content_hash", TEXT, nullable=False),
        sa.Column("stored_bytes", INTEGER, nullable=False),
        sa.Column("envelopes", INTEGER, nullable=False),
        sa.Column("collected", INTEGER, nullable=False),
        sa.Column("archived_at_us", INTEGER, nullable=False),
        sa.CheckConstraint("collected IN (0, 1)"),
        sa.PrimaryKeyConstraint("segment_index"),
    )
    op.create_index(
        "archive_segments_by_collected",
        "archive_segments",
        ["collected", "segment_index"],
        unique=False,
    )
    op.create_table(
        "archived_rows",
        sa.Column("ec_sequence_number", INTEGER, autoincrement=False, nullable=False),
        sa.Column("operation_id", TEXT, nullable=False),
        sa.Column("supersedes_sequence", INTEGER, nullable=False),
        sa.Column("envelope_payload_blob_ref", TEXT, nullable=False),
        sa.Column("semantic_intent", TEXT, nullable=False),
        sa.Column("session_id", TEXT, nullable=True),
        sa.Column("commit_epoch_id", TEXT, nullable=True),
        sa.Column("committed_at", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("ec_sequence_number"),
        sa.UniqueConstraint("operation_id", "supersedes_sequence"),
    )
    op.create_index(
        "archived_rows_by_epoch",
        "archived_rows",
        ["commit_epoch_id", "ec_sequence_number"],
        unique=False,
        sqlite_where=sa.text("commit_epoch_id IS NOT NULL"),
        postgresql_where=sa.text("commit_epoch_id IS NOT NULL"),
    )
    op.create_index(
        "archived_rows_by_intent",
        "archived_rows",
        ["semantic_intent", "ec_sequence_number"],
        unique=False,
    )
    op.create_index(
        "archived_rows_by_session",
        "archived_rows",
        ["session_id", "ec_sequence_number"],
        unique=False,
        sqlite_where=sa.text("session_id IS NOT NULL"),
        postgresql_where=sa.text("session_id IS NOT NULL"),
    )
    op.create_index(
        op.f("ix_archived_rows_envelope_payload_blob_ref"),
        "archived_rows",
        ["envelope_payload_blob_ref"],
        unique=False,
    )
    op.create_table(
        "audit_sessions",
        sa.Column("session_id", TEXT, nullable=False),
        sa.Column("task_id", TEXT, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("thought_count", INTEGER, nullable=False),
        sa.Column("zeta_head", TEXT, nullable=False),
        sa.Column("verified_count", INTEGER, nullable=False),
        sa.Column("eta_frontier", sa.LargeBinary(), nullable=False),
        sa.Column("rfc6962_frontier", sa.LargeBinary(), nullable=False),
        sa.Column("round_number", INTEGER, nullable=True),
        sa.Column("seal_sequence", INTEGER, nullable=True),
        sa.Column("seal_bytes", sa.LargeBinary(), nullable=True),
        sa.Column("signatures", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("session_id"),
    )
    op.create_index(
        "audit_sessions_by_round",
        "audit_sessions",
        ["round_number", "seal_sequence"],
        unique=False,
        sqlite_where=sa.text("round_number IS NOT NULL"),
        postgresql_where=sa.text("round_number IS NOT NULL"),
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
        sa.Column("terminated", INTEGER, nullable=True),
        sa.Column("successor_id", TEXT, nullable=True),
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
        "bulk_operations",
        sa.Column("ec_sequence_number", INTEGER, autoincrement=False, nullable=False),
        sa.Column("running", INTEGER, nullable=True),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("ec_sequence_number"),
    )
    op.create_index(
        "bulk_operations_running",
        "bulk_operations",
        ["running", "ec_sequence_number"],
        unique=False,
        sqlite_where=sa.text("running IS NOT NULL"),
        postgresql_where=sa.text("running IS NOT NULL"),
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
        sa.Column("frontier", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("ledger_id"),
    )
    op.create_table(
        "chart_blocks",
        sa.Column("sample_s", INTEGER, autoincrement=False, nullable=False),
        sa.Column("slot", INTEGER, autoincrement=False, nullable=False),
        sa.Column("part", INTEGER, autoincrement=False, nullable=False),
        sa.Column("began_s", INTEGER, nullable=False),
        sa.Column("samples", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("sample_s", "slot", "part"),
    )
    op.create_table(
        "corpus_membership_records",
        sa.Column("membership_id", TEXT, nullable=False),
        sa.Column("node_id", TEXT, nullable=False),
        sa.Column("stands", INTEGER, nullable=False),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.Column("is_open", INTEGER, nullable=True),
        sa.PrimaryKeyConstraint("membership_id"),
    )
    op.create_index(
        "corpus_membership_records_of_node",
        "corpus_membership_records",
        ["node_id", "stands"],
        unique=False,
    )
    op.create_index(
        "corpus_membership_records_open",
        "corpus_membership_records",
        ["is_open", "membership_id"],
        unique=False,
        sqlite_where=sa.text("is_open IS NOT NULL"),
        postgresql_where=sa.text("is_open IS NOT NULL"),
    )
    op.create_table(
        "court_disposition_observations",
        sa.Column("observation_id", TEXT, nullable=False),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.Column("is_open", INTEGER, nullable=True),
        sa.PrimaryKeyConstraint("observation_id"),
    )
    op.create_index(
        "court_disposition_observations_open",
        "court_disposition_observations",
        ["is_open", "observation_id"],
        unique=False,
        sqlite_where=sa.text("is_open IS NOT NULL"),
        postgresql_where=sa.text("is_open IS NOT NULL"),
    )
    op.create_table(
        "daily_operation_counts",
        sa.Column("day_and_kind", TEXT, nullable=False),
        sa.Column("operation_count", INTEGER, nullable=False),
        sa.Column("alerted", INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("day_and_kind"),
    )
    op.create_table(
        "dead_letters",
        sa.Column("request_sequence", INTEGER, autoincrement=False, nullable=False),
        sa.Column("queue", TEXT, nullable=False),
        sa.Column("error_signature", TEXT, nullable=False),
        sa.Column("settled", INTEGER, nullable=False),
        sa.CheckConstraint("settled IN (0, 1)"),
        sa.PrimaryKeyConstraint("request_sequence"),
    )
    op.create_index(
        "dead_letters_by_signature",
        "dead_letters",
        ["settled", "queue", "error_signature", "request_sequence"],
        unique=False,
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
        sa.Column("source_filing_unit_id", TEXT, nullable=True),
        sa.Column("target_filing_unit_id", TEXT, nullable=True),
        sa.Column("is_open", INTEGER, nullable=True),
        sa.PrimaryKeyConstraint("filing_relationship_id"),
    )
    op.create_index(
        "filing_relationships_by_source",
        "filing_relationships",
        ["source_filing_unit_id"],
        unique=False,
        sqlite_where=sa.text("source_filing_unit_id IS NOT NULL"),
        postgresql_where=sa.text("source_filing_unit_id IS NOT NULL"),
    )
    op.create_index(
        "filing_relationships_by_target",
        "filing_relationships",
        ["target_filing_unit_id"],
        unique=False,
        sqlite_where=sa.text("target_filing_unit_id IS NOT NULL"),
        postgresql_where=sa.text("target_filing_unit_id IS NOT NULL"),
    )
    op.create_index(
        "filing_relationships_open",
        "filing_relationships",
        ["is_open", "filing_relationship_id"],
        unique=False,
        sqlite_where=sa.text("is_open IS NOT NULL"),
        postgresql_where=sa.text("is_open IS NOT NULL"),
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
        "gateway_keys",
        sa.Column("gateway", TEXT, nullable=False),
        sa.Column("public_key", sa.LargeBinary(), nullable=False),
        sa.Column("key_number", INTEGER, nullable=False),
        sa.Column("sealed_key", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("gateway"),
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
        "landscape_record_groups",
        sa.Column("group_sequence", INTEGER, autoincrement=False, nullable=False),
        sa.Column("run_id", TEXT, nullable=False),
        sa.Column("prior_group_hash", TEXT, nullable=False),
        sa.Column("group_hash", TEXT, nullable=False),
        sa.Column("group_bytes", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("group_sequence"),
    )
    op.create_index(
        "landscape_record_groups_by_run",
        "landscape_record_groups",
        ["run_id", "group_sequence"],
        unique=False,
    )
    op.create_table(
        "landscape_runs",
        sa.Column("run_id", TEXT, nullable=False),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("config_hash", TEXT, nullable=False),
        sa.Column("settings_json", TEXT, nullable=False),
        sa.Column("canonical_version", TEXT, nullable=False),
        sa.Column("source_schema_json", TEXT, nullable=True),
        sa.Column("source_field_resolution_json", TEXT, nullable=True),
        sa.Column("started_at_us", INTEGER, nullable=False),
        sa.Column("completed_at_us", INTEGER, nullable=True),
        sa.Column("reproducibility_grade", TEXT, nullable=True),
        sa.Column("payloads_purged_at_us", INTEGER, nullable=True),
        sa.PrimaryKeyConstraint("run_id"),
    )
    op.create_index("landscape_runs_by_start", "landscape_runs", ["started_at_us"], unique=False)
    op.create_table(
        "landscape_seals",
        sa.Column("run_id", TEXT, nullable=False),
        sa.Column("record_count", INTEGER, nullable=False),
        sa.Column("run_digest", TEXT, nullable=False),
        sa.Column("table_digests", sa.LargeBinary(), nullable=False),
        sa.Column("ec_sequence_number", INTEGER, nullable=False),
        sa.Column("sealed_at_us", INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("run_id"),
    )
    op.create_table(
        "ledger_ids",
        sa.Column("ledger_id", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("ledger_id"),
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
        "merkle_nodes",
        sa.Column("session_id", TEXT, nullable=False),
        sa.Column("node_index", INTEGER, autoincrement=False, nullable=False),
        sa.Column("level", INTEGER, nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("left_child_index", INTEGER, nullable=True),
        sa.Column("right_child_index", INTEGER, nullable=True),
        sa.PrimaryKeyConstraint("session_id", "node_index"),
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
        sa.Column("state", INTEGER, nullable=False),
        sa.Column("enqueued_at_us", INTEGER, nullable=False),
        sa.Column("request_bytes", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint("open IN (0, 1)"),
        sa.CheckConstraint("state IN (0, 1, 2, 3, 4)"),
        sa.PrimaryKeyConstraint("request_id"),
        sa.UniqueConstraint("request_sequence"),
    )
    op.create_index(
        "outbox_by_item",
        "outbox",
        ["queue", "item_key", "open", "request_sequence", "state"],
        unique=False,
    )
    op.create_index(
        "outbox_by_state", "outbox", ["state", "queue", "request_sequence"], unique=False
    )
    op.create_table(
        "outbox_outcomes",
        sa.Column("request_id", TEXT, nullable=False),
        sa.Column("outcome", TEXT, nullable=False),
        sa.Column("operation_id", TEXT, nullable=True),
        sa.Column("closed_sequence", INTEGER, nullable=False),
        sa.Column("closed_at_us", INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("request_id"),
    )
    op.create_index(
        "outbox_outcomes_by_sequence", "outbox_outcomes", ["closed_sequence"], unique=False
    )
    op.create_table(
        "outcomes_to_review",
        sa.Column("receipt_id", TEXT, nullable=False),
        sa.Column("request_sequence", INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("receipt_id"),
        sa.UniqueConstraint("request_sequence"),
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
        "queue_registrations",
        sa.Column("queue", TEXT, nullable=False),
        sa.Column("registered_at_us", INTEGER, nullable=False),
        sa.Column("definition", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("queue"),
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
    op.create_index(
        "receipts_by_kind", "receipts", ["receipt_kind", "receipt_sequence"], unique=False
    )
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
        "request_attempts",
        sa.Column("request_id", TEXT, nullable=False),
        sa.Column("attempt_number", INTEGER, autoincrement=False, nullable=False),
        sa.Column("attempt_bytes", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("request_id", "attempt_number"),
    )
    op.create_table(
        "request_failures",
        sa.Column("request_id", TEXT, nullable=False),
        sa.Column("queue", TEXT, nullable=False),
        sa.Column("request_sequence", INTEGER, nullable=False),
        sa.Column("deliveries", INTEGER, nullable=False),
        sa.Column("failures", INTEGER, nullable=False),
        sa.Column("snoozes", INTEGER, nullable=False),
        sa.Column("worker_ends", INTEGER, nullable=False),
        sa.Column("attempts", INTEGER, nullable=False),
        sa.Column("first_started_at_us", INTEGER, nullable=False),
        sa.Column("error_signature", TEXT, nullable=True),
        sa.Column("last_claim", TEXT, nullable=False),
        sa.Column("waits", INTEGER, nullable=False),
        sa.Column("next_attempt_at_us", INTEGER, nullable=False),
        sa.Column("policy_version", TEXT, nullable=False),
        sa.CheckConstraint("waits IN (0, 1)"),
        sa.PrimaryKeyConstraint("request_id"),
    )
    op.create_index(
        "request_failures_by_policy",
        "request_failures",
        ["queue", "waits", "policy_version", "request_sequence"],
        unique=False,
    )
    op.create_index(
        "request_failures_by_signature",
        "request_failures",
        ["error_signature", "queue", "request_sequence"],
        unique=False,
        sqlite_where=sa.text("error_signature IS NOT NULL"),
        postgresql_where=sa.text("error_signature IS NOT NULL"),
    )
    op.create_table(
        "request_tags",
        sa.Column("request_sequence", INTEGER, autoincrement=False, nullable=False),
        sa.Column("tag", TEXT, nullable=False),
        sa.Column("queue", TEXT, nullable=False),
        sa.Column("state", INTEGER, nullable=False),
        sa.CheckConstraint("state IN (0, 1, 2, 3, 4)"),
        sa.PrimaryKeyConstraint("request_sequence", "tag"),
    )
    op.create_index(
        "request_tags_by_tag",
        "request_tags",
        ["tag", "state", "queue", "request_sequence"],
        unique=False,
    )
    op.create_table(
        "rollbacks_under_way",
        sa.Column("epoch_id", TEXT, nullable=False),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("epoch_id"),
    )
    op.create_table(
        "rounds",
        sa.Column("round_number", INTEGER, autoincrement=False, nullable=False),
        sa.Column("genesis_bytes", sa.LargeBinary(), nullable=False),
        sa.Column("opened_sequence", INTEGER, nullable=False),
        sa.Column("opened_at_us", INTEGER, nullable=False),
        sa.Column("session_count", INTEGER, nullable=False),
        sa.Column("seal_bytes", sa.LargeBinary(), nullable=True),
        sa.Column("signatures", sa.LargeBinary(), nullable=True),
        sa.Column("sealed_sequence", INTEGER, nullable=True),
        sa.PrimaryKeyConstraint("round_number"),
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
        "running_extractions",
        sa.Column("extraction_run_id", TEXT, nullable=False),
        sa.Column("source_ref", TEXT, nullable=False),
        sa.Column("source_changed", INTEGER, nullable=True),
        sa.PrimaryKeyConstraint("extraction_run_id"),
    )
    op.create_index(
        "running_extractions_by_source", "running_extractions", ["source_ref"], unique=False
    )
    op.create_index(
        "running_extractions_of_changed_sources",
        "running_extractions",
        ["source_changed", "extraction_run_id"],
        unique=False,
        sqlite_where=sa.text("source_changed IS NOT NULL"),
        postgresql_where=sa.text("source_changed IS NOT NULL"),
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
        "thought_records",
        sa.Column("session_id", TEXT, nullable=False),
        sa.Column("thought_sequence", INTEGER, autoincrement=False, nullable=False),
        sa.Column("thought_id", TEXT, nullable=False),
        sa.Column("content_hash", TEXT, nullable=False),
        sa.Column("record_bytes", sa.LargeBinary(), nullable=False),
        sa.Column("ec_sequence_number", INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("session_id", "thought_sequence"),
        sa.UniqueConstraint("session_id", "thought_id"),
    )
    op.create_table(
        "thought_segments",
        sa.Column("content_hash", TEXT, nullable=False),
        sa.Column("session_id", TEXT, nullable=False),
        sa.Column("first_sequence", INTEGER, nullable=False),
        sa.Column("last_sequence", INTEGER, nullable=False),
        sa.Column("first_node", INTEGER, nullable=False),
        sa.Column("last_node", INTEGER, nullable=False),
        sa.Column("stored_bytes", INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("content_hash"),
        sa.UniqueConstraint("session_id", "first_sequence"),
    )
    op.create_table(
        "topic_assignments",
        sa.Column("topic_assignment_id", TEXT, nullable=False),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("topic_assignment_id"),
    )
    op.create_table(
        "tree_tiles",
        sa.Column("tile_level", INTEGER, autoincrement=False, nullable=False),
        sa.Column("tile_index", INTEGER, autoincrement=False, nullable=False),
        sa.Column("hashes", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("tile_level", "tile_index"),
    )
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
    op.create_index(
        "landscape_operations_by_node_id",
        "landscape_operations",
        ["run_id", "node_id"],
        unique=False,
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
    op.create_index(
        "landscape_validation_errors_by_row_hash",
        "landscape_validation_errors",
        ["run_id", "row_hash"],
        unique=False,
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
    op.create_index(
        "landscape_tokens_by_row_id", "landscape_tokens", ["run_id", "row_id"], unique=False
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
    op.create_index(
        "landscape_node_states_by_node_id",
        "landscape_node_states",
        ["run_id", "node_id", "status"],
        unique=False,
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
    op.create_index(
        "landscape_transform_errors_by_token_id",
        "landscape_transform_errors",
        ["run_id", "token_id"],
        unique=False,
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
    op.create_index(
        "landscape_artifacts_by_produced_by_state_id",
        "landscape_artifacts",
        ["run_id", "produced_by_state_id"],
        unique=False,
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
    op.create_index(
        "landscape_calls_by_request_hash",
        "landscape_calls",
        ["run_id", "request_hash"],
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
    op.create_index(
        "landscape_routing_events_by_state_id",
        "landscape_routing_events",
        ["run_id", "state_id"],
        unique=False,
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
    refuse_change("applied_effects")
    refuse_change("archived_rows")
    refuse_change("belief_events")
    refuse_change("causal_parents")
    if op.get_context().dialect.name == "sqlite":
        op.execute(
            "CREATE TRIGGER kernel_event_log_refuses_update BEFORE UPDATE ON kernel_event_log BEGIN SELECT RAISE(ABORT, 'append only'); END"
        )
        op.execute(
            "CREATE TRIGGER kernel_event_log_refuses_delete BEFORE DELETE ON kernel_event_log WHEN NOT EXISTS (SELECT 1 FROM archived_rows WHERE ec_sequence_number = OLD.ec_sequence_number) BEGIN SELECT RAISE(ABORT, 'append only'); END"
        )
    if op.get_context().dialect.name == "postgresql":
        op.execute(
            "CREATE FUNCTION rotulus_refuses_unless_archived() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF TG_OP = 'DELETE' AND EXISTS (SELECT FROM archived_rows a WHERE a.ec_sequence_number = OLD.ec_sequence_number) THEN RETURN OLD; END IF; RAISE EXCEPTION 'append only'; END $$"
        )
        op.execute(
            "CREATE TRIGGER kernel_event_log_refuses_row BEFORE UPDATE OR DELETE ON kernel_event_log FOR EACH ROW EXECUTE FUNCTION rotulus_refuses_unless_archived()"
        )
        op.execute(
            "CREATE TRIGGER kernel_event_log_refuses_statement BEFORE TRUNCATE ON kernel_event_log FOR EACH STATEMENT EXECUTE FUNCTION rotulus_refuses()"
        )
    refuse_change("landscape_record_groups")
    if op.get_context().dialect.name == "sqlite":
        op.execute(
            "CREATE TRIGGER merkle_nodes_refuses_update BEFORE UPDATE ON merkle_nodes BEGIN SELECT RAISE(ABORT, 'append only'); END"
        )
        op.execute(
            "CREATE TRIGGER merkle_nodes_refuses_delete BEFORE DELETE ON merkle_nodes WHEN NOT EXISTS (SELECT 1 FROM thought_segments WHERE session_id = OLD.session_id AND OLD.node_index BETWEEN first_node AND last_node) BEGIN SELECT RAISE(ABORT, 'append only'); END"
        )
    if op.get_context().dialect.name == "postgresql":
        op.execute(
            "CREATE FUNCTION rotulus_refuses_merkle_nodes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF TG_OP = 'DELETE' AND EXISTS (SELECT FROM thought_segments WHERE session_id = OLD.session_id AND OLD.node_index BETWEEN first_node AND last_node) THEN RETURN OLD; END IF; RAISE EXCEPTION 'append only'; END $$"
        )
        op.execute(
            "CREATE TRIGGER merkle_nodes_refuses_row BEFORE UPDATE OR DELETE ON merkle_nodes FOR EACH ROW EXECUTE FUNCTION rotulus_refuses_merkle_nodes()"
        )
        op.execute(
            "CREATE TRIGGER merkle_nodes_refuses_statement BEFORE TRUNCATE ON merkle_nodes FOR EACH STATEMENT EXECUTE FUNCTION rotulus_refuses()"
        )
    refuse_change("outbox_outcomes")
    refuse_change("receipts")
    if op.get_context().dialect.name == "sqlite":
        op.execute(
            "CREATE TRIGGER thought_records_refuses_update BEFORE UPDATE ON thought_records BEGIN SELECT RAISE(ABORT, 'append only'); END"
        )
        op.execute(
            "CREATE TRIGGER thought_records_refuses_delete BEFORE DELETE ON thought_records WHEN NOT EXISTS (SELECT 1 FROM thought_segments WHERE session_id = OLD.session_id AND OLD.thought_sequence BETWEEN first_sequence AND last_sequence) BEGIN SELECT RAISE(ABORT, 'append only'); END"
        )
    if op.get_context().dialect.name == "postgresql":
        op.execute(
            "CREATE FUNCTION rotulus_refuses_thought_records() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF TG_OP = 'DELETE' AND EXISTS (SELECT FROM thought_segments WHERE session_id = OLD.session_id AND OLD.thought_sequence BETWEEN first_sequence AND last_sequence) THEN RETURN OLD; END IF; RAISE EXCEPTION 'append only'; END $$"
        )
        op.execute(
            "CREATE TRIGGER thought_records_refuses_row BEFORE UPDATE OR DELETE ON thought_records FOR EACH ROW EXECUTE FUNCTION rotulus_refuses_thought_records()"
        )
        op.execute(
            "CREATE TRIGGER thought_records_refuses_statement BEFORE TRUNCATE ON thought_records FOR EACH STATEMENT EXECUTE FUNCTION rotulus_refuses()"
        )


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
