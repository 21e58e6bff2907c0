"""A receipt says what its kind says: refused where it is stated, found where it is on record."""

import inspect

import orjson
import pytest
from pydantic import BaseModel

from kernel.ledger import schema
from kernel.ledger.receipts import append_receipt
from kernel.ledger.store.tables import TableQuery
from kernel.model import receipt_bodies, stated_receipts
from kernel.model.receipt import (
    RECEIPT_KINDS,
    STATED_BY_ENVELOPES,
    STATED_UNDER_VERB,
    TIME_FIELDS,
    Receipt,
    ReceiptBodyInvalid,
)
from kernel.model.receipt_bodies import HEADER_FIELDS, ReceiptBody
from kernel.values.canonical import canonicalize, sha256_hex
from kernel.verify import verify
from tests.kernel.build import (
    code_of,
    create,
    effect,
    envelope,
    everything,
    findings,
    memory_ledger,
    submit,
)
from tests.kernel.every import SAYS, says, states
from tests.kernel.verb_meanings import OWN_RECEIPT, composed

FIELDS = {
    "tier_1_rollback": "original_operation_id inverse_operation_id committed_at",
    "tier_2_rollback": "epoch_id user_confirmation_token compensations_applied"
    " partial_external_effects_persist committed_at",
    "tier_3_rebuild": "checkpoint_ec_sequence_number architect_confirmation_token"
    " irreversible_skipped restored_at",
    "rollback_partial_external_effect_persists": "epoch_id operation_id descriptors committed_at",
    "audit_replay": "original_operation_id replay_strategy fingerprint_match output_reproduced"
    " recorded_model_version current_model_version block_reason",
    "taint_propagation": "source_visibility_taint source_visibility_taint_distinct"
    " resolved_output_visibility_class source_node_count_per_class output_node_ref",
    "authority_recompute_request": "request_id target_cu_id trigger_kind priority",
    "authority_recompute_completed": "request_id target_cu_id new_authority_value",
    "source_span_unavailable": "cu_node_ref reason source_doc_refs",
    "simulation_preview_emit": "preview_id simulated_operation_id simulation_visibility_taint"
    " policy_generation_id session_profile_hash preview_state rendered_visibility_warning",
    "simulation_not_supported_for_operation_kind": "operation_kind reason",
    "simulation_external_effect_blocked": "violations policy_id",
    "binding_fire_capacity_rejected": "binding_id source_event_id binding_evaluation_id rejected_at"
    " retry_eligible retry_priority capacity_signal_at_rejection",
    "binding_evaluation_manifest": "manifest_id source_event_id evaluated_at binding_outcomes"
    " bindings_evaluated_count bindings_deferred_count bindings_suspended_count fan_out_cap"
    " binding_generations semantic_conflicts policy_generation_id",
    "binding_generation_snapshot": "binding_id binding_generation_id effective_at",
    "extraction_attempt": "extraction_run_id attempt_number parent_operation_id prior_state"
    " current_state state_change_reason",
    "recorded_model_output": "model_version model_provider fingerprint_combined"
    " output_payload_blob_ref",
    "membership_state_transition": "from_state to_state triggered_by",
}
"""The fields that the specification gives to its receipts (§5.6 to §16.5)."""


@pytest.mark.spec("§5.6", "§6.6", "§7.4", "§8.2", "§9.3", "§11.2", "§14.5", "§15.1", "§16.5")
@pytest.mark.parametrize("kind", FIELDS)
def test_a_receipt_has_the_fields_that_the_specification_gives_it(kind):
    assert set(FIELDS[kind].split()) <= RECEIPT_KINDS[kind].body.model_fields.keys()


@pytest.mark.spec("§17.6")
def test_a_kind_says_how_long_it_is_kept_and_what_it_says():
    for kind in RECEIPT_KINDS:
        row = RECEIPT_KINDS[kind]
        assert issubclass(row.body, ReceiptBody)
        assert (row.retention == "durable") == (row.days is None)


@pytest.mark.parametrize(
    "model",
    [
        model
        for module in (receipt_bodies, stated_receipts)
        for _, model in inspect.getmembers(module, inspect.isclass)
        if issubclass(model, BaseModel) and model is not BaseModel
    ],
    ids=lambda model: model.__name__,
)
def test_a_body_is_frozen_strict_and_closed(model):
    assert model.model_config["frozen"]
    assert model.model_config["strict"]
    assert model.model_config["extra"] == "forbid"
    # What every receipt says is the ledger's to say, but for what the specification repeats.
    repeated = {"schema_version", "operation_id"}
    nested = not any(row.body is model for row in RECEIPT_KINDS.values())
    assert nested or not model.model_fields.keys() & (HEADER_FIELDS - repeated)


def test_a_body_of_another_form_is_refused_before_anything_is_written():
    for kind in RECEIPT_KINDS:
        ledger = memory_ledger()
        before = everything(ledger)
        for body in ({"unheard": 1}, {"receipt_id": "x"}, {"emitted_at": "x"}):
            with (
                pytest.raises(ReceiptBodyInvalid, match=kind) as refused,
                ledger.transaction() as transaction,
            ):
                append_receipt(transaction, "r", Receipt(kind, body), "op")
            assert refused.value.code == "receipt_body_invalid"
        assert everything(ledger) == before


def test_a_kind_that_nobody_knows_is_refused():
    ledger = memory_ledger()
    with pytest.raises(ReceiptBodyInvalid, match="gossip"), ledger.transaction() as transaction:
        append_receipt(transaction, "r", Receipt("gossip", {}), None)


