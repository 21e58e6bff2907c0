"""The registry of effect kinds holds what the specification names, and is closed."""

import itertools

import pytest

from kernel.algebra.effects import EFFECT_KINDS, expected_compensations, expected_reversibility
from kernel.algebra.simulation_support import NOT_SIMULATABLE
from kernel.algebra.transitions import PREFIX, STATES, STEPS_OF_KIND, TRANSITIONS
from kernel.algebra.verbs import (
    BATCH_REVIEW,
    BELIEF_ANCHOR,
    ENQUEUE,
    IMPLICATION_HALT,
    IMPLICATION_RESUME,
    IMPLICATION_RUN,
    KEY_HANDOVER,
    LANDSCAPE_SEAL,
    MEMBERSHIP_DEFER,
    OPERATION_KINDS,
    OPERATOR_VERBS,
    RECEIPTS_SEAL,
    REPORT_VERB,
    REVIEW_DISCARD,
    SEMANTIC_VERBS,
    THOUGHT_VERBS,
)

KINDS_OF_4_2 = {
    "node_write",
    "edge_write",
    "membership_write",
    "document_artifact_write",
    "index_update",
    "materialized_view_invalidation",
    "receipt_only",
    "filing_unit_write",
    "filing_unit_version_write",
    "filing_unit_text_version_write",
    "share_link_grant",
    "share_link_revoke",
    "materialization_emit",
    "extraction_state_transition",
    "court_disposition_observation_write",
    "filing_relationship_write",
    "topic_assignment_write",
    "anchor_node_promotion",
    "policy_snapshot_advance",
    "ruling_disposition_write",
    "membership_state_transition",
    "binding_generation_advance",
    "case_resolution_event_write",
}

PRIMITIVES_OF_3_2 = {
    "node_write": "node_write",
    "edge_create": "edge_write",
    "edge_remove": "edge_write",
    "edge_reclassify": "edge_write",
    "membership_write": "membership_write",
    "document_artifact_write": "document_artifact_write",
    "index_update": "index_update",
    "materialized_view_invalidation": "materialized_view_invalidation",
    "receipt_only": "receipt_only",
    "rescope": "node_write",
    "visibility_change": "node_write",
    "policy_reclassify": "policy_snapshot_advance",
    "quarantine": "node_write",
    "materialize": "materialization_emit",
    "attach_source_binding": "edge_write",
    "detach_source_binding": "edge_write",
    "authorize_access": "node_write",
    "review_disposition": "node_write",
}

INVERSES_NAMED = {
    "node_retract",
    "edge_remove",
    "membership_revoke",
    "index_revert",
    "filing_unit_retract",
    "filing_unit_version_retract",
    "filing_unit_text_version_retract",
    "share_link_revoke",
    "court_disposition_observation_retract",
    "filing_relationship_retract",
    "topic_unassign",
    "anchor_node_demotion",
    "policy_snapshot_revert",
    "ruling_disposition_retract",
    "binding_generation_revert",
    "case_resolution_event_retract",
    "unquarantine",
    "revoke_access",
    "materialized_view_recompute",
    "node_revert_to_prior_authority",
    "membership_state_transition_reject_and_re_propose",
}


@pytest.mark.spec("K1", "§4.2")
def test_the_canonical_kinds_are_the_twenty_three():
    assert len(KINDS_OF_4_2) == 23
    assert {kind.canonical for kind in EFFECT_KINDS.values()} == KINDS_OF_4_2


@pytest.mark.spec("K1", "§3.2")
def test_the_eighteen_primitive_verbs_have_their_canonical_kinds():
    assert len(PRIMITIVES_OF_3_2) == 18
    for name, canonical in PRIMITIVES_OF_3_2.items():
        assert EFFECT_KINDS[name].canonical == canonical


@pytest.mark.spec("K2")
@pytest.mark.parametrize("name", sorted(INVERSES_NAMED))
def test_an_inverse_or_compensating_operation_that_is_named_is_an_entry(name):
    assert name in EFFECT_KINDS


@pytest.mark.spec("K3", "§4.4")
@pytest.mark.parametrize("kind", EFFECT_KINDS.values(), ids=EFFECT_KINDS)
def test_what_leads_back_is_there_as_the_reversibility_says(kind):
    assert bool(kind.inverses) == (kind.reversibility == "fully_reversible")
    assert bool(kind.compensations) == (kind.reversibility == "compensating_operation_only")
    for inverse in kind.inverses:
        assert kind.name in EFFECT_KINDS[inverse].inverses
    for name in kind.compensations:
        assert EFFECT_KINDS[name].store == kind.store
    if kind.companion is not None:
        assert kind.companion in EFFECT_KINDS


