"""A simulation shows what would happen, leaves receipts, and changes nothing else (§11)."""

import orjson
import pytest

from kernel.algebra.simulation_support import (
    MODEL_PERMITTED,
    NOT_SIMULATABLE,
    SIMULATION_SUPPORT_LEVELS,
    simulation_support_level,
)
from kernel.algebra.verbs import OPERATION_KINDS
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.receipts import purge_expired
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.memory import MemoryStore
from kernel.model.envelope import KernelEffect
from kernel.model.model_output import RecordedModelOutput, fingerprint
from kernel.model.result import RejectedResult, SubmissionResult
from kernel.model.simulation import ALL_FORBIDDEN, SimulationPrediction
from kernel.model.simulation_payloads import PREVIEW_PAYLOADS
from kernel.simulate.external_effects import external_effects_of
from kernel.simulate.operation import simulate_operation
from kernel.simulate.preview import preview_kind_of
from kernel.transaction.kernel import Kernel
from kernel.verify import verify
from tests.kernel.build import (
    HOUR_US,
    START_US,
    FakeHost,
    accept,
    adapt,
    changed,
    code_of,
    create,
    effect,
    envelope,
    everything,
    informed,
    link,
    memory_ledger,
    receipts_of_kind,
    recompute,
    spans,
    submit,
    twin,
)
from tests.kernel.every import HASH, attempt, binding, dated, edge, own, receipt, ruling, says
from tests.kernel.simulations import NOTHING_FORBIDDEN, policy, shown, simulate

STATE = [table.name for table in schema.STATE_TABLES]
RECORDING = {
    "kernel_event_log",
    "applied_effects",
    "blobs",
    "causal_parents",
    "receipts",
    "ephemeral_receipts",
    "idempotency_records",
    "chain_head",
    "daily_operation_counts",
}
"""What a simulation writes: its own operation and receipts, and nothing else."""

HALTS = policy(forbidden_external_effects=ALL_FORBIDDEN.forbidden_external_effects)
ALERTS = policy(
    forbidden_external_effects=ALL_FORBIDDEN.forbidden_external_effects,
    on_violation="alert_and_proceed_in_dev_mode",
)


@pytest.fixture(scope="module")
def written():
    fake = FakeHost()
    ledger = memory_ledger(fake)
    accept(ledger, create("n", "Note"), create("m", "Note"), create("topic", "Topic"))
    accept(ledger, create("cu", "ConsolidatedUnderstanding"), create("cl", "VersionedClaim"))
    return ledger, fake


@pytest.fixture
def ledger(written):
    return twin(*written)[0]


def restricted(ledger, node_id, visibility):
    accept(ledger, create(node_id, "Note", visibility_class=visibility))


def sourced(document, *refs, taint=()):
    resolved = {"resolved_output_visibility_class": taint[-1]} if taint else {}
    return document | {"source_refs": list(refs), "source_visibility_taint": list(taint)} | resolved


def envelope_of(ledger, result):
    with ledger.view() as view:
        return view.envelope(result.submission.operation_id)


def prediction(*effects, **output):
    effects = effects or ("ephemeral_local_llm_call",)
    return SimulationPrediction(external_effects=effects, output=output)


def model_output(**changes):
    fields = {
        "recorded_output_id": "RMO-SIM-1",
        "model_version": "local:1",
        "model_provider": "local",
        "prompt_hash": HASH,
        "prompt_hash_includes_wrapped_content": True,
        "parameter_hash": HASH,
        "fingerprint_combined": fingerprint("local:1", HASH, HASH),
        "output_payload_blob_ref": HASH,
        "recorded_at": "2026-05-02T10:00:00.000000Z",
        "recorded_by_operation_id": "whoever",
        **changes,
    }
    return RecordedModelOutput(**fields)


def add(node="n", corpus="corpus:new", **changes):
    membership = effect("membership_write", node, corpus_id=corpus, to_state="candidate")
    return envelope("corpus_membership_add", [membership], **changes)


def untouched(before, after, besides=RECORDING):
    return {name for name in before if before[name] != after[name]} <= besides


# --- eligibility (§11.4) ----------------------------------------------------------------------


@pytest.mark.spec("§11.4", "K29")
def test_every_operation_kind_has_been_given_a_level_and_no_other_kind_has():
    assert SIMULATION_SUPPORT_LEVELS.keys() == OPERATION_KINDS.keys()


@pytest.mark.spec("§11.4", "K29")
def test_a_kind_that_nobody_has_listed_is_not_simulatable():
    assert simulation_support_level("no_such_kind") == NOT_SIMULATABLE


@pytest.mark.spec("V4-G-1")
def test_a_model_may_be_asked_for_what_depends_on_what_it_would_say():
    permitted = {k for k, level in SIMULATION_SUPPORT_LEVELS.items() if level == MODEL_PERMITTED}
    assert permitted == {"corpus_membership_add", "synthesize_consolidated_understanding"}


