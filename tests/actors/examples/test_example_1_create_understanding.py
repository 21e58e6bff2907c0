"""Worked example 1: an understanding is created of a sealed deposition and two public pleadings.

A litigator asks how opposing counsel characterised the duty of care. The model of this machine
reads one sealed excerpt and two public pleadings. The understanding that comes of it is sealed,
points at all three, and gets its authority once that was computed.
"""

import pytest

from actors.messages import Recomputed
from actors.orchestrator.untrusted_content import unwrap_untrusted
from kernel.authority.requests import AUTHORITY_QUEUE
from kernel.model.model_output import fingerprint
from kernel.values.canonical import sha256_hex
from kernel.verify import verify
from tests.actors.examples.bank import CORPUS, ask, put_source, receipts_of
from tests.actors.harness import declare, running_sessions
from tests.actors.intents import claim, envelope_of, link, node_of, put, recalculation, span
from tests.kernel.build import memory_ledger

pytestmark = [pytest.mark.anyio, pytest.mark.spec("§21.1")]

QUERY = "How did opposing counsel characterize the duty of care?"
DEPOSITION = "Q. Go on. A. Counsel called the duty of care a courtesy. Q. Thank you."
PLEADING_1 = "II.B. Defendant owed no duty of care. The claim fails."
PLEADING_2 = "IV. In the alternative, any duty of care was discharged."
REFS = ["D1", "P1", "P2"]


@pytest.fixture
def bank():
    """The context: one sealed deposition, two public pleadings, and who put them on the record."""
    ledger = memory_ledger()
    operations = [
        put_source(ledger, "D1", DEPOSITION, "sealed", metadata={"filename": "depo.pdf"}),
        put_source(ledger, "P1", PLEADING_1, "public_open", metadata={"ecf_entry_text": "MOTION"}),
        put_source(ledger, "P2", PLEADING_2, "public_open", metadata={"Author": "Opposing"}),
    ]
    return ledger, operations


async def test_step_1_the_envelope_says_all_that_the_example_lists(bank):
    """Verb, effects, causes, sources, taint, scope, reads, writes and the model's answer."""
    ledger, operations = bank
    result = await ask(ledger, "CU-1", QUERY, *REFS)
    envelope = envelope_of(ledger, result)

    stated = {
        "envelope_version": "1.6",
        "operation_kind": "synthesize_consolidated_understanding",
        "semantic_intent": "create",
        "causal_parent_operation_ids": operations,
        "actor": "user",
        "source_refs": REFS,
        "target_refs": ["CU-1"],
        "policy_generation_id": "PG-1",
        # One entry for each source that was touched (K7).
        "source_visibility_taint": ["sealed", "public_open", "public_open"],
        "resolved_output_visibility_class": "sealed",
        "affected_subgraph_descriptor": {
            "scope_kind": "single_node",
            "affected_node_refs": ["CU-1"],
            "affected_edge_refs": [],
            "visibility_class_envelope": ["sealed"],
            "estimated_cascade_depth": 0,
            "schema_version": 1,
        },
        "read_set_refs": REFS,
        "write_set_refs": ["CU-1"],
    }
    assert {name: envelope[name] for name in stated} == stated
    assert [
        (effect["effect_kind"], effect["reversibility"], effect["inverse_operation_kind"])
        for effect in envelope["primitive_effects"]
    ] == [
        ("node_write", "fully_reversible", "node_retract"),
        ("membership_write", "fully_reversible", "membership_revoke"),
        ("index_update", "fully_reversible", "index_revert"),
    ]


async def test_step_1_the_models_answer_is_recorded_with_its_fingerprint(bank):
    """The prompt's hash was taken after wrapping; the answer is a payload of its own."""
    ledger, _ = bank
    result = await ask(ledger, "CU-1", QUERY, *REFS)
    [recorded] = envelope_of(ledger, result)["recorded_model_outputs"]

    assert recorded["prompt_hash_includes_wrapped_content"] is True
    assert recorded["source_visibility_taint"] == ["sealed", "public_open", "public_open"]
    assert recorded["resolved_output_visibility_class"] == "sealed"
    assert recorded["fingerprint_combined"] == fingerprint(
        "rotulus-local-1", recorded["prompt_hash"], recorded["parameter_hash"]
    )
    with ledger.view() as view:
        answer = view.blob(recorded["output_payload_blob_ref"])
    assert answer is not None
    assert b"Counsel called the duty of care a courtesy." in answer


