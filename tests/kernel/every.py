"""A course of valid envelopes that names every effect kind and speaks every verb."""

from typing import Any

from tests.kernel.build import adapt, create, effect, envelope, link, op_id
from tests.kernel.extractions import completeness

HASH = "ab" * 32


def dated(prefix):
    return {
        f"{prefix}_utc": "2026-02-10T01:30:00Z",
        f"{prefix}_originating_tz": "America/New_York",
        f"{prefix}_originating_calendar_date": "2026-02-09",
    }


def own(kind, target, **payload):
    """The envelope of the verb that has the kind's own name."""
    return envelope(kind, [effect(kind, target, **payload)])


def receipt(**fields):
    return effect("receipt_only", **fields)


def move(node, start, end, by, kind="membership_state_transition"):
    payload = {"corpus_id": "c", "from_state": start, "to_state": end, "triggered_by": by}
    return own(kind, node, **payload)


FIRST_ATTEMPT = op_id("first-attempt")


def attempt(number, prior, current, **fields):
    payload = {
        "attempt_number": number,
        "prior_state": prior,
        "current_state": current,
        "state_change_reason": "because",
        **completeness(prior, current),
    }
    return effect("extraction_state_transition", "run", **payload | fields)


def edge(kind, edge_id, edge_type="t"):
    return effect(kind, edge_id, source_node_id="n", target_node_id="m", edge_type=edge_type)


def index(target):
    return effect("index_update", target, index_name="i", entry={})


def verbs():
    """The verbs of §3.3, but for the recompute, which answers a request."""
    note = adapt("n", note="x")["primitive_effects"][0]
    return [
        create("n", "Note"),
        create("m", "Note"),
        create("topic", "Topic"),
        link("edge", "n", "m", "core"),
        envelope(
            "merge",
            [
                effect("node_write", "merged", node_kind="Note"),
                edge("edge_create", "e:merge"),
                effect("materialized_view_invalidation", "view", node_ref="merged"),
            ],
        ),
        envelope(
            "split",
            [
                effect("node_write", "half", node_kind="Note"),
                effect("edge_remove", "e:merge"),
                effect("materialize", "mat", materialized_path="a/b.pdf", content_hash=HASH),
            ],
        ),
        envelope("supersede", [note, edge("edge_create", "e:supersedes", "supersedes")]),
        envelope("mark_contested", [note, edge("edge_create", "e:contradicts", "contradicts")]),
        envelope("collapse", [effect("node_retract", "half")]),
        envelope("restore", [effect("node_write", "half", state="active")]),
        envelope("retract", [effect("node_write", "half", state="retracted")]),
        envelope("soft_delete", [effect("node_write", "merged", state="soft_deleted")]),
        envelope("field_lock", [effect("node_write", "n", field_lock=["title"])]),
        envelope("metadata_field_set", [effect("node_write", "n", subtitle="s")]),
        envelope("metadata_field_override", [effect("node_write", "n", title="t"), receipt()]),
        envelope("profile_assign", [effect("node_write", "n", profile="p"), receipt()]),
        envelope("field_adapt", [note]),
        envelope("annotate", [note]),
        envelope("mark_chain_complete", [note, edge("edge_create", "e:chain", "chain_complete")]),
        envelope("corpus_membership_add", [effect("membership_write", "n", corpus_id="c")]),
        envelope(
            "corpus_membership_defer",
            [effect("membership_write", "n", corpus_id="c", to_state="candidate")],
        ),
        envelope(
            "corpus_membership_confirm",
            [effect("membership_write", "n", corpus_id="c", to_state="confirmed")],
        ),
        envelope(
            "corpus_membership_reject",
            [effect("membership_write", "n", corpus_id="c", to_state="rejected")],
        ),
        envelope(
            "source_binding_create",
            [
                effect("node_write", "binding", node_kind="SourceBinding"),
                effect(
                    "edge_create",
                    "e:binding",
                    source_node_id="binding",
                    target_node_id="n",
                    edge_type="binds",
                ),
                binding(1),
            ],
        ),
        envelope(
            "source_binding_update",
            [effect("node_write", "binding", title="t"), binding(2)],
        ),
        envelope("source_binding_disable", [effect("node_write", "binding", state="disabled")]),
        envelope("binding_fire_record", [receipt(binding_id="binding")]),
        envelope("document_relationship_create", [edge("edge_create", "e:doc")]),
        envelope("document_relationship_update", [effect("edge_reclassify", "e:doc")]),
        envelope(
            "topic_assign",
            [effect("membership_write", "n", corpus_id="topics"), index("n")],
        ),
        envelope(
            "document_materialize",
            [
                effect("materialize", "mat", materialized_path="a/c.pdf", content_hash=HASH),
                index("mat"),
            ],
        ),
        envelope("search_run_record", [receipt(query="q")]),
        envelope(
            "simulate",
            [
                says(name)
                for name in (
                    "simulation_preview_emit",
                    "simulation_external_effect_policy_check",
                    "visibility_taint_warning_record",
                )
            ],
        ),
        envelope("extraction_state_change", [attempt(1, "pending", "running")])
        | {"operation_id": FIRST_ATTEMPT},
    ]


