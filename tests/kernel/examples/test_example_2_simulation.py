"""Worked example 2 (§21.2): what if this pleading were added to the brief bank?

The specification shows two receipts; ruling K8 says that above public_open there are three.
"""

import pytest

from kernel.audit.lineage import causal_ancestors
from kernel.ledger import schema
from kernel.model.model_output import RecordedModelOutput, fingerprint
from kernel.model.simulation import SimulationExternalEffectPolicy, SimulationPrediction
from kernel.simulate.operation import Simulation, simulate_operation
from kernel.transaction.kernel import Kernel
from kernel.verify import verify
from tests.kernel.build import code_of, create, effect, envelope, memory_ledger, submit

PLEADING = "Pleading-P3"
CORPUS = "Corpus-Brief-Bank-MTD"
WORK_PRODUCT = "work_product_internal"
PROFILE = "5e" * 32

POLICY = SimulationExternalEffectPolicy(
    policy_id="POL-1",
    forbidden_external_effects=(
        "provider_api_call_with_persistence",
        "materialization_side_effect",
        "billing_chargeable_call",
        "embedding_cache_persistence",
    ),
    allowed_external_effects=("ephemeral_local_llm_call", "read_only_external_lookup"),
    on_violation="block_with_receipt",
)

PREDICTION = SimulationPrediction(
    external_effects=("ephemeral_local_llm_call",),
    output={
        "relevance_score": 0.83,
        "likely_topic_assignments": ["duty_of_care", "9th_circuit_pleading"],
        "downstream_bindings_likely_to_fire": ["B-1", "B-3"],
    },
    recorded_model_outputs=(
        RecordedModelOutput(
            recorded_output_id="RecordedModelOutput-RMO-SIM-1",
            model_version="local-model:1",
            model_provider="local",
            prompt_hash="a1" * 32,
            prompt_hash_includes_wrapped_content=True,
            parameter_hash="b2" * 32,
            fingerprint_combined=fingerprint("local-model:1", "a1" * 32, "b2" * 32),
            output_payload_blob_ref="c3" * 32,
            recorded_at="2026-05-02T10:00:00.000000Z",
            recorded_by_operation_id="orchestrator",
            resolved_output_visibility_class=WORK_PRODUCT,
        ),
    ),
)


def addition(**changes):
    """The envelope of corpus_membership_add(P3, Corpus-Brief-Bank-MTD)."""
    membership = effect("membership_write", PLEADING, corpus_id=CORPUS, to_state="candidate")
    return envelope(
        "corpus_membership_add",
        [membership],
        source_refs=[PLEADING, CORPUS],
        source_visibility_taint=[WORK_PRODUCT, WORK_PRODUCT],
        resolved_output_visibility_class=WORK_PRODUCT,
        **changes,
    )


@pytest.fixture
def ledger():
    ledger = memory_ledger()
    for node_id, kind in ((PLEADING, "Pleading"), (CORPUS, "Corpus")):
        made = create(node_id, kind, visibility_class=WORK_PRODUCT)
        assert code_of(submit(ledger, made)) is None
    return ledger


@pytest.fixture
def simulated(ledger):
    """Steps 1 to 8: the orchestrator has asked its local model and simulates."""
    with ledger.transaction() as transaction:
        [output] = PREDICTION.recorded_model_outputs
        place = {"output_payload_blob_ref": transaction.put_blob(b"relevance 0.83")}
        said = {"recorded_model_outputs": (output.model_copy(update=place),)}
        return simulate_operation(
            Kernel(),
            transaction,
            addition(),
            POLICY,
            PROFILE,
            prediction=PREDICTION.model_copy(update=said),
            simulation=Simulation(submitter="orchestrator"),
        )


def membership(ledger):
    with ledger.view() as view:
        return view.record(schema.corpus_membership_records, f"{CORPUS}|{PLEADING}")


@pytest.mark.spec("§21.2")
def test_steps_1_to_6_the_preview(simulated):
    preview = simulated.preview
    assert preview.simulation_visibility_taint == WORK_PRODUCT
    assert preview.policy_generation_id == "PG-1"
    assert preview.session_profile_hash == PROFILE
    assert preview.rendered_visibility_warning is None

    state = preview.preview_state
    assert state.preview_kind == "membership_change_preview"
    assert state.affected_node_refs == (PLEADING, CORPUS)
    assert state.effect_kind_set == ("membership_write",)
    assert state.estimated_capacity_cost == 0.05
    assert state.would_be_rejected is None

    payload = state.preview_payload
    assert payload.membership_add_target == CORPUS
    assert payload.new_member == PLEADING
    assert payload.relevance_score == 0.83
    assert payload.likely_topic_assignments == ("duty_of_care", "9th_circuit_pleading")
    assert payload.downstream_bindings_likely_to_fire == ("B-1", "B-3")


@pytest.mark.spec("§21.2", "K8")
def test_steps_7_and_8_the_simulate_envelope_is_on_the_record(ledger, simulated):
    with ledger.view() as view:
        document = view.envelope(simulated.preview.simulated_operation_id)
    assert document["semantic_intent"] == "simulate"
    assert [
        primitive_effect["receipt_subkind"] for primitive_effect in document["primitive_effects"]
    ] == [
        "simulation_preview_emit",
        "simulation_external_effect_policy_check",
        "visibility_taint_warning_record",
    ]
    assert set(document["source_visibility_taint"]) == {WORK_PRODUCT}
    assert document["resolved_output_visibility_class"] == WORK_PRODUCT
    [output] = document["recorded_model_outputs"]
    assert output["recorded_output_id"] == "RecordedModelOutput-RMO-SIM-1"
    emitted = {receipt["receipt_kind"] for receipt in simulated.submission.emitted_receipts}
    assert "simulation_preview_emit" in emitted


@pytest.mark.spec("§21.2", "INV-G-SIM-1")
def test_no_membership_is_written_by_the_simulation(ledger, simulated):
    assert simulated.outcome == "previewed"
    assert membership(ledger) is None


@pytest.mark.spec("§21.2", "§11.7")
def test_steps_9_and_10_the_commit_is_a_new_operation_that_names_the_simulation(ledger, simulated):
    simulation = simulated.submission.operation_id
    commit = addition(causal_parent_operation_ids=[simulation])
    assert code_of(submit(ledger, commit)) is None
    assert membership(ledger)["state"] == "candidate"
    with ledger.view() as view:
        before, after = view.envelope(simulation), view.envelope(commit["operation_id"])
        assert before["semantic_intent"] == "simulate"
        assert after["semantic_intent"] == "corpus_membership_add"
        assert after["causal_parent_operation_ids"] == [simulation]
        assert len({simulation, commit["operation_id"]}) == 2
        caused_by = causal_ancestors(view, commit["operation_id"], limit=10).page.entries
        assert simulation in [operation.operation_id for operation in caused_by]
        verification = verify(view)
    assert verification.ok, verification.findings