async def test_step_2_the_understanding_is_sealed_and_points_at_its_sources(bank):
    """The spans are words of the sources; the node is a candidate member of its corpus."""
    ledger, _ = bank
    await ask(ledger, "CU-1", QUERY, *REFS)
    node = node_of(ledger, "CU-1")
    texts = {"D1": DEPOSITION, "P1": PLEADING_1, "P2": PLEADING_2}

    assert node["visibility_class"] == "sealed"
    assert node["payload"]["display_kind"] == "synthesis_with_spans"
    assert node["payload"]["cu_authority_strategy"] == "eager_on_parent_update"
    quoted = [
        texts[source_span["source_ref"]][
            source_span["offset"] : source_span["offset"] + source_span["length"]
        ]
        for source_span in node["payload"]["source_spans"]
    ]
    assert quoted == [
        "A. Counsel called the duty of care a courtesy."[3:],
        "Defendant owed no duty of care.",
        "In the alternative, any duty of care was discharged.",
    ]
    assert unwrap_untrusted(node["payload"]["text"]) == "\n".join(quoted)


async def test_step_2_the_taint_receipt_counts_each_class(bank):
    """One sealed source and two public ones made a sealed understanding."""
    ledger, _ = bank
    result = await ask(ledger, "CU-1", QUERY, *REFS)
    [receipt] = receipts_of(ledger, result, "taint_propagation")

    assert receipt["source_node_count_per_class"] == {"sealed": 1, "public_open": 2}
    assert sorted(receipt["source_visibility_taint_distinct"]) == ["public_open", "sealed"]
    assert receipt["resolved_output_visibility_class"] == "sealed"
    assert receipt["output_node_ref"] == "CU-1"


async def test_step_3_an_authority_is_asked_for_and_later_written(bank):
    """The request is of the same transaction; a later operation brings the value."""
    ledger, _ = bank
    result = await ask(ledger, "CU-1", QUERY, *REFS)
    with ledger.view() as view:
        [request] = view.open_requests_of(AUTHORITY_QUEUE, "CU-1")
    assert request.cause_sequence == result.ec_sequence_number
    assert "cu_authority" not in node_of(ledger, "CU-1")["payload"]

    quote = "Defendant owed no duty of care."
    where = span("P1", PLEADING_1.index(quote), len(quote))
    put(ledger, claim("C-1", "P1", text=quote, span=where), link("C-1", "CU-1"))
    intent = recalculation(ledger, "CU-1")
    async with running_sessions(ledger) as sessions:
        await sessions.ask("s-2", declare("a", "b"))
        [(outcome, written)] = await sessions.ask("s-2", Recomputed((intent,)))

    assert outcome == "completed"
    assert written.operation_id != result.operation_id
    payload = node_of(ledger, "CU-1")["payload"]
    assert payload["cu_authority"] == intent.cu_authority == pytest.approx(4 / 6)
    assert node_of(ledger, "CU-1")["visibility_class"] == "sealed"
    with ledger.view() as view:
        assert view.open_requests_of(AUTHORITY_QUEUE, "CU-1") == []


async def test_the_trail_can_be_read_back_and_verifies(bank):
    """Envelope and answer are retrievable, and everything computes again from stored bytes."""
    ledger, _ = bank
    result = await ask(ledger, "CU-1", QUERY, *REFS)
    with ledger.view() as view:
        row = view.log_row_of(result.operation_id)
        assert row["ec_sequence_number"] == result.ec_sequence_number
        assert sha256_hex(row["row_bytes"]) == result.row_hash
        assert verify(view).findings == ()
        assert view.node("CU-1") is not None
    assert CORPUS in str(envelope_of(ledger, result)["primitive_effects"])
