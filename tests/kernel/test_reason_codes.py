"""Every code and receipt kind that the specification names: produced here, or absent for a reason.

SEED holds the names of §1 to §12, §15.5, §17, §18, §19 and §20 with the sections that state them. A
producer brings one about and returns everything that was said meanwhile: on durable and ephemeral
receipts, and in errors and answers. A name that nothing here brings about stands in ABSENT.
"""

from collections.abc import Iterator

import anyio
import orjson
import pytest

from actors.commit.units import IntentUnit
from actors.errors import CommitFailed
from kernel.audit.adjudications import adjudications
from kernel.authority.cascade import MAX_CASCADE_DEPTH
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.store.memory import MemoryStore
from kernel.ledger.store.tables import TableQuery
from kernel.migration.review_items import discard
from kernel.model.receipt import MIGRATION_KIND, RECEIPT_KINDS
from kernel.records.implications.loop_limits import CYCLE_EPOCHS_MAX
from kernel.replay.replay_receipts import replay_operation
from kernel.rollback.confirmation import Confirmable, Confirmations
from kernel.rollback.errors import RollbackRefused
from kernel.rollback.execute import rollback_epoch, rollback_operation
from kernel.rollback.plan import plan_epoch
from kernel.rollback.rebuild import prepare_rebuild, rebuild
from kernel.transaction.kernel import Kernel
from kernel.values.model_registry import ActiveModels
from kernel.verify import verify
from kernel.verify.violation import record_violation
from kernel.work.contents import BINDING_QUEUE
from kernel.work.outcomes import reject_for_capacity
from kernel.work.reports import CapacityRejected
from kernel.work.requests import WorkRequest, enqueue
from tests.actors.harness import running_committer, scripted_ledger
from tests.actors.intents import source
from tests.kernel.build import (
    FakeHost,
    adapt,
    advance_policy,
    changed,
    create,
    drain,
    envelope,
    link,
    memory_ledger,
    submit,
    submit_answered,
)
from tests.kernel.every import attempt, every_kind, own, receipt, says
from tests.kernel.implied import go_round
from tests.kernel.lites import lite, migrated
from tests.kernel.no_lease import NoLease
from tests.kernel.simulations import policy, simulate
from tests.kernel.test_checks import CASES, checked_ledger