@pytest.mark.spec("§11.5")
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"operation_kind": "simulate"}, "operation_kind_marked_not_simulatable_v1_6"),
        ({"operation_kind": "nonsense"}, "operation_kind_marked_not_simulatable_v1_6"),
        ({"operation_kind": 7}, "operation_kind_marked_not_simulatable_v1_6"),
        ({"operation_kind": "x" * 600}, "operation_kind_marked_not_simulatable_v1_6"),
        ({"operation_kind": "annotate\ud800"}, "operation_kind_marked_not_simulatable_v1_6"),
        ({"primitive_effects.0.effect_kind": "nonsense"}, "operation_has_untyped_effects"),
        ({"primitive_effects.0.effect_kind": None}, "operation_has_untyped_effects"),
        ({"primitive_effects": [7]}, "operation_has_untyped_effects"),
        ({"primitive_effects": None}, "operation_has_untyped_effects"),
    ],
)
def test_what_cannot_be_simulated_leaves_a_durable_receipt_and_nothing_else(
    ledger, changes, reason
):
    before = everything(ledger)
    result = simulate(ledger, changed(adapt("n", x=1), changes))
    assert (result.outcome, result.reason, result.preview) == ("not_supported", reason, None)
    after = everything(ledger)
    assert untouched(before, after, {"receipts", "chain_head"})
    [said] = receipts_of_kind(ledger, "simulation_not_supported_for_operation_kind")
    assert said["reason"] == reason
    assert said["receipt_id"] == result.receipt_id
    assert result.document() == {
        "outcome": "not_supported",
        "reason": reason,
        "receipt_id": result.receipt_id,
    }


@pytest.mark.spec("§11.5")
@pytest.mark.parametrize("document", [None, "text", 7, [], {}])
def test_what_is_no_envelope_at_all_is_not_supported(ledger, document):
    assert simulate(ledger, document).outcome == "not_supported"


# --- nothing durable but receipts (INV-G-SIM-1) -----------------------------------------------


@pytest.mark.spec("INV-G-SIM-1", "V3-AT-10")
@pytest.mark.parametrize("retention", ["ephemeral", "durable"])
def test_a_simulation_changes_no_state_and_asks_for_no_work(ledger, retention):
    before = everything(ledger)
    state = shown(simulate(ledger, link("e", "cl", "cu"), retention=retention))
    assert state.preview_payload.would_request_recompute_of == ("cu",)
    after = everything(ledger)
    assert untouched(before, after)
    assert {name: after[name] for name in STATE} == {name: before[name] for name in STATE}
    assert after["outbox"] == before["outbox"]
    assert after["pre_images"] == before["pre_images"]
    assert len(after["kernel_event_log"]) == len(before["kernel_event_log"]) + 1


@pytest.mark.spec("INV-G-SIM-1", "V3-AT-10")
def test_a_file_takes_back_what_was_tried_as_memory_does(tmp_path):
    store = SqliteStore(tmp_path / "ledger.db")
    ledger = Ledger.create(store, FakeHost().host)
    accept(ledger, create("cu", "ConsolidatedUnderstanding"), create("cl", "VersionedClaim"))
    before = everything(ledger)
    with ledger.transaction() as transaction:
        for number in range(2):
            document = link(f"e:{number}", "cl", "cu")
            arguments = (Kernel(), transaction, document, NOTHING_FORBIDDEN, HASH)
            assert simulate_operation(*arguments).outcome == "previewed"
            seen = informed(transaction, adapt("cl", x=number))
            result = Kernel().submit(transaction, seen, "caller")
            assert code_of(result) is None
    after = everything(ledger)
    assert after["edges"] == before["edges"] == []
    assert [row["semantic_intent"] for row in after["kernel_event_log"][2:]] == [
        *("simulate", "field_adapt"),
        *("simulate", "field_adapt"),
    ]
    with ledger.view() as view:
        verification = verify(view)
    assert verification.ok, verification.findings
    store.close()


@pytest.mark.spec("V3-AT-10", "§11.9")
def test_composed_simulations_change_no_state_either(ledger):
    before = everything(ledger)
    first = simulate(ledger, adapt("n", x=1))
    second = simulate(ledger, sourced(adapt("n", x=2), first.preview.preview_id))
    simulate(ledger, sourced(adapt("n", x=3), second.preview.preview_id))
    assert untouched(before, everything(ledger))


@pytest.mark.spec("INV-G-SIM-1")
def test_a_change_of_the_policy_that_is_only_simulated_does_not_take_force(ledger):
    move = own("policy_snapshot_advance", "PG-2", prior_policy_generation_id="PG-1")
    result = simulate(ledger, move)
    assert shown(result).preview_payload.to_policy_generation_id == "PG-2"
    assert result.preview.policy_generation_id == "PG-1"
    accept(ledger, adapt("n", x=1))


@pytest.mark.spec("INV-G-SIM-1", "V4-A-SIM-COMPOSE")
def test_a_simulation_is_an_operation_of_receipts_on_the_log(ledger):
    result = simulate(ledger, adapt("n", x=1))
    document = envelope_of(ledger, result)
    assert (document["operation_kind"], document["semantic_intent"]) == ("simulate", "simulate")
    assert {
        primitive_effect["effect_kind"] for primitive_effect in document["primitive_effects"]
    } == {"receipt_only"}
    assert document["write_set_refs"] == []
    assert document["affected_subgraph_descriptor"]["scope_kind"] == "subgraph_within_corpus"
    assert document["affected_subgraph_descriptor"]["affected_node_refs"] == ["n"]
    assert result.submission.operation_id == result.preview.simulated_operation_id


@pytest.mark.spec("§11.7")
def test_a_simulation_has_an_operation_of_its_own_each_time(ledger):
    document = adapt("n", x=1)
    first, other = simulate(ledger, document), simulate(ledger, document)
    ids = {first.submission.operation_id, other.submission.operation_id, document["operation_id"]}
    assert len(ids) == 3
    accept(ledger, document)


