"""The log and the receipts as an outsider checks them: with hashlib and json, nothing of ours."""

import hashlib
import itertools
import json

import pytest

from kernel.ledger.applied_effects import effect_of, effect_row, hashed_effect
from kernel.ledger.store.memory import MemoryStore
from kernel.model.rules_version import RULES_VERSION
from tests.kernel.build import (
    adapt,
    changed,
    create,
    drain,
    effect,
    envelope,
    everything,
    ledger_on,
    link,
    submit,
)

GENESIS = "0" * 64


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def sha256(content):
    return hashlib.sha256(content).hexdigest()


@pytest.fixture(scope="module")
def rows():
    """A ledger in which everything happened, refusals included."""
    ledger, fake = ledger_on(MemoryStore())
    first = create("claim", "VersionedClaim", authority=1)
    sealed = {
        "source_visibility_taint": ["public_open", "sealed"],
        "resolved_output_visibility_class": "sealed",
        "session_id": "s",
        "causal_parent_operation_ids": [first["operation_id"]],
    }
    for document in (
        first,
        create("claim", "VersionedClaim"),
        {"no": "envelope"},
        create("cu", "ConsolidatedUnderstanding", visibility_class="sealed", envelope=sealed),
        link("e", "claim", "cu"),
        envelope("search_run_record", [effect("receipt_only", query="é")]),
        adapt("claim", authority=0.25),
        changed(create("x", "Note"), {"policy_generation_id": "PG-0"}),
    ):
        fake.time_us += 1000
        submit(ledger, document)
    drain(ledger)
    submit(ledger, create("n", "Note"))
    return everything(ledger)


def log(rows):
    return [json.loads(row["row_bytes"]) for row in rows["kernel_event_log"]]


@pytest.mark.spec("K20")
def test_each_row_hash_is_of_the_stored_bytes_which_hold_the_hash_before(rows):
    prior = GENESIS
    for row in rows["kernel_event_log"]:
        document = json.loads(row["row_bytes"])
        assert canonical(document) == row["row_bytes"]
        assert sha256(row["row_bytes"]) == row["row_hash"]
        assert document["prior_row_hash"] == row["prior_row_hash"] == prior
        prior = row["row_hash"]
    [head] = rows["chain_head"]
    assert head["row_hash"] == prior
    assert head["ec_sequence_number"] == len(rows["kernel_event_log"]) == 7


@pytest.mark.spec("§17.4")
def test_a_row_says_what_its_envelope_said_and_when_it_was_committed(rows):
    envelopes = {row["blob_ref"]: json.loads(row["content"]) for row in rows["blobs"]}
    for number, (row, document) in enumerate(
        zip(rows["kernel_event_log"], log(rows), strict=True), 1
    ):
        said = envelopes[document["envelope_payload_blob_ref"]]
        scope = said["affected_subgraph_descriptor"]
        applied = [
            hashed_effect(applied_effect, row["committed_at"])
            for applied_effect in rows["applied_effects"]
            if applied_effect["ec_sequence_number"] == number
        ]
        expected = {
            "prior_row_hash": row["prior_row_hash"],
            "ec_sequence_number": str(number),
            "operation_id": said["operation_id"],
            "envelope_payload_blob_ref": row["envelope_payload_blob_ref"],
            "semantic_intent": said["semantic_intent"],
            "operation_kind": said["operation_kind"],
            "actor": said["actor"],
            "idempotency_key": said["idempotency_key"],
            "effect_kind_set": sorted(
                {primitive_effect["effect_kind"] for primitive_effect in said["primitive_effects"]}
            ),
            "canonical_effect_kind_set": sorted(
                {applied_effect["canonical_kind"] for applied_effect in applied}
            ),
            "causal_parent_operation_ids": said["causal_parent_operation_ids"],
            "affected_subgraph_descriptor_summary": {
                "scope_kind": scope["scope_kind"],
                "affected_node_count": len(scope["affected_node_refs"]),
            },
            "recorded_at": said["recorded_at"],
            "committed_at": row["committed_at"],
            "applied_effects_hash": sha256(canonical(applied)),
            "rules_version": RULES_VERSION,
            "schema_version": 1,
        }
        if "session_id" in said:
            expected["session_id"] = said["session_id"]
        del document["receipt_chain_head"]
        assert document == expected
    assert sum("session_id" in document for document in log(rows)) == 1
    times = [row["committed_at"] for row in rows["kernel_event_log"]]
    assert times == sorted(set(times))