SEED = {
    # §2: the envelope
    "envelope_validation_failed": "§2.1",
    "envelope_schema_invalid": "§2.2",
    "envelope_verb_composition_invalid": "§2.2",
    "envelope_scope_descriptor_missing": "§2.4",
    "envelope_scope_descriptor_invalid": "§2.4",
    "envelope_scope_single_node_violation": "§2.4",
    "envelope_scope_global_sweep_unauthorized": "§2.4",
    "envelope_scope_cascade_depth_exceeded": "§2.4",
    "envelope_policy_generation_stale": "§2.2",
    "policy_generation_stale": "§2.2",
    "envelope_commit_rolled_back": "§2.3",
    "envelope_schema_version_unsupported": "§2.8",
    "needs_migration_review": "§2.8",
    # §4.3.1: a node is written
    "node_write_event": "§4.3.1",
    # §3: verbs
    "envelope_unknown_semantic_verb": "§3.6",
    "envelope_verb_decomposition_missing_primitive": "§3.6",
    "envelope_verb_decomposition_forbidden_primitive": "§3.6",
    "profile_assign": "§3.3",
    "metadata_field_override": "§3.3",
    "search_run_record": "§3.3",
    # §4 and §5: effects, undoing
    "envelope_effect_reversibility_invalid": "§4.4",
    "tier_1_requires_all_fully_reversible": "§4.5",
    "tier_1_rollback": "§5.6",
    "tier_1_rollback_applied": "§5.2",
    "tier_2_rollback": "§5.6",
    "tier_2_rollback_applied": "§5.3",
    "tier_3_requires_architect": "§5.4",
    "tier_3_rebuild": "§5.6",
    "tier_3_rebuild_applied": "§5.4",
    "rollback_partial_external_effect_persists": "§5.6",
    # §6: replay
    "audit_replay": "§6.6",
    "replay_blocked_fingerprint_mismatch": "§6.6",
    "operation_not_replayable": "§6.3",
    "recorded_output_unavailable": "§6.3",
    "fingerprint_mismatch": "§6.3",
    # §7 and §8: taint, authority
    "envelope_taint_resolution_invalid": "§7.3",
    "envelope_taint_output_node_mismatch": "§7.3",
    "taint_propagation": "§7.4",
    "authority_recompute_request": "§8.2",
    "authority_recompute_completed": "§8.2",
    "cascade_depth_exceeded": "§8.4",
    "cu_authority_cycle_detected": "§3.8.1",
    # §9 and §10: spans, isolation
    "envelope_cu_source_spans_missing": "§9.2",
    "envelope_cu_display_kind_mismatch": "§9.4",
    "source_span_unavailable": "§9.3",
    "envelope_unwrapped_content": "§10.2",
    "envelope_unwrapped_metadata": "§10.2",
    "envelope_prompt_hash_pre_wrap": "§10.2",
    # §11: simulation
    "simulation_not_supported_for_operation_kind": "§11.5",
    "operation_kind_marked_not_simulatable_v1_6": "§11.5",
    "operation_has_untyped_effects": "§11.5",
    "simulation_external_effect_blocked": "§11.5",
    "simulation_preview_emit": "§11.5",
    "simulation_external_effect_policy_check": "§11.5",
    "visibility_taint_warning_record": "§11.5",
    # §12: overlays
    "envelope_access_overlay_blocked": "§12.2",
    "access_overlay_construction_invalid": "§12.4",
    "b1_not_yet_supported": "§12.4",
    "envelope_sealed_tier_2_cache_violation": "§12.5",
    "envelope_sealed_outbound_unauthorized": "§12.5",
    # §15.5 and §19: conflicts, the bridge
    "envelope_conflict_user_review_required": "§2.2",
    "implication_detection_cycle_exceeded": "§19.1",
    # §17: what is kept
    "extraction_attempt": "§17.1",
    "recorded_model_output": "§17.1",
    "binding_fire_record": "§17.6",
    "binding_evaluation_manifest": "§17.6",
    "binding_generation_snapshot": "§17.6",
    "binding_fire_capacity_rejected": "§17.6",
    "policy_generation_advance": "§17.6",
    "membership_state_transition": "§17.6",
    "kernel_event_log_integrity_violation": "§17.5",
    "AdaptationProposalReceipt": "§17.1",
    "IngestionRunReceipt": "§17.1",
    "SearchExecutionManifest": "§17.2",
    "SearchCoverageReceipt": "§17.2",
    "ShareTokenRevocation": "§17.1",
    # §18: capacity
    "envelope_capacity_unavailable": "§2.2",
    "capacity_unavailable": "§18.2",
    "quota_exceeded": "§18.4",
    # §20: who writes
    "envelope_actor_unauthorized": "§20.1",
}

SAME_AS = {"capacity_unavailable": "envelope_capacity_unavailable"}
"""A shorter name of the specification for what has a code of its own already."""

ABSENT = {
    "AdaptationProposalReceipt": "named once, without fields, and owned by another artifact",
    "IngestionRunReceipt": "named once, without fields; what an ingestion did is its operations",
    "SearchExecutionManifest": "of the search router, which is another artifact",
    "SearchCoverageReceipt": "of the search router, which is another artifact",
    "ShareTokenRevocation": "a schema of another artifact; here it is share_link_revoke, a log row",
}

ONE = {"model_version": "m-1", "model_provider": "local"}
KEYS = Confirmations({"user": b"u" * 32, "architect": b"a" * 32})
KERNEL = Kernel()
UNDERSTANDING = "ConsolidatedUnderstanding"


def said(ledger: Ledger) -> set[str]:
    """Every kind, reason code and block reason on the receipts of a ledger."""
    with ledger.view() as view:
        rows = [
            *view.tables.scan(TableQuery(schema.receipts)),
            *view.tables.scan(TableQuery(schema.ephemeral_receipts)),
        ]
    documents = [orjson.loads(row["receipt_bytes"]) for row in rows]
    names = ("receipt_kind", "reason_code", "block_reason")
    return {document[name] for document in documents for name in names if name in document}


def refused_by_checks() -> Iterator[str]:
    """The first case of each code of V1 to V10."""
    first = {}
    for case in CASES:
        first.setdefault(case.values[3], case.values)
    for check, document, changes, _, _ in first.values():
        ledger = checked_ledger()
        submitter = "caller" if check == "V1" else "orchestrator"
        submit(ledger, changed(document, changes), submitter=submitter)
        yield from said(ledger)


def the_course() -> Iterator[str]:
    ledger = memory_ledger()
    submit(ledger, *every_kind(), submitter="orchestrator")
    taint = {
        "source_visibility_taint": ["public_open", "sealed"],
        "resolved_output_visibility_class": "sealed",
    }
    manifest = envelope("binding_fire_record", [says("binding_evaluation_manifest")])
    manifest["operation_kind"] = "binding_evaluation_manifest_emit"
    submit(
        ledger,
        create("mixed", "Note", visibility_class="sealed", envelope=taint),
        create("spanless", UNDERSTANDING),
        manifest,
        submitter="orchestrator",
    )
    yield from said(ledger)