@pytest.mark.spec("§4.3.19")
@pytest.mark.parametrize("step", list(itertools.product(STATES, STATES)))
def test_a_transition_is_made_up_for_by_a_kind_that_starts_where_it_ends(step):
    payload = {"from_state": step[0], "to_state": step[1]}
    named = expected_compensations(PREFIX, payload)
    if step not in TRANSITIONS:
        assert named == EFFECT_KINDS[PREFIX].compensations
        return
    [back] = named
    starts = {start for start, _ in STEPS_OF_KIND[back]}
    # What was deleted while it was blocked comes back as it was before, not as blocked.
    assert step[1] in starts
    assert set(STEPS_OF_KIND[back]) <= set(TRANSITIONS)


@pytest.mark.spec("§4.3.3", "§4.3.19")
def test_the_disallowed_transitions_are_not_in_the_table():
    for step in (
        ("confirmed", "candidate"),
        ("rejected", "confirmed"),
        ("soft_deleted", "candidate"),
    ):
        assert step not in TRANSITIONS


# Verbs

VERBS_OF_3_3 = {
    "create": {"node_write", "membership_write"},
    "merge": {"node_write", "edge_create", "materialized_view_invalidation"},
    "split": {"node_write", "edge_remove", "materialize"},
    "supersede": {"node_write", "edge_create"},
    "mark_contested": {"node_write", "edge_create"},
    "collapse": {"node_retract"},
    "retract": {"node_write"},
    "restore": {"node_write"},
    "field_lock": {"node_write"},
    "field_adapt": {"node_write"},
    "annotate": {"node_write"},
    "recalculate_authority": {"node_write", "index_update"},
    "soft_delete": {"node_write"},
    "mark_chain_complete": {"edge_create", "node_write"},
    "corpus_membership_add": {"membership_write"},
    "corpus_membership_confirm": {"membership_write"},
    "corpus_membership_reject": {"membership_write"},
    "source_binding_create": {"node_write", "edge_create"},
    "source_binding_update": {"node_write"},
    "source_binding_disable": {"node_write"},
    "binding_fire_record": {"receipt_only"},
    "profile_assign": {"node_write", "receipt_only"},
    "metadata_field_set": {"node_write"},
    "metadata_field_override": {"node_write", "receipt_only"},
    "document_relationship_create": {"edge_create"},
    "document_relationship_update": {"edge_reclassify"},
    "topic_assign": {"membership_write", "index_update"},
    "document_materialize": {"materialize", "index_update"},
    "search_run_record": {"receipt_only"},
    "simulate": {"receipt_only"},
    "extraction_state_change": {"extraction_state_transition"},
}

FORBIDDEN_EXCERPT = {
    "simulate": """node_write edge_create edge_remove membership_write document_artifact_write
        materialize materialization_emit share_link_grant share_link_revoke filing_unit_write
        filing_unit_version_write ruling_disposition_write court_disposition_observation_write
        binding_generation_advance policy_snapshot_advance""",
    "search_run_record": "node_write edge_create membership_write materialize",
    "binding_fire_record": "node_write",
    "extraction_state_change": "node_write",
}


@pytest.mark.spec("§3.3")
def test_the_thirty_one_verbs_decompose_as_the_specification_says():
    assert len(VERBS_OF_3_3) == 31
    for name, kinds in VERBS_OF_3_3.items():
        assert set(SEMANTIC_VERBS[name].requires) == kinds


OBSERVED = {
    *(REPORT_VERB, REVIEW_DISCARD, BATCH_REVIEW, ENQUEUE, BELIEF_ANCHOR),
    *(IMPLICATION_RUN, IMPLICATION_HALT, IMPLICATION_RESUME),
    LANDSCAPE_SEAL,
    *THOUGHT_VERBS,
    *OPERATOR_VERBS,
    *(KEY_HANDOVER, RECEIPTS_SEAL),
}


@pytest.mark.spec("K28")
def test_every_kind_is_reached_by_a_verb_and_what_none_reached_has_one_of_its_name():
    assert {kind for verb in SEMANTIC_VERBS.values() for kind in verb.requires} == {*EFFECT_KINDS}
    boundaries = {"rollback", "epoch_rollback", "rebuild", "epoch_open", "epoch_close"}
    own = SEMANTIC_VERBS.keys() - VERBS_OF_3_3.keys() - boundaries - OBSERVED
    own -= {MEMBERSHIP_DEFER}  # of §14.4
    assert own == EFFECT_KINDS.keys() - set().union(*VERBS_OF_3_3.values())
    assert {"share_link_grant", "share_link_revoke", "visibility_change"} <= own