@pytest.mark.spec("K1")
def test_a_row_has_the_kinds_as_given_and_their_canonical_kinds(rows):
    linked = log(rows)[2]
    assert linked["effect_kind_set"] == ["edge_create"]
    assert linked["canonical_effect_kind_set"] == ["edge_write"]


def test_the_columns_beside_the_bytes_are_what_the_bytes_say(rows):
    for row, document in zip(rows["kernel_event_log"], log(rows), strict=True):
        assert str(row["ec_sequence_number"]) == document["ec_sequence_number"]
        for name in (
            "operation_id",
            "envelope_payload_blob_ref",
            "semantic_intent",
            "committed_at",
        ):
            assert row[name] == document[name]
        assert row["session_id"] == document.get("session_id")
    for row in rows["applied_effects"]:
        assert effect_row(row["ec_sequence_number"], row["ordinal"], effect_of(row)) == row


def test_effects_are_kept_in_the_order_of_their_envelope(rows):
    by_operation = itertools.groupby(
        rows["applied_effects"], key=lambda row: row["ec_sequence_number"]
    )
    for _, effects in by_operation:
        ordinals = [row["ordinal"] for row in effects]
        assert ordinals == list(range(len(ordinals)))


@pytest.mark.spec("§17.5")
def test_every_receipt_holds_the_hash_of_the_one_before(rows):
    prior = GENESIS
    for number, row in enumerate(rows["receipts"], 1):
        document = json.loads(row["receipt_bytes"])
        assert canonical(document) == row["receipt_bytes"]
        assert sha256(row["receipt_bytes"]) == row["receipt_hash"]
        assert document["prior_receipt_hash"] == row["prior_receipt_hash"] == prior
        assert document["receipt_sequence"] == str(row["receipt_sequence"]) == str(number)
        for name in ("receipt_id", "receipt_kind", "operation_id", "reason_code"):
            assert row[name] == document.get(name)
        prior = row["receipt_hash"]
    [head] = rows["chain_head"]
    assert (head["receipt_hash"], head["receipt_sequence"]) == (prior, len(rows["receipts"]))


@pytest.mark.spec("K5")
def test_each_row_seals_the_receipts_up_to_its_own_and_the_refusals_before_it(rows):
    hashes = [GENESIS, *(row["receipt_hash"] for row in rows["receipts"])]
    sealed = [hashes.index(document["receipt_chain_head"]) for document in log(rows)]
    assert sealed == sorted(sealed)
    kinds = [row["receipt_kind"] for row in rows["receipts"]]
    refusals = [n for n, kind in enumerate(kinds, 1) if kind == "envelope_validation_failed"]
    assert len(refusals) == 3
    assert all(any(at >= number for at in sealed) for number in refusals)
    by_operation = {document["operation_id"]: n for n, document in enumerate(log(rows))}
    for number, row in enumerate(rows["receipts"], 1):
        place = by_operation.get(row["operation_id"])
        if place is not None and row["receipt_kind"] != "envelope_validation_failed":
            assert number <= sealed[place]
            assert place == 0 or number > sealed[place - 1]


@pytest.mark.spec("§17.6")
def test_requests_are_told_in_passing_and_everything_else_for_good(rows):
    assert {row["receipt_kind"] for row in rows["ephemeral_receipts"]} == {
        "authority_recompute_request"
    }
    assert {row["receipt_kind"] for row in rows["receipts"]} == {
        "envelope_validation_failed",
        "taint_propagation",
        "source_span_unavailable",
        "search_run_record",
        "authority_recompute_completed",
    }


def test_a_changed_byte_anywhere_in_the_log_breaks_the_chain(rows):
    for row in rows["kernel_event_log"]:
        content = row["row_bytes"].replace(b'"actor":"', b'"actor":"x')
        assert sha256(content) != row["row_hash"]