@pytest.mark.spec("§11.5")
def test_what_a_simulation_wrote_verifies(ledger):
    accept(ledger, link("e", "cl", "cu"))
    simulate(ledger, adapt("cl", authority=0.5))
    simulate(ledger, adapt("cl", authority=0.5), retention="durable")
    simulate(ledger, own("share_link_grant", "link"), HALTS)
    simulate(ledger, "nothing")
    with ledger.view() as view:
        verification = verify(view)
    assert verification.ok, verification.findings


# --- the preview is what happens --------------------------------------------------------------


@pytest.mark.spec("§11.2", "§11.5")
def test_a_preview_shows_the_record_before_and_after(ledger):
    state = shown(simulate(ledger, adapt("n", x=1)))
    [change] = state.preview_payload.changes
    assert (change.store, change.record_key) == ("nodes", "n")
    assert change.effect_kinds == ("node_write",)
    assert (change.before["version"], change.after["version"]) == (1, 2)
    assert change.after["payload"] == {**change.before["payload"], "x": 1}
    assert "updated_at" not in change.after
    [node] = state.preview_payload.nodes
    assert node.changed_fields == ("x",)
    assert state.affected_node_refs == ("n",)
    assert state.effect_kind_set == ("node_write",)


@pytest.mark.spec("§11.2")
def test_the_cost_of_an_operation_counts_its_effects_and_the_recomputes_it_causes(ledger):
    assert shown(simulate(ledger, adapt("n", x=1))).estimated_capacity_cost == 0.05
    assert shown(simulate(ledger, link("e", "cl", "cu"))).estimated_capacity_cost == 0.1


@pytest.mark.spec("§11.5")
@pytest.mark.parametrize(
    ("changes", "check", "code"),
    [
        ({"envelope_version": "9"}, "V1", "envelope_schema_invalid"),
        ({"source_refs": ["\ud800"]}, "V1", "envelope_schema_invalid"),
        ({"actor": "specialist"}, "V1", "envelope_actor_unauthorized"),
        ({"semantic_intent": ""}, "V3", "envelope_unknown_semantic_verb"),
        ({"affected_subgraph_descriptor.scope_kind": "x"}, "V4", None),
        ({"affected_subgraph_descriptor": {}}, "V4", "envelope_scope_descriptor_missing"),
        ({"policy_generation_id": ""}, "V5", "envelope_policy_generation_stale"),
        (
            {"resolved_output_visibility_class": ""},
            "V8",
            "envelope_taint_resolution_invalid",
        ),
        (
            {"primitive_effects.0.reversibility": "perhaps"},
            "V10",
            "envelope_effect_reversibility_invalid",
        ),
        ({"policy_generation_id": "PG-0"}, "V5", "envelope_policy_generation_stale"),
        (
            {
                "primitive_effects.0.target_ref": "nobody",
                "affected_subgraph_descriptor.scope_kind": "node_with_neighbors",
                "affected_subgraph_descriptor.affected_node_refs": ["n", "nobody"],
            },
            "apply",
            "node_not_found",
        ),
    ],
)
def test_a_preview_of_what_would_be_refused_says_by_which_check(ledger, changes, check, code):
    before = everything(ledger)
    state = shown(simulate(ledger, changed(adapt("n", x=1), changes)))
    assert state.would_be_rejected.check == check
    assert code in (None, state.would_be_rejected.reason_code)
    assert state.preview_payload.changes == ()
    assert state.affected_node_refs == ()
    assert untouched(before, everything(ledger))
    assert not receipts_of_kind(ledger, "envelope_validation_failed")


@pytest.mark.spec("K18")
def test_what_a_caller_may_not_submit_is_shown_to_a_caller_as_refused(ledger):
    move = own("policy_snapshot_advance", "PG-2", prior_policy_generation_id="PG-1")
    refused = shown(simulate(ledger, move, submitter="caller")).would_be_rejected
    assert refused.reason_code == "envelope_actor_unauthorized"
    agent = simulate(ledger, adapt("n", x=1) | {"actor": "agent"}, submitter="caller")
    assert shown(agent).would_be_rejected.reason_code == "envelope_actor_unauthorized"
    assert envelope_of(ledger, agent)["actor"] == "user"


@pytest.mark.spec("§11.5")
def test_what_is_on_the_record_already_would_be_answered_and_not_done_again(ledger):
    document = adapt("n", x=1)
    accept(ledger, document)
    result = simulate(ledger, document)
    refused = shown(result).would_be_rejected
    assert (refused.check, refused.reason_code) == ("V2", "envelope_already_recorded")
    parents = envelope_of(ledger, result)["causal_parent_operation_ids"]
    assert parents == [document["operation_id"]]


@pytest.mark.spec("§11.2")
def test_records_too_large_to_show_are_shown_by_their_hashes(ledger):
    for value in ("x" * 400_000, [[[[[[[[[[[[[[[[["deep"]]]]]]]]]]]]]]]]]):
        result = simulate(ledger, adapt("n", value=value), retention="durable")
        payload = shown(result).preview_payload
        assert payload.records_left_out
        [change] = payload.changes
        assert change.after is None
        assert change.after_hash
        assert change.before_hash


# --- the nine kinds (§11.2) -------------------------------------------------------------------