def asked_for_work() -> Iterator[str]:
    ledger = memory_ledger()
    content = {"binding_id": "b", "source_event_id": "e"}
    signal = {"ec_capacity_lease_state": "none", "queue_depth": 0, "inflight_operations": 0}
    with ledger.transaction() as transaction:
        [enqueued] = enqueue(transaction, [WorkRequest(BINDING_QUEUE, "k", content)])
        reject_for_capacity(
            transaction,
            CapacityRejected(request_id=enqueued.request_id, capacity_signal_at_rejection=signal),
        )
    yield from said(ledger)


def inapplicable() -> Iterator[str]:
    ledger = memory_ledger()
    unknown = own("policy_snapshot_advance", "PG-2", prior_policy_generation_id="PG-0")
    submit(ledger, unknown, submitter="orchestrator")
    submit(ledger, envelope("extraction_state_change", [attempt(1, "pending", "succeeded")]))
    yield from said(ledger)


def authorities() -> Iterator[str]:
    ledger = memory_ledger()
    submit(ledger, create("claim", "VersionedClaim", authority=1))
    names = [f"u-{number:03}" for number in range(MAX_CASCADE_DEPTH + 2)]
    submit(ledger, *(create(name, UNDERSTANDING) for name in names))
    pairs = zip(["claim", *names], names, strict=False)
    submit(ledger, *(link(f"{source}>{other}", source, other) for source, other in pairs))
    submit(ledger, adapt("claim", authority=0))
    submit(ledger, create("a", UNDERSTANDING), create("b", UNDERSTANDING))
    drain(ledger)
    submit(ledger, link("ab", "a", "b"), link("ba", "b", "a"))
    yield from said(ledger)


def simulations() -> Iterator[str]:
    ledger = memory_ledger()
    nested = envelope("simulate", [receipt()])
    untyped = changed(create("n", "Note"), {"primitive_effects.0.effect_kind": "unheard_of"})
    forbids = policy(forbidden_external_effects=("billing_chargeable_call",))
    sealed = create("s", "Note", visibility_class="sealed")
    simulate(ledger, nested)
    simulate(ledger, untyped)
    simulate(ledger, create("n", "Note", billing_chargeable=True), forbids)
    simulate(ledger, sealed)
    yield from said(ledger)


def replays() -> Iterator[str]:
    ledger = memory_ledger()
    parent, child = create("asked", "Note"), create("child", "Note")
    submit_answered(ledger, parent, b"said", **ONE)
    child["causal_parent_operation_ids"] = [parent["operation_id"]]
    submit(ledger, child)
    with ledger.transaction() as transaction:
        for model in ({"m-1": "m-2"}, {}):
            registry = ActiveModels(model)
            for strategy in ("blocked_on_fingerprint_mismatch", "record_only"):
                replay_operation(transaction, parent["operation_id"], strategy, registry)
        replay_operation(transaction, "unheard of", "record_only", ActiveModels({}))
    yield from said(ledger)


def refusal(call, *arguments, **options) -> str:
    with pytest.raises(RollbackRefused) as raised:
        call(*arguments, **options)
    return raised.value.code


def undoing() -> Iterator[str]:
    ledger = memory_ledger()
    note = create("n", "Note")
    made = own("materialization_emit", "mat", materialized_path="a/b.pdf", content_hash="ab" * 32)
    submit(ledger, note, made, submitter="orchestrator")
    with ledger.transaction() as transaction:
        now_us = transaction.host.now_us()
        yield refusal(rollback_operation, KERNEL, transaction, made["operation_id"])
        yield rollback_operation(KERNEL, transaction, note["operation_id"]).document()["result"]
        plan = plan_epoch(transaction, made["operation_id"])
        what = Confirmable(2, made["operation_id"], plan.digest)
        token = KEYS.issue("user", what, confirmation_id="2", now_us=now_us)
        words = {"confirmations": KEYS, "user_confirmation_token": token}
        done = rollback_epoch(KERNEL, transaction, made["operation_id"], **words)
        yield done.document()["result"]
    with ledger.transaction() as transaction:
        options = {"confirmations": KEYS, "archive": [].append}
        unconfirmed = options | {"architect_confirmation_token": None}
        prepared = prepare_rebuild(KERNEL, transaction, 0)
        yield refusal(rebuild, KERNEL, transaction, prepared, **unconfirmed)
        what = Confirmable(3, prepared.plan.scope, prepared.plan.digest)
        token = KEYS.issue("architect", what, confirmation_id="3", now_us=now_us)
        done = rebuild(KERNEL, transaction, prepared, **options, architect_confirmation_token=token)
        yield done.document()["result"]
    yield from said(ledger)