NEEDS_AN_ITEM = "review_item_discarded"
"""Stated of an item that is there only after a conflict; `test_conflicts.py` discards one."""

STATED = {
    kind: next((verb for verb, kinds in STATED_UNDER_VERB.items() if kind in kinds), None)
    for kind in sorted(STATED_BY_ENVELOPES.union(*STATED_UNDER_VERB.values()))
    if kind != NEEDS_AN_ITEM
}


def stating(kind, **payload):
    effects = [effect("receipt_only", **payload) | {"receipt_subkind": kind}]
    verb = STATED[kind]
    if verb is not None:
        fields = {"epoch_id": "epoch"} if kind.startswith("epoch_") else {}
        return envelope(verb, effects, target_refs=["t"], **fields)
    if kind.startswith(("simulation_", "visibility_taint_")):
        return envelope("simulate", effects, target_refs=["t"])
    speaks = [verb for verb, kinds in OWN_RECEIPT.items() if kind in kinds]
    if speaks:
        # The receipt comes first, so that what is said of it does not depend on a node.
        written = [
            effect_kind
            for effect_kind in composed(speaks[0])
            if effect_kind["effect_kind"] != "receipt_only"
        ]
        return envelope(speaks[0], [*effects, *written])
    return create("n", "Note", *effects)


@pytest.mark.parametrize("kind", STATED)
def test_an_envelope_that_states_another_body_is_refused_and_told_where(kind):
    ledger = memory_ledger()
    if kind == "epoch_closed":
        submit(ledger, states("epoch_open", "epoch_opened", epoch_id="epoch"))
    before = everything(ledger)["kernel_event_log"]
    fitting = SAYS.get(kind, {})
    for payload in ({**fitting, "unheard": 1}, {**fitting, "prior_receipt_hash": "0" * 64}):
        refused = submit(ledger, stating(kind, **payload), submitter="orchestrator")
        assert code_of(refused) == "receipt_body_invalid"
        assert refused.rejection.field.startswith("payload")
    assert everything(ledger)["kernel_event_log"] == before
    assert findings(ledger) == ()


@pytest.mark.parametrize("kind", sorted(STATED.keys() & SAYS.keys()))
def test_every_field_of_a_stated_body_is_held_to_its_type(kind):
    fields = RECEIPT_KINDS[kind].body.model_fields
    for name in SAYS[kind]:
        if name in TIME_FIELDS.values():
            continue
        ledger = memory_ledger()
        spoilt = stating(kind, **{**SAYS[kind], name: {"not": ["that"]}})
        refused = submit(ledger, spoilt, submitter="orchestrator")
        assert code_of(refused) == "receipt_body_invalid", (kind, name)
        assert refused.rejection.field.startswith(f"payload.{name}"), (kind, name)
        if fields[name].is_required():
            without = {field: value for field, value in SAYS[kind].items() if field != name}
            lacking = submit(ledger, stating(kind, **without), submitter="orchestrator")
            assert code_of(lacking) == "receipt_body_invalid", (kind, name)


@pytest.mark.spec("§9.3")
@pytest.mark.parametrize("reason", ["", "because", None, 7])
def test_why_there_are_no_spans_is_one_of_the_reasons(reason):
    said = {**SAYS["source_span_unavailable"], "reason": reason}
    refused = submit(memory_ledger(), stating("source_span_unavailable", **said))
    assert code_of(refused) == "receipt_body_invalid"
    assert refused.rejection.field == "payload.reason"


@pytest.mark.spec("§17.5", "K30")
@pytest.mark.parametrize("change", [{"check": 7}, {"unheard": 1}, {"check": ""}])
def test_a_recorded_body_that_its_kind_does_not_say_is_a_finding(change):
    ledger = memory_ledger()
    assert code_of(submit(ledger, {"operation_id": "nonsense"})) == "envelope_schema_invalid"
    with ledger.transaction() as transaction:
        [row] = transaction.tables.scan(TableQuery(schema.receipts))
        content = canonicalize(orjson.loads(row["receipt_bytes"]) | change)
        sealed = {"receipt_bytes": content, "receipt_hash": sha256_hex(content)}
        transaction.tables.put(schema.receipts, row | sealed)
        transaction.head_now.receipt_hash = sealed["receipt_hash"]
    with ledger.view() as view:
        [finding] = verify(view).findings
    assert (finding.table, finding.key, finding.rule) == ("receipts", "1", "body_invalid")
    assert next(iter(change)) in finding.message


def test_an_ephemeral_body_that_its_kind_does_not_say_is_a_finding():
    ledger = memory_ledger()
    submit(ledger, create("cu", "ConsolidatedUnderstanding"))
    with ledger.transaction() as transaction:
        [row] = transaction.tables.scan(TableQuery(schema.ephemeral_receipts))
        content = canonicalize(orjson.loads(row["receipt_bytes"]) | {"priority": 1})
        transaction.tables.put(schema.ephemeral_receipts, row | {"receipt_bytes": content})
    with ledger.view() as view:
        [finding] = verify(view).findings
    assert (finding.table, finding.rule) == ("ephemeral_receipts", "body_invalid")


def test_what_every_kind_says_here_is_what_it_may_say():
    for kind, body in SAYS.items():
        stated = {name: "2026-02-09T00:00:00.000000Z" for name in [TIME_FIELDS.get(kind)] if name}
        assert RECEIPT_KINDS[kind].problem(body | stated) is None, kind
        assert says(kind)["payload"] == body