def of_every_preview_kind(ledger):
    accept(ledger, create("s", "Note", content="s"))
    accept(
        ledger,
        envelope(
            "source_binding_create",
            [
                effect("node_write", "b", node_kind="SourceBinding"),
                edge("edge_create", "eb"),
                binding(1, "b"),
            ],
        ),
    )
    seen = {"disposition": "granted", "lifecycle_state": "observed"}
    accept(
        ledger,
        own("court_disposition_observation_write", "seen", **seen, **dated("docket_entry_date")),
    )
    fired = envelope("binding_fire_record", [receipt(binding_id="b")], source_refs=["n"])
    understood = create(
        "cu-2",
        "ConsolidatedUnderstanding",
        envelope={"operation_kind": "synthesize_consolidated_understanding"},
        **spans("s"),
    )
    policies = own("policy_snapshot_advance", "PG-2", prior_policy_generation_id="PG-1")
    return {
        "node_write_preview": create("new", "Note"),
        "edge_write_preview": link("e", "cl", "cu"),
        "binding_fire_preview": fired,
        "membership_change_preview": add(),
        "ruling_disposition_preview": ruling(),
        "extraction_outcome_preview": envelope(
            "extraction_state_change", [attempt(1, "pending", "running")]
        ),
        "search_plan_preview": envelope("search_run_record", [receipt(query="fiduciary")]),
        "rollup_generation_preview": understood,
        "policy_change_preview": policies,
    }


EXPECTED = {
    "node_write_preview": {
        "nodes": [
            {
                "node_id": "new",
                "node_kind": "Note",
                "state_after": "active",
                "visibility_class_after": "public_open",
            }
        ]
    },
    "edge_write_preview": {
        "edges": [
            {
                "edge_id": "e",
                "source_ref": "cl",
                "target_ref": "cu",
                "edge_type": "informs",
                "state_after": "active",
            }
        ]
    },
    "binding_fire_preview": {"binding_id": "b", "fires_on": ["n"], "stated": {"binding_id": "b"}},
    "membership_change_preview": {
        "membership_add_target": "corpus:new",
        "new_member": "n",
        "moves": [{"corpus_id": "corpus:new", "node_id": "n", "to_state": "candidate"}],
    },
    "ruling_disposition_preview": {
        "target_ref": "ruling",
        "state_after": "active",
        "dispositions": [{"disposition": "granted"}],
        "scope_targets": ["unit"],
    },
    "extraction_outcome_preview": {
        "extraction_run_id": "run",
        "attempt_number": 1,
        "prior_state": "pending",
        "current_state": "running",
    },
    "search_plan_preview": {"plan": {"query": "fiduciary"}},
    "rollup_generation_preview": {
        "rollup_ref": "cu-2",
        "rollup_kind": "ConsolidatedUnderstanding",
        "inputs": ["s"],
    },
    "policy_change_preview": {
        "from_policy_generation_id": "PG-1",
        "to_policy_generation_id": "PG-2",
        "generation": 2,
    },
}


@pytest.mark.spec("V4-G-2", "§11.2")
@pytest.mark.parametrize("kind", PREVIEW_PAYLOADS)
def test_each_kind_of_preview_shows_what_its_kind_is_about(ledger, kind):
    state = shown(simulate(ledger, of_every_preview_kind(ledger)[kind]))
    assert state.would_be_rejected is None
    assert state.preview_kind == kind
    document = state.model_dump(mode="json", exclude_none=True)["preview_payload"]
    for name, expected in EXPECTED[kind].items():
        stated_document = document[name]
        if isinstance(expected, list) and expected and isinstance(expected[0], dict):
            stated_document = [{k: entry[k] for k in expected[0]} for entry in stated_document]
        assert stated_document == expected, name


@pytest.mark.spec("V4-G-2")
@pytest.mark.parametrize(
    "kind", [k for k, level in SIMULATION_SUPPORT_LEVELS.items() if level != NOT_SIMULATABLE]
)
def test_every_kind_that_can_be_simulated_has_a_kind_of_preview(kind):
    assert preview_kind_of(kind) in PREVIEW_PAYLOADS


@pytest.mark.spec("V4-G-2")
def test_a_recompute_shows_what_the_authority_is_made_of(ledger):
    accept(ledger, adapt("cl", authority=0.5), link("e", "cl", "cu"))
    with ledger.view() as view:
        document = recompute(view, "cu")
    payload = shown(simulate(ledger, document)).preview_payload
    assert payload.rollup_ref == "cu"
    assert "cl" in payload.inputs


@pytest.mark.spec("V4-G-2")
def test_a_generation_of_a_binding_is_shown_with_its_number(ledger):
    payload = shown(simulate(ledger, envelope("binding_generation_advance", [binding(1)])))
    assert payload.preview_payload.binding_generation_id == "1"


@pytest.mark.spec("V4-G-2")
def test_a_topic_is_shown_with_the_node_that_would_be_under_it(ledger):
    assigned = effect("topic_assignment_write", "a", topic_id="topic", node_id="n")
    index = effect("index_update", "a", index_name="i", entry={})
    state = shown(simulate(ledger, envelope("topic_assignment_write", [assigned, index])))
    assert state.preview_payload.membership_add_target == "topic"
    assert state.affected_node_refs == ("n", "topic", "a")