def capacity() -> Iterator[str]:
    ledger = memory_ledger()
    governance = {
        "daily_write_quota_per_kind": {"create": 1},
        "on_quota_exceeded": "hard_stop_and_alert",
        "ec_capacity_lease_strategy": "block_on_unavailable",
    }
    advance_policy(ledger, kernel_cost_governance=governance)
    in_force = {"policy_generation_id": "PG-2"}
    submit(ledger, *(create(name, "Note", envelope=in_force) for name in "ab"))
    noted = adapt("a", title="t", envelope_changes=in_force)
    costs = {"affected_subgraph_descriptor.estimated_capacity_cost": 1}
    submit(ledger, changed(noted, costs), kernel=Kernel(capacity=NoLease()))
    yield from said(ledger)


def conflicts() -> Iterator[str]:
    ledger = memory_ledger()
    submit(ledger, create("n", "Note"))
    for refs in (["a"], ["a", "b"]):
        submit(ledger, adapt("n", cites_refs=refs), unseen=True)
    yield from said(ledger)


def failed_commit() -> Iterator[str]:
    ledger, store = scripted_ledger()

    async def lose() -> None:
        async with running_committer(ledger) as committer:
            store.faults.append("lost")
            with pytest.raises(CommitFailed):
                await committer.commit([IntentUnit(source("a"), "s-1")])

    anyio.run(lose)
    yield from said(ledger)


def damage() -> Iterator[str]:
    ledger = Ledger.create(MemoryStore(), FakeHost().host)
    submit(ledger, create("n", "Note"))
    with ledger.transaction() as transaction:
        [row] = transaction.tables.scan(TableQuery(schema.nodes))
        transaction.tables.put(schema.nodes, row | {"record": b"{}"})
    with ledger.transaction() as transaction:
        record_violation(transaction, verify(transaction))
    yield from said(ledger)


def migration() -> Iterator[str]:
    ledger = memory_ledger()
    migrated(ledger, lite(create("n", "Note"), affected_subgraph_descriptor=None))
    [item] = open_reviews(ledger)
    with ledger.transaction() as transaction:
        discard(KERNEL, transaction, item, "a duplicate")
    yield from said(ledger)


def implications() -> Iterator[str]:
    ledger = memory_ledger()
    note = create("n", "Note")
    submit(ledger, note)
    go_round(ledger, ["n"], note["operation_id"], CYCLE_EPOCHS_MAX + 1)
    yield from said(ledger)


def open_reviews(ledger: Ledger) -> list[str]:
    with ledger.view() as view:
        items = adjudications(view, kind=MIGRATION_KIND).items
    return [item.receipt["receipt_id"] for item in items]


PRODUCERS = (
    refused_by_checks,
    the_course,
    asked_for_work,
    inapplicable,
    authorities,
    simulations,
    replays,
    undoing,
    capacity,
    conflicts,
    failed_commit,
    damage,
    migration,
    implications,
)


@pytest.fixture(scope="module")
def produced() -> set[str]:
    codes = {code for producer in PRODUCERS for code in producer()}
    model = memory_ledger()
    submit_answered(model, create("n", "Note"), b"said", **ONE)
    return codes | said(model)


@pytest.mark.spec("§2.2", "§4.5", "§5.6", "§6.3", "§11.5", "§12.4", "§17.6", "§18.4", "§20.1")
@pytest.mark.parametrize("code", SEED)
def test_what_the_specification_names_is_brought_about_or_said_to_be_absent(produced, code):
    assert (SAME_AS.get(code, code) in produced) == (code not in ABSENT)


def test_what_is_absent_or_named_twice_is_named_by_the_specification():
    assert ABSENT.keys() | SAME_AS.keys() <= SEED.keys()


@pytest.mark.spec("§17.6")
def test_every_kind_of_receipt_that_was_brought_about_is_registered(produced):
    assert SEED.keys() - ABSENT.keys() >= (produced & RECEIPT_KINDS.keys()) - OWN_KINDS


OWN_KINDS = {
    "epoch_opened",
    "work_requested",
    "work_request_closed",
    "epoch_closed",
    "simulation_preview_payload",
    "quota_exceeded_alert",
    "capacity_alert",
    "capacity_lease",
    "capacity_override",
    "review_item_discarded",
    "belief_sessions_anchored",
    "implication_detection_run",
    "implication_detection_halted",
}
"""Kinds that the specification describes and does not name."""
