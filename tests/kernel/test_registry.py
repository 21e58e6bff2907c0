"""Every table is registered, and every receipt kind that the specification retains is known."""

import subprocess
import sys

import pytest

from kernel.algebra.effects import EFFECT_KINDS
from kernel.ledger import schema
from kernel.ledger.registry import STORAGE_REGISTRY
from kernel.ledger.schema import store_of
from kernel.model.receipt import RECEIPT_KINDS

RETENTION_OF_17_6 = {
    "audit_replay": "ephemeral",
    "taint_propagation": "durable",
    "source_span_unavailable": "durable",
    "binding_fire_capacity_rejected": "durable",
    "tier_1_rollback": "durable",
    "tier_2_rollback": "durable",
    "tier_3_rebuild": "durable",
    "rollback_partial_external_effect_persists": "durable",
    "simulation_preview_emit": "ephemeral",
    "simulation_external_effect_policy_check": "ephemeral",
    "visibility_taint_warning_record": "durable",
    "simulation_external_effect_blocked": "durable",
    "binding_fire_record": "durable",
    "binding_evaluation_manifest": "durable",
    "binding_generation_snapshot": "durable",
    "extraction_attempt": "durable",
    "authority_recompute_request": "ephemeral",
    "authority_recompute_completed": "durable",
    "envelope_validation_failed": "durable",
    "envelope_commit_rolled_back": "durable",
    "recorded_model_output": "durable",
    "replay_blocked_fingerprint_mismatch": "durable",
    "policy_generation_advance": "durable",
    "membership_state_transition": "durable",
}


@pytest.mark.spec("V4-AT-23", "§17.3")
def test_every_table_is_registered_and_nothing_else():
    assert STORAGE_REGISTRY.keys() == schema.metadata.tables.keys()


@pytest.mark.spec("§17.3")
@pytest.mark.parametrize("table", schema.STATE_TABLES, ids=lambda table: table.name)
def test_a_store_of_state_is_durable_and_wrapped_in_receipts(table):
    entry = STORAGE_REGISTRY[table.name]
    assert entry.retention_class == "durable"
    assert entry.receipt_wrapped
    assert entry.owner


@pytest.mark.spec("§17.6")
@pytest.mark.parametrize("kind", RETENTION_OF_17_6)
def test_a_receipt_is_kept_as_long_as_the_specification_says(kind):
    assert RECEIPT_KINDS[kind].retention == RETENTION_OF_17_6[kind]


@pytest.mark.slow
@pytest.mark.spec("K1", "K15")
def test_a_new_store_is_one_entry():
    """In a process of its own, because the tables are read when the program is imported."""
    command = [sys.executable, "-m", "tests.kernel.toy_store"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr


@pytest.mark.spec("K1")
def test_every_store_that_an_effect_writes_is_one():
    written = {kind.store for kind in EFFECT_KINDS.values()} - {"receipts"}
    assert written <= schema.STORES.keys()


@pytest.mark.parametrize("table", schema.STATE_TABLES, ids=lambda table: table.name)
def test_a_store_is_searched_by_columns_that_it_has(table):
    assert set(store_of(table).searched_by or ()) <= set(table.columns.keys())