@pytest.mark.spec("V4-G-2")
def test_a_filing_that_is_not_matched_yet_is_an_edge_without_an_end(ledger):
    accept(ledger, own("filing_unit_write", "unit", **dated("filing_date")))
    unmatched = own(
        "filing_relationship_write",
        "r",
        relationship_type="responds_to",
        source_filing_unit_id="unit",
        unmatched_expires_at="2026-03-01T00:00:00Z",
        lifecycle_state="candidate",
    )
    [stored_edge] = shown(simulate(ledger, unmatched)).preview_payload.edges
    assert (stored_edge.source_ref, stored_edge.target_ref) == ("unit", None)


# --- effects outside (INV-G-SIM-EXTERNAL-1) ---------------------------------------------------

GRANT = {
    "recipient_email_hash": HASH,
    "shared_corpus_view_id": "view",
    "share_token_policy_id": "policy",
}
FILE = {"materialized_path": "a/b.pdf", "content_hash": HASH}
OUTSIDE = {
    "share_link_grant": ("third_party_notification", lambda: own("share_link_grant", "l", **GRANT)),
    "materialization_emit": (
        "materialization_side_effect",
        lambda: own("materialization_emit", "f", **FILE),
    ),
    "document_artifact_write": (
        "materialization_side_effect",
        lambda: own("document_artifact_write", "d", source_artifact_kind="pdf", content_hash=HASH),
    ),
    "external_index": (
        "external_index_update",
        lambda: own("index_revert", "n", index_name="i", entry={}, external_index=True),
    ),
    "embedding_cache": (
        "embedding_cache_persistence",
        lambda: own("index_revert", "n", index_name="i", entry={}, embedding_cache="hosted"),
    ),
    "token_refresh": ("token_refresh", lambda: adapt("n", token_refresh=True)),
    "provider_call": ("provider_api_call_with_persistence", lambda: adapt("n", provider_call=True)),
    "billing": ("billing_chargeable_call", lambda: adapt("n", billing_chargeable=1)),
}


@pytest.mark.spec("INV-G-SIM-EXTERNAL-1", "V3-AT-10")
@pytest.mark.parametrize("case", OUTSIDE)
def test_an_effect_outside_that_is_forbidden_halts_the_simulation_with_a_receipt(ledger, case):
    external, make = OUTSIDE[case]
    before = everything(ledger)
    result = simulate(ledger, make(), ALL_FORBIDDEN)
    assert (result.outcome, result.preview, result.submission) == ("blocked", None, None)
    assert [violation.external_effect for violation in result.violations] == [external]
    assert untouched(before, everything(ledger), {"receipts", "chain_head"})
    [said] = receipts_of_kind(ledger, "simulation_external_effect_blocked")
    assert said["policy_id"] == ALL_FORBIDDEN.policy_id
    assert [violation["external_effect"] for violation in said["violations"]] == [external]
    assert said["halted"] is True


@pytest.mark.spec("§11.3")
@pytest.mark.parametrize("case", OUTSIDE)
def test_what_a_policy_does_not_forbid_is_shown_and_still_not_done(ledger, case):
    before = everything(ledger)
    assert shown(simulate(ledger, OUTSIDE[case][1]())).would_be_rejected is None
    after = everything(ledger)
    assert untouched(before, after)
    assert after["outbox"] == before["outbox"]


@pytest.mark.spec("§11.3")
def test_a_flag_that_is_off_and_a_graph_that_is_inside_set_nothing_off():
    inside = effect("index_update", "n", index_name="i", entry={}, external_index=False)
    assert external_effects_of(KernelEffect.model_validate(inside)) == ()
    token = effect("node_write", "p", node_kind="ShareTokenPolicy")
    assert external_effects_of(KernelEffect.model_validate(token)) == ("third_party_notification",)


@pytest.mark.spec("§11.3")
def test_an_alert_lets_a_simulation_proceed_in_dev_mode_only(ledger):
    grant = own("share_link_grant", "l", **GRANT)
    assert simulate(ledger, grant, ALERTS).outcome == "blocked"
    assert simulate(ledger, grant, HALTS, kernel=Kernel(dev_mode=True)).outcome == "blocked"
    result = simulate(ledger, grant, ALERTS, kernel=Kernel(dev_mode=True))
    assert shown(result)
    assert result.violations
    said = receipts_of_kind(ledger, "simulation_external_effect_blocked")
    assert [receipt["halted"] for receipt in said] == [True, True, False]
    [check] = receipts_of_kind(ledger, "simulation_external_effect_policy_check")
    assert check["outcome"] == "alerted_in_dev_mode"
    assert check["violations"]


# --- models -----------------------------------------------------------------------------------


@pytest.mark.spec("§11.5", "V4-G-1")
def test_without_a_prediction_the_preview_has_no_part_of_a_model(ledger):
    payload = shown(simulate(ledger, add())).preview_payload
    assert payload.predicted is None
    assert payload.relevance_score is None


@pytest.mark.spec("INV-A-TAINT-INFECTIOUS-1")
def test_what_a_model_was_shown_restricts_what_it_said(ledger):
    output = model_output(source_visibility_taint=("public_open", "sealed"))
    said = prediction(x=1).model_copy(update={"recorded_model_outputs": (output,)})
    result = simulate(ledger, add(), prediction=said)
    assert result.preview.simulation_visibility_taint == "sealed"