def binding(generation, binding_id="binding", **fields):
    """A generation of a binding, which selects another court each time."""
    return effect(
        "binding_generation_advance",
        binding_id,
        binding_generation_id=str(generation),
        binding_snapshot=snapshot(f"court-{generation}"),
        effective_at="2026-02-09T00:00:00Z",
        **fields,
    )


def snapshot(court_id="ca9", **changes):
    """The `binding_snapshot` of a binding that selects the entries of a court."""
    return {
        "selector_list": {"include": [{"kind": "court_id", "value": court_id}]},
        "target_kind": "court_disposition_observation",
        "corpus_id": "c",
    } | changes


def ruling(disposition="granted", targets=("unit",), observation="seen", **changes):
    """A ruling that a user confirms, on the ground of an observation."""
    stated = {
        "dispositions": [{"disposition": disposition}],
        "scope_targets": [*targets],
        **dated("ruling_date"),
        "normalized_label": disposition,
        "primary_source_citation": {"court_disposition_observation_id": observation},
        "adjudication": DECIDED,
        **changes,
    }
    return own("ruling_disposition_write", "ruling", **stated)


DECIDED = {"adjudicated_by": "A. Roe", "grounds": "read it", "basis": "user_confirmation"}


def filings():
    unit = {"filing_unit_id": "unit"}
    return [
        own("filing_unit_write", "unit", **dated("filing_date"), unknown="kept"),
        own("filing_unit_write", "gone", **dated("filing_date")),
        own("filing_unit_version_write", "v1", **unit, **dated("filing_date"), version_label="1"),
        own("filing_unit_text_version_write", "t1", **unit, text_hash=HASH),
        own(
            "filing_relationship_write",
            "r1",
            relationship_type="responds_to",
            source_filing_unit_id="unit",
            target_filing_unit_id="gone",
            lifecycle_state="candidate",
        ),
        own(
            "court_disposition_observation_write",
            "seen",
            disposition="granted",
            lifecycle_state="observed",
            **dated("docket_entry_date"),
        ),
        ruling(),
        own(
            "case_resolution_event_write",
            "event",
            event_kind="ConsolidationEvent",
            case_refs=["1", "2"],
            resolved_case_identity="1",
            **dated("event_date"),
        ),
        own("filing_unit_version_retract", "v1"),
        own("filing_unit_text_version_retract", "t1"),
        own("filing_relationship_retract", "r1"),
        own("filing_unit_retract", "gone"),
        own("ruling_disposition_retract", "ruling"),
        own("court_disposition_observation_retract", "seen"),
        own("case_resolution_event_retract", "event"),
    ]