@pytest.mark.spec("§3.6")
@pytest.mark.parametrize("name", FORBIDDEN_EXCERPT)
def test_the_forbidden_kinds_that_the_specification_names_are_forbidden(name):
    assert set(FORBIDDEN_EXCERPT[name].split()) <= SEMANTIC_VERBS[name].forbids


@pytest.mark.spec("K29")
def test_every_operation_kind_knows_how_far_it_can_be_simulated():
    levels = {kind.name: kind.simulation_support_level for kind in OPERATION_KINDS.values()}
    refused = {name for name, level in levels.items() if level == NOT_SIMULATABLE}
    boundaries = {"rollback", "epoch_rollback", "rebuild", "epoch_open", "epoch_close"}
    manifest = "binding_evaluation_manifest_emit"
    assert refused == {"simulate", manifest, *OBSERVED, *boundaries}
    assert "synthesize_consolidated_understanding" in levels


DRAWN = dict.fromkeys(["source_spans", "span", "source_refs", "source_ref"], "source")
LEAVES = {"content_node_ref": "sent"}
NAMES: dict[str, dict[str, str]] = {
    "edge_write": dict.fromkeys(["source_node_id", "target_node_id"], "link"),
    "membership_write": {"corpus_id": "link"},
    "membership_state_transition": {"corpus_id": "link"},
    "materialized_view_invalidation": {"node_ref": "link"},
    "receipt_only": {"source_doc_refs": "source", "cu_node_ref": "link"},
    "filing_unit_version_write": {"filing_unit_id": "link"},
    "filing_unit_text_version_write": {"filing_unit_id": "link"},
    "filing_relationship_write": dict.fromkeys(
        ["source_filing_unit_id", "target_filing_unit_id"], "link"
    ),
    "document_artifact_write": LEAVES,
    "materialization_emit": LEAVES,
    "share_link_grant": {"shared_corpus_view_id": "shared", "share_token_policy_id": "link"},
    "topic_assignment_write": dict.fromkeys(["topic_id", "node_id"], "link"),
    "policy_snapshot_advance": {"prior_policy_generation_id": "link"},
    "ruling_disposition_write": {"scope_targets": "link"},
    "case_resolution_event_write": dict.fromkeys(["case_refs", "resolved_case_identity"], "link"),
    "extraction_state_transition": dict.fromkeys(
        ["parent_operation_id", "replaces_extraction_run_id"], "link"
    ),
    "binding_generation_advance": {"binding_generation_id": "link"},
}
"""What the payloads of §4.3 name, and what happens to it: drawn from, sent, shared, or named."""


@pytest.mark.spec("§4.3", "§7.6", "§9.3")
@pytest.mark.parametrize("kind", EFFECT_KINDS.values(), ids=EFFECT_KINDS)
def test_a_kind_says_what_its_payload_names_and_what_becomes_of_it(kind):
    assert kind.references == DRAWN | NAMES.get(kind.canonical, {})


@pytest.mark.spec("§3.2", "§4.2", "§4.3.1")
def test_the_kinds_are_as_reversible_as_the_tables_of_the_specification_say():
    by = {
        name: {kind.name for kind in EFFECT_KINDS.values() if kind.reversibility == name}
        for name in {kind.reversibility for kind in EFFECT_KINDS.values()}
    }
    transitions = {name for name in EFFECT_KINDS if name.startswith("membership_state_transition")}
    assert by["compensating_operation_only"] == transitions | {
        *("quarantine", "unquarantine", "authorize_access", "revoke_access", "share_link_revoke")
    }
    assert by["receipt_only"] == {"receipt_only", "extraction_state_transition"}
    assert by["irreversible_external_effect"] == {
        *("document_artifact_write", "materialization_emit", "materialize", "share_link_grant")
    }
    assert by.keys() - {"fully_reversible"} == {
        *("compensating_operation_only", "receipt_only", "irreversible_external_effect")
    }
    for node_kind in ("ShareTokenPolicy", "MaterializedArtifactRef"):
        overridden = expected_reversibility("node_write", node_kind)
        assert overridden == "irreversible_external_effect"
    assert expected_reversibility("node_write", "Note") == "fully_reversible"
    assert expected_reversibility("node_write", None) == "fully_reversible"


@pytest.mark.spec("§4.2", "§4.3.15")
def test_topics_alone_have_an_index_entry_beside_them():
    companions = {kind.name: kind.companion for kind in EFFECT_KINDS.values() if kind.companion}
    assert companions == dict.fromkeys(["topic_assignment_write", "topic_unassign"], "index_update")