@pytest.mark.spec("§11.5", "§6.4")
def test_what_a_model_predicted_is_shown_and_its_call_is_recorded(ledger):
    said = prediction(relevance_score=0.83, likely_topic_assignments=["duty"], more={"x": 1})
    output = model_output(resolved_output_visibility_class="firewalled")
    said = said.model_copy(update={"recorded_model_outputs": (output,)})
    result = simulate(ledger, add(), prediction=said)
    payload = shown(result).preview_payload
    assert payload.relevance_score == 0.83
    assert payload.likely_topic_assignments == ("duty",)
    assert payload.predicted["more"] == {"x": 1}
    [recorded] = envelope_of(ledger, result)["recorded_model_outputs"]
    assert recorded["recorded_output_id"] == "RMO-SIM-1"
    assert recorded["recorded_by_operation_id"] == result.submission.operation_id
    assert result.preview.simulation_visibility_taint == "firewalled"


@pytest.mark.spec("§11.5")
def test_what_a_model_said_in_another_shape_is_kept_as_it_was_said(ledger):
    said = prediction(relevance_score="high", likely_topic_assignments=[1])
    payload = shown(simulate(ledger, add(), prediction=said)).preview_payload
    assert (payload.relevance_score, payload.likely_topic_assignments) == (None, None)
    assert payload.predicted == {"relevance_score": "high", "likely_topic_assignments": [1]}


@pytest.mark.spec("INV-G-SIM-EXTERNAL-1")
@pytest.mark.parametrize(
    "effects",
    [
        ("ephemeral_provider_call_no_persistence",),
        ("provider_api_call_with_persistence",),
        ("ephemeral_local_llm_call", "billing_chargeable_call"),
    ],
)
def test_a_prediction_that_was_got_as_the_policy_does_not_allow_is_not_used(ledger, effects):
    result = simulate(ledger, add(), NOTHING_FORBIDDEN, prediction=prediction(*effects, x=1))
    assert result.outcome == "blocked"
    assert [violation.cause for violation in result.violations] == ["prediction"]


@pytest.mark.spec("V4-G-1")
def test_a_prediction_about_what_depends_on_no_model_is_not_used(ledger):
    result = simulate(ledger, adapt("n", x=1), prediction=prediction(x=1))
    assert result.outcome == "blocked"


def test_a_prediction_has_a_limit():
    with pytest.raises(ValueError, match="larger than"):
        prediction(text="x" * 70_000)


# --- taint and warning (INV-G-SIM-VIS-1, K8) --------------------------------------------------

SUBKINDS = [
    "simulation_preview_emit",
    "simulation_external_effect_policy_check",
    "visibility_taint_warning_record",
]


@pytest.mark.spec("K8", "INV-G-SIM-VIS-1")
@pytest.mark.parametrize(
    ("visibility", "receipts_emitted", "warned"),
    [
        ("public_open", 2, False),
        ("work_product_internal", 3, False),
        ("firewalled", 3, True),
        ("sealed", 3, True),
    ],
)
def test_the_third_receipt_is_above_public_and_the_warning_for_sealed_and_firewalled(
    ledger, visibility, receipts_emitted, warned
):
    restricted(ledger, "s", visibility)
    result = simulate(ledger, sourced(adapt("s", x=1), "s", taint=[visibility]))
    assert result.preview.simulation_visibility_taint == visibility
    assert bool(result.preview.rendered_visibility_warning) == warned
    document = envelope_of(ledger, result)
    receipt_subkinds = [
        primitive_effect["receipt_subkind"] for primitive_effect in document["primitive_effects"]
    ]
    assert receipt_subkinds == SUBKINDS[:receipts_emitted]
    assert document["resolved_output_visibility_class"] == visibility
    recorded = receipts_of_kind(ledger, "visibility_taint_warning_record")
    assert [("rendered_visibility_warning" in receipt) for receipt in recorded] == [warned] * (
        receipts_emitted - 2
    )


@pytest.mark.spec("INV-A-TAINT-INFECTIOUS-1", "INV-G-SIM-VIS-1")
def test_a_sealed_node_is_not_read_by_simulating_a_change_that_does_not_name_it(ledger):
    restricted(ledger, "s", "sealed")
    result = simulate(ledger, adapt("s", x=1))
    assert result.preview.simulation_visibility_taint == "sealed"
    assert result.preview.rendered_visibility_warning
    assert envelope_of(ledger, result)["source_refs"] == ["s"]


@pytest.mark.spec("INV-A-TAINT-INFECTIOUS-1")
def test_a_class_that_the_operation_itself_would_give_restricts_its_preview(ledger):
    made = simulate(ledger, create("new", "Note", visibility_class="sealed"))
    raised = simulate(ledger, own("visibility_change", "n", visibility_class="firewalled"))
    declared = sourced(adapt("n", x=1), taint=["public_open", "firewalled"])
    assert made.preview.simulation_visibility_taint == "sealed"
    assert raised.preview.simulation_visibility_taint == "firewalled"
    assert simulate(ledger, declared).preview.simulation_visibility_taint == "firewalled"


@pytest.mark.spec("K7")
def test_the_taint_has_an_entry_for_each_source(ledger):
    restricted(ledger, "s", "firewalled")
    document = sourced(adapt("n", x=1, visibility_class="firewalled"), "s", "m", "n")
    document |= {"source_visibility_taint": ["firewalled", "public_open", "public_open"]}
    document |= {"resolved_output_visibility_class": "firewalled"}
    result = simulate(ledger, document)
    assert shown(result).would_be_rejected is None
    taint = envelope_of(ledger, result)["source_visibility_taint"]
    assert taint == ["firewalled", "public_open", "public_open"]


