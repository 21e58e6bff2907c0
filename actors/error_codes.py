"""The table of error codes: what each code says to whoever gets it, at every door.

The API answers with its status, clients and workers decide by it what to do next, and
`workers/api/REFERENCE.md` and the OpenAPI document are written from it (actors/0071). A test holds
it against what the code raises. Reasons for which the kernel rejects an operation are no errors but
data of an answer, and are not in it; an operation that is all of a request is answered with 422.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

Fault = Literal["request", "caller", "service", "unknown"]


class ErrorCode(NamedTuple):
    """The HTTP status of an error code, its fault, and whether asking again can help."""

    status: int | None
    """The HTTP status; None where no door answers with the code: a command prints it, a log has it.

    A code without a status that reaches a door all the same is a defect of ours: 500.
    """

    fault: Fault
    """What stands in the way: what is asked for; who asks, or the way from there to here; this
    service or what it stands on. Unknown where what is asked for may be what made it fail."""

    is_retryable: bool = False
    """Whether the same may be asked again, by the same caller, and may succeed then."""

    may_be_taken: bool = False
    """Whether something of the request may have taken effect, or may still; the record says."""


DEFECT_STATUS = 500

ERRORS: Mapping[str, ErrorCode] = MappingProxyType(
    {
        # Before a route reads anything.
        "host_invalid": ErrorCode(400, "caller"),
        "host_unknown": ErrorCode(421, "caller"),
        "origin_refused": ErrorCode(403, "caller"),
        "unauthorized": ErrorCode(401, "caller"),
        "upgrade_refused": ErrorCode(400, "request"),
        "http_invalid": ErrorCode(400, "request"),
        "target_invalid": ErrorCode(400, "request"),
        "target_too_long": ErrorCode(414, "request"),
        "headers_too_large": ErrorCode(431, "request"),
        "pipeline_full": ErrorCode(429, "caller", is_retryable=True),
        "gateway_full": ErrorCode(503, "service", is_retryable=True),
        "gateway_stopping": ErrorCode(503, "service", is_retryable=True),
        "content_encoding_unsupported": ErrorCode(415, "request"),
        "charset_unsupported": ErrorCode(415, "request"),
        "method_not_allowed": ErrorCode(405, "request"),
        "body_too_slow": ErrorCode(408, "caller", is_retryable=True),
        "body_not_utf8": ErrorCode(422, "request"),
        "json_key_repeated": ErrorCode(422, "request"),
        "webhook_unsigned": ErrorCode(401, "caller"),
        "cloud_event_invalid": ErrorCode(422, "request"),
        "source_too_large": ErrorCode(413, "request"),
        "request_too_large": ErrorCode(413, "request"),
        "envelope_too_large": ErrorCode(422, "request"),
        "INVALID_REQUEST": ErrorCode(422, "request"),
        # What a request names.
        "not_found": ErrorCode(404, "request"),
        "tree_size_invalid": ErrorCode(422, "request"),
        "checkpoint_not_published": ErrorCode(404, "request"),
        "tile_not_published": ErrorCode(404, "request"),
        "key_handover_invalid": ErrorCode(422, "request"),
        "outcome_not_sealed": ErrorCode(409, "request"),
        "binding_manifest_unknown": ErrorCode(404, "request"),
        "envelope_erased": ErrorCode(410, "request"),
        "operator_decision_invalid": ErrorCode(422, "request"),
        # Erasing payloads and holding them (P6).
        "payload_unknown": ErrorCode(404, "request"),
        "payload_held": ErrorCode(409, "request"),
        "payload_not_erasable": ErrorCode(409, "request"),
        "legal_hold_exists": ErrorCode(409, "request"),
        "legal_hold_unknown": ErrorCode(404, "request"),
        "legal_holds_too_many": ErrorCode(409, "request"),
        # Quarantined ranges of the log (§17.5).
        "range_quarantined": ErrorCode(409, "request"),
        "quarantine_unknown": ErrorCode(404, "request"),
        "quarantine_reason_missing": ErrorCode(422, "request"),
        "audit_unanswerable": ErrorCode(None, "request"),
        "state_as_of_unknown": ErrorCode(None, "request"),
        "intent_invalid": ErrorCode(422, "request"),
        # What a model asks through the MCP server.
        "query_refused": ErrorCode(None, "request"),
        "query_failed": ErrorCode(None, "request"),
        "query_timed_out": ErrorCode(None, "request"),
        "tool_unknown": ErrorCode(None, "request"),
        "tool_timed_out": ErrorCode(None, "unknown"),
        "writes_not_allowed": ErrorCode(None, "caller"),
        "answer_too_large": ErrorCode(None, "request"),
        # Belief sessions (seed 001 §3.2).
        "SESSION_NOT_FOUND": ErrorCode(404, "request"),
        "SESSION_EXISTS": ErrorCode(409, "request"),
        "SESSION_TERMINATED": ErrorCode(409, "request"),
        "SESSION_SUCCEEDED": ErrorCode(409, "request"),
        "INVALID_HYPOTHESIS_ID": ErrorCode(422, "request"),
        "OBLIGATION_NOT_FOUND": ErrorCode(404, "request"),
        "EVENT_NOT_FOUND": ErrorCode(404, "request"),
        "CONFLICT": ErrorCode(409, "request"),
        "session_corrupt": ErrorCode(500, "service"),
        "belief_event_corrupt": ErrorCode(500, "service"),
        "elimination_store_unavailable": ErrorCode(
            503, "service", is_retryable=True, may_be_taken=True
        ),
        "elimination_store_conflict": ErrorCode(502, "service", may_be_taken=True),
        "causal_provenance_full": ErrorCode(None, "request"),
        # Thoughts (seed 002).
        "audit_session_unknown": ErrorCode(404, "request"),
        "audit_session_exists": ErrorCode(409, "request"),
        "audit_session_empty": ErrorCode(409, "request"),
        "audit_session_finalized": ErrorCode(409, "request"),
        "audit_session_not_finalized": ErrorCode(409, "request"),
        "audit_session_over": ErrorCode(409, "request"),
        "round_empty": ErrorCode(409, "request"),
        "round_full": ErrorCode(None, "service"),
        "round_is_open": ErrorCode(409, "request"),
        "round_not_open": ErrorCode(409, "request"),
        "seal_differs": ErrorCode(None, "service"),
        "seal_signature_invalid": ErrorCode(None, "service"),
        "thought_chain_broken": ErrorCode(None, "service"),
        "thought_chain_not_verified": ErrorCode(409, "request"),
        "thought_conflict": ErrorCode(409, "request"),
        "thought_reflection_missing": ErrorCode(409, "request"),
        "thought_unknown": ErrorCode(404, "request"),
        "thoughts_too_many": ErrorCode(409, "request"),
        # Runs (seed 003).
        "landscape_record_invalid": ErrorCode(422, "request"),
        "landscape_unknown": ErrorCode(404, "request"),
        "landscape_conflict": ErrorCode(409, "request"),
        "landscape_run_over": ErrorCode(409, "request"),
        "landscape_incomplete": ErrorCode(409, "request"),
        "landscape_branches": ErrorCode(422, "request"),
        "landscape_lineage": ErrorCode(422, "request"),
        "landscape_topology_differs": ErrorCode(None, "request"),
        "landscape_payload_gone": ErrorCode(None, "request"),
        "landscape_import_invalid": ErrorCode(None, "request"),
        "landscape_record_damaged": ErrorCode(500, "service"),
        "pipeline_invalid": ErrorCode(None, "request"),
        "pipeline_differs": ErrorCode(None, "request"),
        "pipeline_stopped": ErrorCode(None, "unknown"),
        "pipeline_source_differs": ErrorCode(None, "request"),
        # Actors and their transactions.
        "mailbox_full": ErrorCode(429, "service", is_retryable=True),
        "runtime_full": ErrorCode(503, "service", is_retryable=True),
        "commit_failed": ErrorCode(503, "service", is_retryable=True),
        "shard_unowned": ErrorCode(503, "service", is_retryable=True),
        "stale_epoch": ErrorCode(503, "service", is_retryable=True, may_be_taken=True),
        "reply_lost": ErrorCode(503, "service", is_retryable=True, may_be_taken=True),
        "clocks_differ": ErrorCode(503, "service", is_retryable=True),
        "protocol_differs": ErrorCode(503, "service", is_retryable=True),
        "actor_failed": ErrorCode(503, "unknown", is_retryable=True, may_be_taken=True),
        "refusals_too_many": ErrorCode(429, "request", is_retryable=True),
        "request_unprocessable": ErrorCode(422, "request"),
        "request_set_aside": ErrorCode(422, "request", may_be_taken=True),
        "envelope_capacity_unavailable": ErrorCode(503, "request", is_retryable=True),
        # Detectors of implications; what they cannot do is on the record and in the log.
        "implication_detector_raised": ErrorCode(None, "service"),
        "implication_detector_timed_out": ErrorCode(None, "service"),
        "implication_detector_ended": ErrorCode(None, "service"),
        "implication_answer_invalid": ErrorCode(None, "service"),
        "implication_answer_too_large": ErrorCode(None, "service"),
        # Models.
        "model_unavailable": ErrorCode(503, "service", is_retryable=True),
        "model_timeout": ErrorCode(503, "service", is_retryable=True),
        "model_busy": ErrorCode(503, "service", is_retryable=True),
        "model_refused": ErrorCode(502, "service"),
        "model_answer_too_large": ErrorCode(502, "service"),
        "model_answer_invalid": ErrorCode(502, "service"),
        "model_found_nothing": ErrorCode(422, "request"),
        "model_prompt_too_large": ErrorCode(422, "request"),
        "sealed_outbound_unauthorized": ErrorCode(403, "request"),
        "sealed_tier_2_cache_violation": ErrorCode(502, "service"),
        "session_context_full": ErrorCode(None, "request"),
        # Requested work and its queues.
        "work_queue_unknown": ErrorCode(404, "request"),
        "work_request_invalid": ErrorCode(422, "request"),
        "work_request_key_reserved": ErrorCode(422, "request"),
        "work_request_conflict": ErrorCode(409, "request"),
        "work_request_unknown": ErrorCode(404, "request"),
        "work_request_lost": ErrorCode(410, "request"),
        "work_request_not_dead": ErrorCode(409, "request"),
        "work_request_not_cancellable": ErrorCode(409, "request"),
        "work_item_full": ErrorCode(409, "request"),
        "work_requests_too_many": ErrorCode(429, "service", is_retryable=True),
        "waits_full": ErrorCode(503, "service", is_retryable=True),
        "too_many_listeners": ErrorCode(503, "service", is_retryable=True),
        "authority_sweep_running": ErrorCode(409, "service"),
        "authority_sweep_put_off": ErrorCode(429, "service", is_retryable=True, may_be_taken=True),
        "queue_unavailable": ErrorCode(503, "service", is_retryable=True, may_be_taken=True),
        "queue_refused": ErrorCode(503, "service", is_retryable=True, may_be_taken=True),
        "queue_mark_differs": ErrorCode(None, "service", is_retryable=True),
        "queue_unknown_priority": ErrorCode(422, "request"),
        "queue_argument_invalid": ErrorCode(422, "request"),
        "queue_item_too_large": ErrorCode(None, "request"),
        "queue_batch_too_large": ErrorCode(None, "request"),
        "lease_too_large": ErrorCode(None, "request"),
        # Reviews.
        "batch_review_unknown": ErrorCode(404, "request"),
        "batch_review_conflict": ErrorCode(409, "request"),
        "batch_review_item_invalid": ErrorCode(422, "request"),
        "batch_review_item_not_failed": ErrorCode(409, "request"),
        "batch_review_item_repeated": ErrorCode(422, "request"),
        "batch_review_not_recorded": ErrorCode(422, "request"),
        "batch_review_too_large": ErrorCode(413, "request"),
        # Undoing and replaying.
        "operation_not_found": ErrorCode(404, "request"),
        "epoch_not_found": ErrorCode(404, "request"),
        "confirmation_required": ErrorCode(403, "request"),
        "tier_3_requires_architect": ErrorCode(403, "request"),
        "confirmation_invalid": ErrorCode(403, "request"),
        "confirmation_expired": ErrorCode(403, "request"),
        "confirmation_of_something_else": ErrorCode(403, "request"),
        "confirmation_used": ErrorCode(403, "request"),
        "confirmation_not_configured": ErrorCode(403, "service"),
        "rollback_already_applied": ErrorCode(409, "request"),
        "rollback_superseded_by_later_write": ErrorCode(409, "request"),
        "rollback_needs_what_is_undone": ErrorCode(409, "request"),
        "rollback_history_too_long": ErrorCode(409, "request"),
        "rollback_still_referenced": ErrorCode(409, "request"),
        "rollback_of_belief_session": ErrorCode(409, "request"),
        "rollback_of_thoughts": ErrorCode(409, "request"),
        "rollback_nothing_to_undo": ErrorCode(409, "request"),
        "rollback_epoch_open": ErrorCode(409, "request"),
        "rollback_epoch_too_large": ErrorCode(409, "request"),
        "rollback_under_way": ErrorCode(409, "request"),
        "rollback_compensation_unknown": ErrorCode(409, "request"),
        "rollback_refused": ErrorCode(409, "request"),
        "operation_not_migrated": ErrorCode(409, "request"),
        "tier_1_requires_all_fully_reversible": ErrorCode(409, "request"),
        "tier_1_scope_too_wide": ErrorCode(409, "request"),
        "rebuild_checkpoint_unknown": ErrorCode(None, "request"),
        "rebuild_record_damaged": ErrorCode(None, "service"),
        "rebuild_too_much_skipped": ErrorCode(None, "service"),
        "replay_differs": ErrorCode(500, "service"),
        "replay_range_invalid": ErrorCode(None, "request"),
        "rules_version_unknown": ErrorCode(None, "service"),
        "verification_process_died": ErrorCode(None, "service", is_retryable=True),
        "proof_invalid": ErrorCode(None, "request"),
        "evidence_invalid": ErrorCode(None, "request"),
        "witness_policy_invalid": ErrorCode(None, "request"),
        "checkpoint_diverged": ErrorCode(None, "service"),
        "checkpoint_key_unusable": ErrorCode(None, "request"),
        "witnesses_not_set": ErrorCode(None, "service", may_be_taken=True),
        "witnesses_not_in_time": ErrorCode(None, "service", is_retryable=True, may_be_taken=True),
        "witness_unavailable": ErrorCode(503, "service", is_retryable=True, may_be_taken=True),
        "output_unusable": ErrorCode(None, "request"),
        "time_stamp_invalid": ErrorCode(None, "request"),
        "time_stamp_unavailable": ErrorCode(None, "service", is_retryable=True),
        "signing_key_unavailable": ErrorCode(None, "service", is_retryable=True),
        "lite_envelope_invalid": ErrorCode(None, "request"),
        # Files of JSON lines.
        "field_map_invalid": ErrorCode(None, "request"),
        "json_line_not_json": ErrorCode(None, "request"),
        "json_line_not_object": ErrorCode(None, "request"),
        "json_line_too_large": ErrorCode(None, "request"),
        "json_lines_too_many": ErrorCode(None, "request"),
        "json_lines_unreadable": ErrorCode(None, "request"),
        # The ledger.
        "ledger_went_back": ErrorCode(503, "service", is_retryable=True, may_be_taken=True),
        "ledger_head_reason_missing": ErrorCode(422, "request"),
        "ledger_unavailable": ErrorCode(503, "service", is_retryable=True, may_be_taken=True),
        "commit_outcome_unknown": ErrorCode(None, "service", may_be_taken=True),
        "archive_unavailable": ErrorCode(503, "service", is_retryable=True),
        "archive_segment_missing": ErrorCode(503, "service", is_retryable=True),
        "archive_not_configured": ErrorCode(500, "service"),
        "archive_segment_damaged": ErrorCode(500, "service"),
        "archived_content_missing": ErrorCode(503, "service", is_retryable=True),
        "archived_content_damaged": ErrorCode(500, "service"),
        "ledger_failed": ErrorCode(None, "service", may_be_taken=True),
        "machine_unfit": ErrorCode(None, "caller"),
        "ledger_corrupt": ErrorCode(500, "service"),
        "ledger_file_damaged": ErrorCode(500, "service"),
        "record_damaged": ErrorCode(500, "service"),
        "ledger_read_only": ErrorCode(None, "service"),
        "ledger_rolled_back": ErrorCode(None, "service"),
        "ledger_encoding": ErrorCode(None, "service"),
        "ledger_right_missing": ErrorCode(None, "service"),
        "ledger_shards_differ": ErrorCode(None, "service"),
        "ledger_schema_older": ErrorCode(None, "service"),
        "ledger_schema_newer": ErrorCode(None, "service"),
        "ledger_schema_altered": ErrorCode(None, "service"),
        "ledger_schema_unknown": ErrorCode(None, "service"),
        "database_url_invalid": ErrorCode(None, "caller"),
        "text_not_storable": ErrorCode(None, "request"),
        # Effects outside: what their reports on the record say.
        "external_source_restricted": ErrorCode(None, "request"),
        "external_source_withdrawn": ErrorCode(None, "request"),
        "external_sources_not_on_record": ErrorCode(None, "request"),
        "external_access_overlay_blocked": ErrorCode(None, "request"),
        "external_content_not_on_record": ErrorCode(None, "service"),
        "external_content_too_large": ErrorCode(None, "request"),
        "external_event_too_large": ErrorCode(None, "request"),
        "external_events_locked": ErrorCode(None, "service", is_retryable=True),
        "external_effect_defect": ErrorCode(None, "service", is_retryable=True),
        "external_path_invalid": ErrorCode(None, "request"),
        "external_path_occupied": ErrorCode(None, "request"),
        "external_path_unsafe": ErrorCode(None, "service"),
        "external_storage_failed": ErrorCode(None, "service", is_retryable=True),
        "external_storage_full": ErrorCode(None, "service", is_retryable=True),
        "share_link_revoked": ErrorCode(None, "request"),
        # What a client says itself, and a command before there is a service.
        "gateway_unreachable": ErrorCode(None, "service", is_retryable=True, may_be_taken=True),
        "gateway_failed": ErrorCode(None, "service", may_be_taken=True),
        "settings_invalid": ErrorCode(None, "caller"),
        "plugin_invalid": ErrorCode(None, "caller"),
        "foreign_code_ended": ErrorCode(None, "unknown"),
        "foreign_code_blocked": ErrorCode(None, "unknown"),
        "foreign_code_hangs": ErrorCode(None, "unknown"),
        "data_folder_busy": ErrorCode(None, "caller"),
        "data_folder_unusable": ErrorCode(None, "caller"),
        "data_folder_unsafe": ErrorCode(None, "caller"),
        "data_folder_not_locked": ErrorCode(None, "service"),
        "address_unusable": ErrorCode(None, "caller"),
        "redis_unavailable": ErrorCode(None, "caller"),
        "redis_of_another_ledger": ErrorCode(None, "caller"),
        "folder_of_another_ledger": ErrorCode(None, "caller"),
        "redis_data_in_use": ErrorCode(None, "caller"),
        "redis_start_failed": ErrorCode(None, "service"),
        "child_not_ready": ErrorCode(None, "service"),
        "child_died_too_often": ErrorCode(None, "service"),
        "start_interrupted": ErrorCode(None, "caller"),
        "canonical_json_invalid": ErrorCode(None, "request"),
        # The audit of pipelines.
        "data_not_canonical": ErrorCode(None, "request"),
        "data_not_finite": ErrorCode(None, "request"),
        "data_too_deep": ErrorCode(None, "request"),
        "data_too_large": ErrorCode(None, "request"),
        "data_type_unknown": ErrorCode(None, "request"),
        # What an extractor answered about a text.
        "extraction_result_invalid": ErrorCode(None, "service"),
        "extraction_result_too_large": ErrorCode(None, "service"),
        "extraction_run_not_known": ErrorCode(404, "request"),
        "extraction_source_not_isolated": ErrorCode(422, "request"),
        "extraction_source_too_large": ErrorCode(422, "request"),
        "extraction_source_unavailable": ErrorCode(404, "request"),
        "extraction_span_outside_text": ErrorCode(None, "service"),
        "extraction_span_invented": ErrorCode(None, "service"),
        "extraction_completeness_contradicted": ErrorCode(None, "service"),
        "extractor_failed": ErrorCode(None, "service"),
        "extractor_timed_out": ErrorCode(None, "service"),
        "extractor_unknown": ErrorCode(None, "request"),
        "model_not_configured": ErrorCode(None, "service"),
        # What a source binding is; V3 answers with them, and nothing else raises them at a door.
        "binding_critical_approval_missing": ErrorCode(None, "request"),
        "binding_fire_adjudicates": ErrorCode(None, "request"),
        "binding_fire_effect_not_of_target": ErrorCode(None, "request"),
        "binding_generation_unknown": ErrorCode(None, "request"),
        "binding_glob_invalid": ErrorCode(None, "request"),
        "binding_invalid": ErrorCode(None, "request"),
        "binding_lifecycle_transition_disallowed": ErrorCode(None, "request"),
        "binding_selector_list_empty": ErrorCode(None, "request"),
        # What a phase of an artifact came to; the kernel answers with them.
        "artifact_event_superseded": ErrorCode(None, "request"),
        "artifact_phase_completed": ErrorCode(None, "request"),
        "artifact_phase_invalid": ErrorCode(None, "request"),
        "artifact_phase_not_next": ErrorCode(None, "request"),
        # Kits of hypotheses, and what answers for them.
        "action_unknown": ErrorCode(None, "request"),
        "kit_invalid": ErrorCode(None, "request"),
        "kit_unknown": ErrorCode(None, "request"),
        "outcome_not_text": ErrorCode(None, "request"),
        "probe_unknown": ErrorCode(None, "request"),
        "provider_answer_invalid": ErrorCode(None, "request"),
        "provider_hypothesis_unknown": ErrorCode(None, "request"),
        "response_unknown": ErrorCode(None, "request"),
        "scenario_invalid": ErrorCode(None, "request"),
        "secret_unknown": ErrorCode(None, "request"),
        # Whatever else went wrong is a defect.
        "internal": ErrorCode(DEFECT_STATUS, "service", may_be_taken=True),
    }
)


def status_of(code: str) -> int:
    """Return the HTTP status of an answer with a code."""
    return (ERRORS[code].status if code in ERRORS else None) or DEFECT_STATUS


def is_retryable(code: str) -> bool:
    """Tell whether the same may be asked again after a code; never after an unknown one."""
    return code in ERRORS and ERRORS[code].is_retryable