def memberships():
    back = "membership_state_transition_"
    return [
        move("n", "rejected", "candidate", "user_reverse_rejection_event"),
        move("n", "candidate", "confirmed", "user_confirm_event"),
        move("n", "confirmed", "rejected", "user_reject_event", f"{back}reject_and_re_propose"),
        move(
            "n",
            "rejected",
            "candidate",
            "user_reverse_rejection_event",
            f"{back}reject_and_re_propose",
        ),
        move("n", "candidate", "rejected", "user_reject_event", f"{back}reject"),
        move(
            "n",
            "rejected",
            "candidate",
            "user_reverse_rejection_event",
            f"{back}reverse_rejection",
        ),
        move("n", "candidate", "policy_blocked", "policy_change_blocking", f"{back}block"),
        move("n", "policy_blocked", "candidate", "policy_change_unblocking", f"{back}unblock"),
        move("n", "candidate", "confirmed", "user_confirm_event"),
        move("n", "confirmed", "soft_deleted", "user_delete_event", f"{back}soft_delete"),
        move("n", "soft_deleted", "confirmed", "user_restore_event", f"{back}restore"),
        own("membership_revoke", "n", corpus_id="c"),
    ]


def the_rest():
    link_payload = {
        "recipient_email_hash": HASH,
        "shared_corpus_view_id": "view",
        "share_token_policy_id": "policy",
    }
    assigned = effect("topic_assignment_write", "a", topic_id="topic", node_id="n")
    return [
        own("edge_write", "e:w", source_node_id="n", target_node_id="m", edge_type="t"),
        own("attach_source_binding", "e:s", source_node_id="n", target_node_id="m", edge_type="t"),
        own("detach_source_binding", "e:s"),
        own("node_revert_to_prior_authority", "n"),
        own("index_revert", "n", index_name="i", entry={}),
        own("materialized_view_recompute", "view"),
        own("rescope", "n", visibility_scope="matter"),
        own("visibility_change", "n", visibility_class="work_product_internal"),
        own("review_disposition", "n", review_disposition="approved"),
        own("quarantine", "m", quarantine_reason="doubt"),
        own("unquarantine", "m", quarantine_reason="none"),
        own("authorize_access", "n", grantee="u"),
        own("revoke_access", "n", grantee="u"),
        own("share_link_grant", "link", **link_payload),
        own("share_link_revoke", "link", revocation_reason="left"),
        own("document_artifact_write", "art", source_artifact_kind="pdf", content_hash=HASH),
        own("materialization_emit", "mat", materialized_path="a/d.pdf", content_hash=HASH),
        envelope("topic_assignment_write", [assigned, index("a")]),
        envelope("topic_unassign", [effect("topic_unassign", "a"), index("a")]),
        own("anchor_node_promotion", "topic"),
        own("anchor_node_demotion", "topic"),
        envelope("binding_generation_advance", [binding(3)]),
        own("binding_generation_revert", "binding"),
        envelope(
            "extraction_state_change",
            [
                attempt(
                    2,
                    "running",
                    "blocked",
                    block_reason="rate_limit",
                    parent_operation_id=FIRST_ATTEMPT,
                )
            ],
        ),
    ]


def policies():
    """Two generations, both taken back, so that the first is in force again."""
    back = "policy_snapshot_revert"
    return [
        own("policy_snapshot_advance", "PG-2", prior_policy_generation_id="PG-1"),
        own("policy_reclassify", "PG-3", prior_policy_generation_id="PG-2")
        | {"policy_generation_id": "PG-2"},
        own(back, "PG-3") | {"policy_generation_id": "PG-3"},
        own(back, "PG-2") | {"policy_generation_id": "PG-2"},
    ]