def forged(*subkinds, warning=None, **changes):
    effects = [says(kind) for kind in subkinds]
    if warning is not None:
        effects[0]["payload"] = effects[0]["payload"] | {"rendered_visibility_warning": warning}
    return envelope("simulate", effects, **changes)


@pytest.mark.spec("INV-G-SIM-VIS-1")
@pytest.mark.parametrize("visibility", ["sealed", "firewalled"])
def test_a_preview_of_restricted_sources_that_does_not_warn_is_refused(ledger, visibility):
    restricted(ledger, "s", visibility)
    tainted = {"source_refs": ["s"], "source_visibility_taint": [visibility]}
    tainted |= {"resolved_output_visibility_class": visibility}
    for document in (
        forged(SUBKINDS[0], **tainted),
        forged(SUBKINDS[0], warning=" ", **tainted),
        forged(SUBKINDS[1], **tainted),
    ):
        result = submit(ledger, document, submitter="orchestrator")
        assert result.rejection.check == "V8"
        assert code_of(result) == "envelope_simulation_visibility_warning_missing"
    accept(ledger, forged(SUBKINDS[0], warning="sealed material", **tainted))


@pytest.mark.spec("INV-15.7.8", "K18")
def test_a_caller_simulates_through_the_entry_alone(ledger):
    result = submit(ledger, forged(*SUBKINDS), submitter="caller")
    assert code_of(result) == "envelope_actor_unauthorized"
    for submitter in ("caller", "orchestrator"):
        note = adapt("n", x=1)["primitive_effects"]
        smuggled = envelope("annotate", [*note, receipt() | {"receipt_subkind": SUBKINDS[0]}])
        result = submit(ledger, smuggled, submitter=submitter)
        assert code_of(result) == "envelope_verb_composition_invalid"


@pytest.mark.spec("V4-A-SIM-COMPOSE")
def test_a_simulation_emits_no_other_receipts(ledger):
    result = submit(ledger, forged("search_run_record"), submitter="orchestrator")
    assert code_of(result) == "envelope_verb_composition_invalid"


# --- composed simulations (§11.9) -------------------------------------------------------------


@pytest.mark.spec("§11.9", "OBL-A-SIMULATE-COMPOSE-V16-01")
@pytest.mark.parametrize("name", ["preview", "operation"])
def test_a_simulation_of_a_simulation_inherits_taint_and_warning_and_names_its_cause(ledger, name):
    restricted(ledger, "s", "sealed")
    first = simulate(ledger, sourced(adapt("s", x=1), "s", taint=["sealed"]))
    named = {"preview": first.preview.preview_id, "operation": first.submission.operation_id}
    document = sourced(adapt("n", x=1), named[name])
    second = simulate(ledger, document)
    assert second.preview.simulation_visibility_taint == "sealed"
    assert second.preview.rendered_visibility_warning == first.preview.rendered_visibility_warning
    stated = envelope_of(ledger, second)
    assert stated["causal_parent_operation_ids"] == [first.submission.operation_id]
    third = simulate(ledger, sourced(adapt("n", x=2), second.preview.preview_id))
    assert third.preview.simulation_visibility_taint == "sealed"
    parents = envelope_of(ledger, third)["causal_parent_operation_ids"]
    assert parents == [second.submission.operation_id]


@pytest.mark.spec("§11.9", "INV-A-TAINT-INFECTIOUS-1")
def test_an_operation_made_of_a_restricted_preview_must_declare_its_class(ledger):
    restricted(ledger, "s", "sealed")
    first = simulate(ledger, adapt("s", x=1))
    document = sourced(adapt("n", x=1), first.preview.preview_id)
    assert shown(simulate(ledger, document)).would_be_rejected.check == "V8"
    assert code_of(submit(ledger, document)) == "envelope_taint_resolution_invalid"


@pytest.mark.spec("§11.9")
def test_a_preview_that_nobody_can_find_is_as_restricted_as_anything(ledger):
    result = simulate(ledger, sourced(adapt("n", x=1), "preview:nobody"))
    assert result.preview.simulation_visibility_taint == "sealed"
    assert envelope_of(ledger, result)["causal_parent_operation_ids"] == []


@pytest.mark.spec("§11.9")
def test_a_preview_whose_envelope_was_erased_is_as_restricted_as_anything(ledger):
    first = simulate(ledger, adapt("n", x=1))
    with ledger.transaction() as transaction:
        row = transaction.log_row_of(first.submission.operation_id)
        transaction.tables.delete(schema.blobs, row["envelope_payload_blob_ref"])
    result = simulate(ledger, sourced(adapt("n", x=1), first.preview.preview_id))
    assert result.preview.simulation_visibility_taint == "sealed"


@pytest.mark.spec("§11.9")
def test_an_operation_that_is_no_simulation_is_no_source_of_taint(ledger):
    document = adapt("n", x=1)
    accept(ledger, document)
    result = simulate(ledger, sourced(adapt("n", x=2), document["operation_id"]))
    assert result.preview.simulation_visibility_taint == "public_open"


# --- retention (§17.2, §17.6) -----------------------------------------------------------------

KINDS = ("simulation_preview_emit", "simulation_external_effect_policy_check")


@pytest.mark.spec("§17.6")
@pytest.mark.parametrize("retention", ["ephemeral", "durable"])
def test_a_preview_is_kept_as_long_as_was_asked(retention):
    fake = FakeHost()
    ledger = Ledger.create(MemoryStore(), fake.host)
    restricted(ledger, "s", "sealed")
    result = simulate(ledger, adapt("s", note="told"), retention=retention)
    emitted = {
        stored_receipt["receipt_kind"]: stored_receipt["retention_class"]
        for stored_receipt in _emitted(result)
    }
    assert [emitted[kind] for kind in KINDS] == [retention] * 2
    assert emitted["visibility_taint_warning_record"] == "durable"
    assert _told(ledger)
    fake.time_us = START_US + 25 * HOUR_US
    with ledger.transaction() as transaction:
        purge_expired(transaction)
    assert _told(ledger) == (retention == "durable")
    assert bool(receipts_of_kind(ledger, KINDS[0])) == (retention == "durable")
    with ledger.view() as view:
        verification = verify(view)
    assert verification.ok, verification.findings


def _emitted(result):
    assert isinstance(result.submission, SubmissionResult)
    return result.submission.emitted_receipts


def _told(ledger):
    """Whether any byte of the ledger still says what the preview showed."""
    tables = everything(ledger).values()
    values = (value for rows in tables for row in rows for value in row.values())
    return any(b"told" in value for value in values if isinstance(value, bytes))


@pytest.mark.spec("§17.2")
@pytest.mark.parametrize(
    "change",
    [
        {"preview_payload": {"changes": []}},
        {"salt": "00" * 32},
        {"salt": None},
        {"preview_id": "preview:another"},
        {"emitted_at": "2020-01-01T00:00:00.000000Z"},
    ],
)
def test_content_that_was_changed_beside_its_commitment_is_found(ledger, change):
    result = simulate(ledger, adapt("n", x=1))
    with ledger.transaction() as transaction:
        key = f"receipt:{result.submission.operation_id}:payload"
        row = transaction.tables.get(schema.ephemeral_receipts, key)
        content = orjson.loads(row["receipt_bytes"]) | change
        content = {name: value for name, value in content.items() if value is not None}
        stored = orjson.dumps(content, option=orjson.OPT_SORT_KEYS)
        transaction.tables.update(schema.ephemeral_receipts, (key,), {"receipt_bytes": stored})
    with ledger.view() as view:
        [finding] = verify(view).findings
    assert (finding.table, finding.key) == ("ephemeral_receipts", key)


@pytest.mark.spec("§17.2")
def test_content_that_no_simulation_committed_to_is_found(ledger):
    result = simulate(ledger, adapt("n", x=1))
    with ledger.transaction() as transaction:
        key = f"receipt:{result.submission.operation_id}:payload"
        row = transaction.tables.get(schema.ephemeral_receipts, key)
        transaction.tables.insert(
            schema.ephemeral_receipts, row | {"receipt_id": "other", "operation_id": "other"}
        )
    with ledger.view() as view:
        [finding] = verify(view).findings
    assert (finding.table, finding.key) == ("ephemeral_receipts", "other")


# --- the same asking again --------------------------------------------------------------------


@pytest.mark.spec("K6")
@pytest.mark.parametrize("retention", ["ephemeral", "durable"])
def test_the_same_asking_under_the_same_key_gets_the_first_preview(ledger, retention):
    document = adapt("n", x=1)
    options = {"simulation_key": "k", "retention": retention}
    first = simulate(ledger, document, **options)
    accept(ledger, adapt("n", y=2))
    before = everything(ledger)
    again = simulate(ledger, document, **options)
    assert again.preview == first.preview
    assert again.submission == first.submission
    assert again.submission.duplicate
    after = everything(ledger)
    assert untouched(before, after, {"chain_head"})
    other = simulate(ledger, adapt("m", x=1), **options)
    assert other.outcome == "rejected"
    assert isinstance(other.submission, RejectedResult)
    assert code_of(other.submission) == "envelope_idempotency_conflict"


@pytest.mark.spec("K6", "§17.2")
def test_a_preview_that_is_asked_for_again_after_its_content_is_gone_says_so(ledger):
    document = adapt("n", x=1)
    simulate(ledger, document, simulation_key="k")
    with ledger.transaction() as transaction:
        transaction.tables.delete_before(schema.ephemeral_receipts, "expires_at_us", 2**60)
    again = simulate(ledger, document, simulation_key="k")
    assert shown(again).preview_payload.records_left_out
    assert shown(again).affected_node_refs == ("n",)


@pytest.mark.spec("K6")
def test_after_its_window_a_key_asks_anew():
    fake = FakeHost()
    ledger = Ledger.create(MemoryStore(), fake.host)
    accept(ledger, create("n", "Note"))
    document = adapt("n", x=1)
    first = simulate(ledger, document, simulation_key="k")
    fake.time_us += 25 * HOUR_US
    second = simulate(ledger, document, simulation_key="k")
    assert first.submission.operation_id != second.submission.operation_id


@pytest.mark.spec("§11.5")
def test_a_simulation_that_the_kernel_would_not_record_says_so(ledger):
    many = {"source_refs": ["r" * 512] * 10 + [f"{n:0500d}" for n in range(1500)]}
    document = adapt("n", x=1) | many
    result = simulate(ledger, document, retention="durable")
    assert result.outcome == "rejected"
    assert result.preview is None
    assert result.document()["submission"]["check"] == "V1"