TAKEN_BACK = {"original_operation_id": "op-undone", "inverse_operation_id": "op-inverse"}
SAYS: dict[str, dict[str, Any]] = {
    "tier_1_rollback": TAKEN_BACK,
    "tier_2_rollback": {
        "epoch_id": "epoch",
        "user_confirmation_token": "",
        "compensations_applied": [],
        "partial_external_effects_persist": [],
        "plan_digest": HASH,
        "page": 1,
        "undone_from_sequence": "1",
        "operations_left": 0,
    },
    "rollback_partial_external_effect_persists": {"epoch_id": "epoch", "descriptors": ["a file"]},
    "tier_3_rebuild": {
        "checkpoint_ec_sequence_number": "0",
        "architect_confirmation_token": "t",
        "irreversible_skipped": [],
        "state_digest": HASH,
        "records_replaced": 0,
        "replaced": [],
    },
    "simulation_preview_emit": {
        "preview_id": "preview:1",
        "simulated_operation_id": "op-simulated",
        "simulation_visibility_taint": "public_open",
        "policy_generation_id": "PG-1",
        "session_profile_hash": "",
        "preview_state": {
            "preview_kind": "node_write_preview",
            "preview_payload": {},
            "affected_node_refs": [],
            "effect_kind_set": [],
            "estimated_capacity_cost": 0.05,
        },
        "retention_class": "ephemeral",
    },
    "simulation_external_effect_policy_check": {
        "policy_id": "none",
        "forbidden_external_effects": [],
        "allowed_external_effects": [],
        "on_violation": "block_with_receipt",
        "violations": [],
        "outcome": "passed",
        "preview_id": "preview:1",
        "retention_class": "ephemeral",
    },
    "visibility_taint_warning_record": {
        "preview_id": "preview:1",
        "source_visibility_taint_distinct": ["sealed"],
        "resolved_output_visibility_class": "sealed",
    },
    "search_run_record": {"query": "q"},
    "binding_fire_record": {"binding_id": "b"},
    "source_span_unavailable": {
        "cu_node_ref": "cu",
        "reason": "model_output_no_span_anchors",
        "source_doc_refs": [],
    },
    "binding_evaluation_manifest": {
        "manifest_id": "manifest",
        "source_event_id": "event",
        "evaluated_at": "2026-02-09T00:00:00.000000Z",
        "binding_outcomes": [],
        "bindings_evaluated_count": 0,
        "bindings_deferred_count": 0,
        "bindings_suspended_count": 0,
        "fan_out_cap": 50,
        "binding_generations": [],
        "semantic_conflicts": [],
        "policy_generation_id": "PG-1",
    },
    "review_item_discarded": {"item_receipt_id": "receipt:1", "reason": "r"},
    "access_overlay_override": {"overlay_ids": ["o"], "reason": "r"},
}
"""What receipts of a kind say where a test cares for the kind alone."""


def says(kind):
    """The effect that emits a receipt of a kind."""
    return receipt(**SAYS.get(kind, {})) | {"receipt_subkind": kind, "effect_id": kind}


def states(verb, *kinds, **changes):
    """An envelope that emits these receipts and does nothing else."""
    effects = [says(kind) for kind in kinds]
    return envelope(verb, effects, **changes)


def boundaries():
    """Epochs, and what the runtime says of undoing; real undoing is tested where it is done."""
    persists = "rollback_partial_external_effect_persists"
    quarantine = own("quarantine", "m", quarantine_reason="doubt")
    return [
        states("epoch_open", "epoch_opened", epoch_id="epoch"),
        quarantine | {"epoch_id": "epoch"},
        states("epoch_close", "epoch_closed", epoch_id="epoch"),
        own("unquarantine", "m", quarantine_reason="none")
        | {"compensates_operation_id": quarantine["operation_id"]},
        states("rollback", "tier_1_rollback"),
        states("epoch_rollback", "tier_2_rollback", persists),
        states("rebuild", "tier_3_rebuild"),
    ]


def every_kind():
    """Valid in this order on a new ledger."""
    return [*verbs(), *filings(), *memberships(), *the_rest(), *policies(), *boundaries()]
