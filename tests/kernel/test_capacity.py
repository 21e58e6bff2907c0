"""V11: quotas, budgets, the throttle and the leases of capacity (§18)."""

import sys
import time
from dataclasses import replace
from itertools import count

import pytest

from kernel.audit.costs import cost_entries, cost_totals, join_totals
from kernel.belief.record import BeliefBatch, record_belief
from kernel.belief.session import BeliefSession
from kernel.belief.terms import OntologyBundle
from kernel.ledger import schema
from kernel.model.envelope import Envelope
from kernel.model.numbers import COST_MAX
from kernel.model.result import SubmissionResult
from kernel.records.capacity import DEFAULT_DAILY_QUOTA, CapacityGrant, KernelCostGovernance
from kernel.rollback.execute import rollback_operation
from kernel.transaction.checks import governance
from kernel.transaction.checks.check import Passage, Submission
from kernel.transaction.kernel import Kernel
from kernel.transaction.operation_counts import operations_of_day, operations_of_run
from kernel.values.canonical import canonicalize
from kernel.values.errors import LedgerCorrupt
from tests.kernel.build import (
    HOUR_US,
    START_US,
    answered,
    changed,
    code_of,
    create,
    effect,
    envelope,
    envelope_of_anchor,
    op_id,
    submit,
    unmeasured,
)
from tests.kernel.simulations import simulate
from tests.world import World

COST = "affected_subgraph_descriptor.estimated_capacity_cost"
UNAVAILABLE = "envelope_capacity_unavailable"
ENOUGH = CapacityGrant(granted=True, cost_remaining=2, ec_capacity_lease_id="lease-1")
SHORT = CapacityGrant(
    granted=True, cost_remaining=1, ec_capacity_lease_id="lease-1", retry_after_s=9
)
UNREADABLE = replace(SHORT, granted=False, cost_remaining=0, known=False)
ESTIMATE = 0.1
"""Of a note: it has two effects."""

DENIED = CapacityGrant(
    granted=False, cost_remaining=100, ec_capacity_lease_id="lease-1", retry_after_s=9
)


class FixedCapacity:
    """A port that always answers the same, and remembers what it was asked."""

    def __init__(self, lease):
        self._lease, self.asked, self.drawn = lease, [], []

    def lease(self, operation_kind, priority):
        self.asked.append((operation_kind, priority))
        return self._lease

    def draw(self, operation_kind, priority, cost):
        self.drawn.append((operation_kind, priority, cost))


class CapacityWorld(World):
    def __init__(self):
        super().__init__()
        self.numbers = count(1)

    def govern(self, **governance):
        self.advance_policy(kernel_cost_governance=governance)

    def note(self, cost=None, **changes):
        number = next(self.numbers)
        document = create(f"n-{number}", "Note", envelope={"policy_generation_id": self.policy})
        return changed(document, ({} if cost is None else {COST: cost}) | changes)

    def submit(self, document=None, lease=None, submitter="caller", throttle_ops_per_sec=None):
        capacity = None if lease is None else FixedCapacity(lease)
        kernel = Kernel(capacity=capacity, throttle_ops_per_sec=throttle_ops_per_sec)
        document = self.note(2) if document is None else document
        return super().submit(document, kernel=kernel, submitter=submitter)

    def count(self, kind="create"):
        with self.ledger.view() as view:
            return operations_of_day(view, self.host.time_us, kind)


@pytest.fixture
def world():
    world = CapacityWorld()
    yield world
    world.check()


def refused(result, code, field, retry_after_s=None):
    rejection = result.rejection
    assert (rejection.check, rejection.reason_code, rejection.field) == ("V11", code, field)
    assert rejection.retry_after_s == retry_after_s
    assert result.document().get("retry_after_s") == retry_after_s


@pytest.mark.spec("§18.1")
def test_the_defaults_are_those_of_the_specification():
    governance = KernelCostGovernance()
    assert governance.quota_of("create") == DEFAULT_DAILY_QUOTA == 10_000_000
    assert governance.emergency_throttle_threshold_ops_per_sec == 100
    assert governance.per_run_write_budget is None
    assert governance.on_quota_exceeded == "alert_and_continue"
    assert governance.consumes_ec_capacity_lease
    assert governance.ec_capacity_lease_strategy == "queue_until_available"
    assert governance.cost_attribution_by_transactional_intent
    assert governance.throttle_ops_per_sec is None


@pytest.mark.spec("§18.1")
@pytest.mark.parametrize(
    "governance",
    [
        {"daily_write_quota_per_kind": {"craete": 1}},
        {"daily_write_quota_per_kind": {"create": -1}},
        {"on_quota_exceeded": "shrug"},
        {"ec_capacity_lease_strategy": "hope"},
        {"emergency_throttle_threshold_ops_per_sec": 0},
        {"per_run_write_budget": -1},
        {"consumes_ec_capacity_lease": "yes"},
        {"schema_version": 2},
        "cheap",
    ],
)
def test_a_generation_with_a_governance_that_is_none_does_not_come_into_force(world, governance):
    kind = "policy_snapshot_advance"
    stated = {"prior_policy_generation_id": "PG-1", "kernel_cost_governance": governance}
    document = envelope(kind, [effect(kind, "PG-2", **stated)])
    assert code_of(world.submit(document, submitter="orchestrator")) == "effect_payload_invalid"


@pytest.mark.spec("INV-A-COST-1")
def test_without_leases_everything_is_granted_and_nothing_is_said(world):
    assert isinstance(world.submit(world.note(COST_MAX)), SubmissionResult)
    assert world.receipts("capacity_lease") == world.receipts("capacity_alert") == []


@pytest.mark.spec("INV-A-COST-1")
@pytest.mark.parametrize("cost", [None, 0, 1.5, 2])
def test_what_the_lease_covers_passes_and_names_its_lease(world, cost):
    document = world.note(cost)
    result = world.submit(document, ENOUGH)
    assert isinstance(result, SubmissionResult)
    assert result.emitted_receipts == ()
    [receipt] = world.receipts("capacity_lease")
    assert receipt["operation_id"] == document["operation_id"]
    assert receipt["ec_capacity_lease_id"] == "lease-1"
    assert receipt["estimated_cost"] == max(cost or 0, ESTIMATE)


@pytest.mark.spec("INV-A-COST-1", "§18.2")
@pytest.mark.parametrize(
    "lease", [SHORT, DENIED, UNREADABLE], ids=["short", "denied", "unreadable"]
)
@pytest.mark.parametrize(
    ("strategy", "retry_after_s"),
    [("block_on_unavailable", None), ("queue_until_available", 9), (None, 9)],
)
def test_what_the_lease_does_not_cover_is_refused_or_put_off(world, lease, strategy, retry_after_s):
    if strategy is not None:
        world.govern(ec_capacity_lease_strategy=strategy)
    before = world.count()
    result = world.submit(lease=lease)
    refused(result, UNAVAILABLE, COST, retry_after_s)
    assert world.count() == before
    [receipt] = world.receipts("envelope_validation_failed")
    assert receipt.get("retry_after_s") == retry_after_s


@pytest.mark.spec("INV-A-COST-1", "§18.1")
@pytest.mark.parametrize(
    "lease", [SHORT, DENIED, UNREADABLE], ids=["short", "denied", "unreadable"]
)
def test_alert_and_proceed_passes_with_a_durable_alert(world, lease):
    world.govern(ec_capacity_lease_strategy="alert_and_proceed")
    assert isinstance(world.submit(lease=lease), SubmissionResult)
    [receipt] = world.receipts("capacity_alert")
    assert receipt["lease_granted"] is lease.granted
    assert receipt["cost_remaining"] == lease.cost_remaining


@pytest.mark.spec("§18.2")
def test_an_alert_of_an_operation_that_is_undone_is_undone_with_it(world):
    world.govern(ec_capacity_lease_strategy="alert_and_proceed")
    document = world.note(2)
    document["primitive_effects"][0]["payload"].pop("node_kind")
    assert code_of(world.submit(document, DENIED)) == "node_kind_missing"
    assert world.receipts("capacity_alert") == []


@pytest.mark.spec("§18.2")
@pytest.mark.parametrize("remaining", [float("inf"), float("nan")])
def test_a_lease_that_counts_no_cost_can_be_told_of(world, remaining):
    world.govern(ec_capacity_lease_strategy="alert_and_proceed")
    lease = CapacityGrant(granted=False, cost_remaining=remaining)
    assert isinstance(world.submit(lease=lease), SubmissionResult)
    [receipt] = world.receipts("capacity_alert")
    assert "cost_remaining" not in receipt


@pytest.mark.spec("§18.1")
def test_a_policy_that_consumes_no_lease_asks_for_none(world):
    world.govern(consumes_ec_capacity_lease=False)
    leases = FixedCapacity(DENIED)
    result = submit(world.ledger, world.note(5), kernel=Kernel(capacity=leases))
    assert isinstance(result, SubmissionResult)
    assert leases.asked == []


@pytest.mark.spec("§18.2")
@pytest.mark.parametrize(
    ("changes", "priority"),
    [
        ({}, "user_active_session"),
        ({"actor": "system"}, "background_normal"),
        ({"recompute_priority": "user_initiated_critical"}, "user_initiated_critical"),
    ],
)
def test_the_lease_is_asked_for_by_kind_and_priority(world, changes, priority):
    leases = FixedCapacity(ENOUGH)
    document = world.note(1) | changes
    submit(world.ledger, document, kernel=Kernel(capacity=leases), submitter="orchestrator")
    assert leases.asked == [("create", priority)]


@pytest.mark.spec("§18.2")
@pytest.mark.parametrize(
    ("lease", "says"),
    [
        (SHORT, "not enough is left"),
        (DENIED, "nothing is granted"),
        (UNREADABLE, "its leases cannot be read"),
        (replace(SHORT, ceiling=1.5), "it costs 2, and there are never more than 1.5"),
    ],
)
def test_a_refusal_says_what_is_short_and_what_can_be_done(world, lease, says):
    message = world.submit(lease=lease).rejection.message
    assert f"the system is at capacity ({says})" in message
    assert "explicit confirmation (capacity_override)" in message
    [receipt] = world.receipts("envelope_validation_failed")
    assert (receipt["lease_granted"], receipt["lease_known"]) == (lease.granted, lease.known)
    assert receipt["ec_capacity_lease_id"] == "lease-1"


@pytest.mark.spec("§18.2")
def test_what_costs_more_than_there_can_ever_be_is_not_put_off_for_ever(world):
    refused(world.submit(lease=replace(SHORT, ceiling=1.5)), UNAVAILABLE, COST, None)
    refused(world.submit(lease=replace(SHORT, ceiling=2)), UNAVAILABLE, COST, 9)


CONFIRMED = {"confirmed_by": "A. Clerk", "reason": "the hearing is at noon"}


@pytest.mark.spec("INV-A-COST-1")
@pytest.mark.parametrize("strategy", ["block_on_unavailable", "queue_until_available"])
@pytest.mark.parametrize("lease", [SHORT, DENIED, UNREADABLE], ids=["short", "denied", "unknown"])
def test_a_user_who_confirms_it_goes_on_without_capacity_and_on_the_record(world, lease, strategy):
    world.govern(ec_capacity_lease_strategy=strategy)
    document = world.note(2, capacity_override=CONFIRMED)
    assert isinstance(world.submit(document, lease), SubmissionResult)
    [receipt] = world.receipts("capacity_override")
    assert receipt["operation_id"] == document["operation_id"]
    assert {name: receipt[name] for name in CONFIRMED} == CONFIRMED
    assert (receipt["estimated_cost"], receipt["lease_known"]) == (2, lease.known)
    with world.ledger.view() as view:
        [entry] = cost_entries(view, after=1).entries
    assert entry.ec_capacity_lease_id == "lease-1"


@pytest.mark.spec("INV-A-COST-1")
def test_a_confirmation_that_nothing_needed_leaves_no_word_of_an_override(world):
    assert isinstance(
        world.submit(world.note(2, capacity_override=CONFIRMED), ENOUGH), SubmissionResult
    )
    assert world.receipts("capacity_override") == []


@pytest.mark.spec("INV-A-COST-1", "K18")
@pytest.mark.parametrize("actor", ["agent", "system", "migration"])
def test_nobody_but_a_user_confirms_it(world, actor):
    document = world.note(2, capacity_override=CONFIRMED, actor=actor)
    result = world.submit(document, DENIED, submitter="orchestrator")
    refused(result, "envelope_actor_unauthorized", "capacity_override")


@pytest.mark.spec("INV-A-COST-1")
@pytest.mark.parametrize("missing", sorted(CONFIRMED))
def test_a_confirmation_names_who_and_why(world, missing):
    said = {name: text for name, text in CONFIRMED.items() if name != missing}
    rejection = world.submit(world.note(2, capacity_override=said), DENIED).rejection
    assert (rejection.check, rejection.field) == ("V1", f"capacity_override.{missing}")


def test_a_confirmation_lifts_no_quota(world):
    world.govern(**quota(0, on_quota_exceeded="hard_stop_and_alert"))
    document = world.note(2, capacity_override=CONFIRMED)
    refused(world.submit(document), "quota_exceeded", "operation_kind")


# What the runtime settles


def rolled_back(world):
    document = world.note()
    assert code_of(world.submit(document)) is None
    kernel = Kernel(capacity=FixedCapacity(DENIED))
    with world.ledger.transaction() as transaction:
        return rollback_operation(kernel, transaction, document["operation_id"]).submission


def anchored(world):
    ontology = OntologyBundle("space", "v1", "graph", "v1")
    _, event = BeliefSession.declare(
        "s", ontology, ["h"], event_id="e", ts="2026-02-09T10:00:00.000000Z"
    )
    events = ((event.event_id, event.event_hash, event.to_bytes()),)
    batch = BeliefBatch("s", "s", 0, event.prev_event_hash, events, 1, 1, ["h"])
    with world.ledger.transaction() as transaction:
        transaction.next_commit_time_us()
        record_belief(transaction, batch)
    document = envelope_of_anchor([batch.anchored_events().model_dump()])
    document |= {"policy_generation_id": world.policy}
    return world.submit(document, DENIED, submitter="orchestrator")


def advanced(world):
    kind, number = "policy_snapshot_advance", int(world.policy[3:])
    moved = effect(kind, f"PG-{number + 1}", prior_policy_generation_id=world.policy)
    document = envelope(kind, [moved]) | {"policy_generation_id": world.policy}
    return world.submit(document, DENIED, submitter="orchestrator")


def compensated(world):
    document = world.note(2, compensates_operation_id="op-0", target_refs=["s"])
    return world.submit(document, DENIED, submitter="orchestrator")


@pytest.mark.spec("INV-A-COST-1")
@pytest.mark.parametrize("settle", [rolled_back, anchored, advanced, compensated])
def test_what_the_runtime_settles_is_told_of_and_never_refused(world, settle):
    world.govern(ec_capacity_lease_strategy="block_on_unavailable")
    result = settle(world)
    assert isinstance(result, SubmissionResult), result
    [receipt] = world.receipts("capacity_alert")
    assert receipt["operation_id"] == result.operation_id


@pytest.mark.spec("INV-A-COST-1")
@pytest.mark.parametrize(
    "verb",
    [
        *("recalculate_authority", "policy_snapshot_advance", "external_effect_report"),
        *("belief_anchor", "rollback", "epoch_rollback", "rebuild"),
    ],
)
def test_each_verb_that_settles_what_was_begun_passes_without_capacity(world, verb):
    world.govern(ec_capacity_lease_strategy="block_on_unavailable")
    document = envelope(verb, [effect("receipt_only")])
    with world.ledger.transaction() as transaction:
        submission = Submission(
            document,
            b"",
            "",
            Envelope.model_validate_json(canonicalize(document)),
            "orchestrator",
            transaction,
            0,
            capacity=FixedCapacity(DENIED),
        )
        verdict = governance.check_capacity(submission)
    assert isinstance(verdict, Passage), verdict
    assert [receipt.receipt_kind for receipt in verdict.receipts] == ["capacity_alert"]


@pytest.mark.spec("INV-A-COST-1")
def test_what_the_runtime_begins_anew_settles_nothing_and_waits_for_capacity(world):
    world.govern(ec_capacity_lease_strategy="block_on_unavailable")
    result = world.submit(world.note(2), DENIED, submitter="orchestrator")
    refused(result, "envelope_capacity_unavailable", COST)


def test_a_caller_cannot_pass_for_the_runtime(world):
    world.govern(ec_capacity_lease_strategy="block_on_unavailable")
    document = world.note(2, compensates_operation_id="op-0", target_refs=["s"])
    assert code_of(world.submit(document, DENIED)) is not None
    assert world.receipts("capacity_alert") == []


# What is drawn


@pytest.mark.spec("§18.2")
def test_what_was_applied_is_drawn_on_the_lease_and_nothing_else_is(world):
    leases = FixedCapacity(ENOUGH)
    kernel = Kernel(capacity=leases)
    document = world.note(1.5)
    for _ in range(2):
        submit(world.ledger, document, kernel=kernel)
    assert leases.drawn == [("create", "user_active_session", 1.5)]
    spoiled = world.note(1)
    spoiled["primitive_effects"][0]["payload"].pop("node_kind")
    submit(world.ledger, spoiled, kernel=kernel)
    submit(world.ledger, world.note(3), kernel=kernel)
    assert len(leases.drawn) == 1


@pytest.mark.spec("§18.2", "§11.5")
def test_a_simulation_draws_its_own_cost_and_not_that_of_what_it_shows(world):
    leases = FixedCapacity(replace(ENOUGH, cost_remaining=100))
    simulate(world.ledger, world.note(50), kernel=Kernel(capacity=leases))
    [(kind, _, cost)] = leases.drawn
    assert kind == "simulate"
    assert cost < 50


@pytest.mark.spec("INV-A-COST-1")
@pytest.mark.parametrize("stated", [None, 0, 0.01])
def test_an_author_who_states_too_little_draws_by_the_effects(world, stated):
    leases = FixedCapacity(ENOUGH)
    submit(world.ledger, world.note(stated), kernel=Kernel(capacity=leases))
    assert leases.drawn == [("create", "user_active_session", ESTIMATE)]


# Quotas


def quota(number, **fields):
    return {"daily_write_quota_per_kind": {"create": number}, **fields}


@pytest.mark.spec("§18.4")
@pytest.mark.parametrize("strategy", ["queue_pending", "hard_stop_and_alert"])
def test_a_quota_refuses_until_the_next_day_of_utc(world, strategy):
    world.govern(**quota(2, on_quota_exceeded=strategy))
    queued = strategy == "queue_pending"
    assert [code_of(world.submit()) for _ in range(2)] == [None, None]
    midnight_us = (START_US // (24 * HOUR_US) + 1) * 24 * HOUR_US
    world.host.time_us = midnight_us - 2_500_000
    result = world.submit()
    refused(result, "quota_exceeded", "operation_kind", 3 if queued else None)
    [receipt] = world.receipts("envelope_validation_failed")
    alert = {"operation_kind": "create", "operation_count": 2, "quota": 2}
    assert receipt.get("alert") == (None if queued else alert)
    assert world.count() == 2
    other = envelope("search_run_record", [effect("receipt_only", query="q")])
    other["policy_generation_id"] = world.policy
    assert code_of(world.submit(other)) is None
    world.host.time_us = midnight_us
    assert code_of(world.submit()) is None
    assert world.count() == 1


@pytest.mark.spec("§18.4")
def test_a_quota_that_lets_pass_tells_of_it_once_a_day_and_kind(world):
    world.govern(**quota(1))
    results = [world.submit() for _ in range(4)]
    assert [code_of(result) for result in results] == [None] * 4
    [receipt] = world.receipts("quota_exceeded_alert")
    assert receipt["operation_id"] == results[1].operation_id
    assert (receipt["operation_kind"], receipt["operation_count"], receipt["quota"]) == (
        "create",
        1,
        1,
    )
    world.host.time_us += 24 * HOUR_US
    assert [code_of(world.submit()) for _ in range(2)] == [None, None]
    assert len(world.receipts("quota_exceeded_alert")) == 2


@pytest.mark.spec("§18.4")
def test_a_quota_that_is_lowered_below_the_count_is_told_of_too(world):
    assert [code_of(world.submit()) for _ in range(3)] == [None] * 3
    world.govern(**quota(1))
    assert [code_of(world.submit()) for _ in range(2)] == [None] * 2
    [receipt] = world.receipts("quota_exceeded_alert")
    assert receipt["operation_count"] == 3


@pytest.mark.spec("§18.4")
def test_what_is_refused_or_answered_before_counts_nothing(world):
    document = world.note()
    assert code_of(world.submit(document)) is None
    assert world.submit(document).duplicate
    assert code_of(world.submit(world.note() | {"actor": "agent"})) is not None
    assert world.count() == 1


# Runs


@pytest.mark.spec("§18.1")
@pytest.mark.parametrize("strategy", ["queue_pending", "hard_stop_and_alert"])
@pytest.mark.parametrize("field", ["session_id", "run_id"])
def test_a_run_has_its_budget_and_no_more(world, field, strategy):
    world.submit(world.note() | {field: "run"})
    world.govern(per_run_write_budget=1, on_quota_exceeded=strategy)
    assert code_of(world.submit(world.note() | {field: "run"})) is None
    result = world.submit(world.note() | {field: "run"})
    refused(result, "run_write_budget_exceeded", field)
    assert code_of(world.submit(world.note() | {field: "other"})) is None
    assert [code_of(world.submit()) for _ in range(2)] == [None, None]
    with world.ledger.view() as view:
        assert operations_of_run(view, "run") == 1


@pytest.mark.spec("§18.1")
def test_a_run_is_what_the_envelope_names_before_it_is_a_session(world):
    world.govern(per_run_write_budget=1, on_quota_exceeded="hard_stop_and_alert")
    for run in ("a", "b"):
        document = world.note() | {"session_id": "s", "run_id": run}
        assert code_of(world.submit(document)) is None


@pytest.mark.spec("§18.1")
def test_a_budget_that_lets_pass_tells_of_it_once_a_run(world):
    world.govern(per_run_write_budget=1)
    results = [world.submit(world.note() | {"session_id": "s"}) for _ in range(3)]
    assert [code_of(result) for result in results] == [None] * 3
    [receipt] = world.receipts("quota_exceeded_alert")
    assert (receipt["run_id"], receipt["operation_count"]) == ("s", 1)


# The throttle

BACKGROUND = {"actor": "system", "recompute_priority": "background_normal"}


def written(world, number, stated=BACKGROUND, **of_the_kernel):
    """The codes of notes that the runtime writes, each in a transaction of its own."""
    return [
        code_of(world.submit(world.note() | stated, submitter="orchestrator", **of_the_kernel))
        for _ in range(number)
    ]


@pytest.mark.spec("§18.1")
def test_above_a_stated_threshold_background_work_waits_a_second(world):
    world.govern(emergency_throttle_threshold_ops_per_sec=3)
    lowest = BACKGROUND | {"recompute_priority": "background_low_priority"}
    assert [code_of(world.submit()) for _ in range(2)] == [None, None]
    result = world.submit(world.note() | lowest, submitter="orchestrator")
    refused(result, "emergency_throttle", "recompute_priority", 1)
    assert code_of(world.submit()) is None
    world.host.time_us += 1_000_001
    assert written(world, 1, lowest) == [None]


@pytest.mark.spec("§18.1")
def test_the_threshold_of_the_process_holds_until_a_policy_states_its_own(world):
    assert written(world, 150) == [None] * 150
    world.host.time_us += 2_000_000
    # What a generation leaves out of its governance has the default, which is the process's.
    world.govern(on_quota_exceeded="alert_and_continue")
    codes = written(world, 100, throttle_ops_per_sec=100)
    assert codes == [None] * 99 + ["emergency_throttle"]
    assert written(world, 2, throttle_ops_per_sec=102) == [None, None]
    world.govern(emergency_throttle_threshold_ops_per_sec=2)
    assert written(world, 1, throttle_ops_per_sec=1000) == ["emergency_throttle"]


@pytest.mark.spec("§18.1")
def test_what_a_user_writes_is_never_put_off_whatever_recompute_it_asks_for(world):
    for priority in ("background_low_priority", "background_normal", "user_active_session"):
        stated = {"recompute_priority": priority}
        results = [world.submit(world.note() | stated, throttle_ops_per_sec=1) for _ in range(2)]
        assert [code_of(result) for result in results] == [None, None]
    assert written(world, 1, throttle_ops_per_sec=1) == ["emergency_throttle"]
    urgent = BACKGROUND | {"recompute_priority": "user_initiated_critical"}
    assert written(world, 1, urgent, throttle_ops_per_sec=1) == [None]


@pytest.mark.spec("§18.1")
def test_what_one_transaction_writes_is_never_put_off_because_of_itself(world):
    kernel = Kernel(throttle_ops_per_sec=3)

    def together(number):
        notes = [world.note() | BACKGROUND for _ in range(number)]
        with world.ledger.transaction() as transaction:
            return [code_of(kernel.submit(transaction, note, "orchestrator")) for note in notes]

    assert together(8) == [None] * 8
    assert together(2) == ["emergency_throttle"] * 2


@pytest.mark.spec("§18.1")
@pytest.mark.parametrize(
    ("verb", "payload", "is_put_off"),
    [
        ("recalculate_authority", {}, True),
        ("enqueue_recalculate_authority", {}, True),
        ("extraction_state_change", {"current_state": "running"}, True),
        *(
            ("extraction_state_change", {"current_state": state}, False)
            for state in ("succeeded", "degraded", "blocked", "abandoned", "cancelled")
        ),
        ("create", {}, True),
        ("create", {"extracted": {"extraction_run_id": "run-1"}}, False),
        *(
            (verb, {}, False)
            for verb in ("landscape_run_seal", "receipts_seal", "external_effect_report")
        ),
        *((verb, {}, False) for verb in ("binding_fire_record", "belief_anchor", "rollback")),
        *((verb, {}, False) for verb in ("epoch_rollback", "rebuild")),
    ],
)
def test_what_the_runtime_settles_or_has_read_is_never_put_off_but_for_an_authority(
    world, verb, payload, is_put_off
):
    world.submit()
    stated = effect("receipt_only") | {"payload": payload}
    document = envelope(verb, [stated], actor="system")
    parsed = (Envelope.model_validate_json(canonicalize(document)), document, b"")
    with world.ledger.transaction() as transaction:
        transaction.next_commit_time_us()
        kernel = Kernel(throttle_ops_per_sec=1)
        verdict = governance.check_capacity(
            kernel.submission_of(transaction, parsed, "orchestrator")
        )
    assert getattr(verdict, "reason_code", None) == ("emergency_throttle" if is_put_off else None)


# The order, and the costs


@pytest.mark.spec("K4", "§2.2 V11")
def test_capacity_is_asked_for_after_reversibility_and_before_conflicts(world):
    world.govern(ec_capacity_lease_strategy="block_on_unavailable")
    named = {"adjudicates_receipt_ids": ["nothing"]}
    spoiled = changed(world.note() | named, {"primitive_effects.0.reversibility": "receipt_only"})
    assert world.submit(spoiled, DENIED).rejection.check == "V10"
    assert world.submit(world.note() | named, DENIED).rejection.check == "V11"
    assert world.submit(world.note() | named).rejection.check == "V12"


@pytest.mark.spec("§18.3")
def test_costs_are_told_by_intent_actor_and_lease(world):
    first = world.note(2)
    world.submit(first, ENOUGH)
    world.submit(world.note())
    world.govern(cost_attribution_by_transactional_intent=False)
    world.submit(world.note(), ENOUGH)
    assert len(world.receipts("capacity_lease")) == 1
    with world.ledger.view() as view:
        page = cost_entries(view, limit=2)
        rest = cost_entries(view, after=page.next_after)
    entry, other = page.entries
    assert entry.document() == {
        "entry_id": f"cost:{first['operation_id']}",
        "operation_id": first["operation_id"],
        "semantic_intent": "create",
        "actor": "user",
        "estimated_cost": 2.0,
        "ec_capacity_lease_id": "lease-1",
        "recorded_at": entry.recorded_at,
        "schema_version": 1,
    }
    assert (other.estimated_cost, other.ec_capacity_lease_id) == (ESTIMATE, "")
    # The generation came into force under the one before, which attributed costs.
    assert [audited_entry.semantic_intent for audited_entry in rest.entries] == [
        "policy_snapshot_advance"
    ]
    assert rest.next_after is None


@pytest.mark.spec("§18.3")
@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        ({"input": 10, "output": 5}, 15),
        ({"prompt_tokens": 10, "completion_tokens": 5, "cached_tokens": 4}, 15),
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}, 15),
        ({"total_tokens": 15}, 15),
        ({"prompt_tokens": 0}, 0),
        ({}, None),
    ],
)
def test_what_models_used_is_the_actual_cost(world, usage, cost):
    document = answered(world.note(), recorded_token_usage=usage)
    assert code_of(world.submit(document, submitter="orchestrator")) is None
    with world.ledger.view() as view:
        [entry] = cost_entries(view).entries
    assert entry.actual_cost == cost
    assert ("actual_cost" in entry.document()) is (cost is not None)


@pytest.mark.spec("§18.3")
def test_an_answer_costs_the_operation_that_recorded_it_and_no_other(world):
    first = answered(world.note(), recorded_token_usage={"total_tokens": 7})
    assert code_of(world.submit(first, submitter="orchestrator")) is None
    with world.ledger.view() as view:
        outputs = view.envelope(first["operation_id"])["recorded_model_outputs"]
    again = world.note() | {"recorded_model_outputs": outputs}
    assert code_of(world.submit(again, submitter="orchestrator")) is None
    with world.ledger.view() as view:
        entries, totals = cost_entries(view).entries, cost_totals(view).totals
    assert [entry.actual_cost for entry in entries] == [7, None]
    assert [(total.operations, total.actual_cost) for total in totals] == [(2, 7)]


@pytest.mark.spec("§18.3", "INV-V16-RETENTION-DURABLE-1")
def test_the_estimate_of_an_erased_envelope_is_on_the_receipt_of_its_lease(world):
    leased, free = world.note(2), world.note(2)
    world.submit(leased, ENOUGH)
    world.submit(free)
    with world.ledger.transaction() as transaction:
        refs = [
            transaction.log_row_of(operation["operation_id"])["envelope_payload_blob_ref"]
            for operation in (leased, free)
        ]
        kept = [transaction.tables.get(schema.blobs, ref) for ref in refs]
        for ref in refs:
            transaction.drop_blob(ref)
    with world.ledger.view() as view:
        estimates = [entry.estimated_cost for entry in cost_entries(view).entries]
    assert estimates == [2, None]
    with world.ledger.transaction() as transaction:
        for row in kept:
            transaction.tables.put(schema.blobs, row)


@pytest.mark.spec("§18.3")
def test_sums_are_the_same_however_they_are_cut_into_pages(world):
    for cost in (0.1, 0.2, 0.3, 1e9, 0.7):
        world.submit(world.note(cost))
    world.submit(world.note(1) | {"actor": "agent"}, submitter="orchestrator")
    with world.ledger.view() as view:
        whole = cost_totals(view)
        for limit in (1, 2, 5):
            pages, after = [], 0
            while after is not None:
                pages.append(cost_totals(view, after=after, limit=limit))
                after = pages[-1].next_after
            joined = join_totals(pages)
            assert [(total.actor, total.operations) for total in joined] == [
                ("agent", 1),
                ("user", 5),
            ]
            for total, other in zip(joined, whole.totals, strict=True):
                assert total.estimated_cost == pytest.approx(other.estimated_cost, rel=1e-15)


@pytest.mark.spec("§18.3", "INV-A-COST-1")
@pytest.mark.parametrize("pages", [1, 2, 10])
def test_costs_that_no_lease_has_are_summed_up_as_the_most_that_one_has(world, pages):
    with unmeasured():
        for cost in (1e308, 2, 1.7976931348623157e308, COST_MAX):
            assert code_of(world.submit(world.note(cost))) is None
    with world.ledger.view() as view:
        entries = cost_entries(view).entries
        summed, after = [], 0
        while after is not None:
            summed.append(cost_totals(view, after=after, limit=pages))
            after = summed[-1].next_after
    assert [entry.estimated_cost for entry in entries] == [1e308, 2, sys.float_info.max, COST_MAX]
    [total] = join_totals(summed)
    assert (total.operations, total.operations_over_limit) == (4, 2)
    assert total.estimated_cost == 3 * COST_MAX + 2
    assert total.document()["operations_over_limit"] == 2


@pytest.mark.spec("§18.3")
def test_a_sum_of_costs_that_a_lease_can_have_says_nothing_of_a_limit(world):
    world.submit(world.note(COST_MAX))
    with world.ledger.view() as view:
        [total] = cost_totals(view).totals
    assert total.estimated_cost == COST_MAX
    assert "operations_over_limit" not in total.document()


@pytest.mark.spec("§5.2", "INV-A-COST-1")
def test_what_was_recorded_with_a_cost_that_no_lease_has_can_be_undone(world):
    document = world.note(1e308)
    with unmeasured():
        assert code_of(world.submit(document)) is None
    with world.ledger.transaction() as transaction:
        done = rollback_operation(Kernel(), transaction, document["operation_id"]).submission
    assert isinstance(done, SubmissionResult), done
    with world.ledger.view() as view:
        scope = view.envelope(done.operation_id)["affected_subgraph_descriptor"]
    assert scope["estimated_capacity_cost"] == COST_MAX


CHANGED = op_id("changed")


def used(*counts):
    """An answer of a model that counts so many tokens."""
    usage = {str(place): count for place, count in enumerate(counts)}
    return {"recorded_by_operation_id": CHANGED, "recorded_token_usage": usage}


@pytest.mark.spec("§18.3", "§17.5")
@pytest.mark.parametrize(
    "tampered",
    [
        {COST: "much"},
        {COST: []},
        {"affected_subgraph_descriptor": 7},
        {"primitive_effects": None},
        {"recorded_model_outputs": [7]},
        {"recorded_model_outputs": [used(1e308, 1e308)]},
        {"recorded_model_outputs": [used("many")]},
    ],
)
def test_an_envelope_that_was_changed_is_named_and_not_summed_up(tampered):
    world = CapacityWorld()
    document = world.note(operation_id=CHANGED)
    assert code_of(world.submit(document)) is None
    with world.ledger.transaction() as transaction:
        ref = transaction.log_row_of(document["operation_id"])["envelope_payload_blob_ref"]
        row = transaction.tables.get(schema.blobs, ref)
        content = canonicalize(changed(document, tampered))
        transaction.tables.put(schema.blobs, row | {"content": content})
    with world.ledger.view() as view, pytest.raises(LedgerCorrupt, match="row 1 of the log"):
        cost_totals(view)


@pytest.mark.spec("§18.4")
@pytest.mark.parametrize("zone_hours", [0, 14, -12])
def test_a_day_ends_at_midnight_utc_to_the_microsecond(world, zone_hours, monkeypatch):
    monkeypatch.setenv("TZ", f"X{-zone_hours:+d}")
    time.tzset()
    try:
        world.govern(**quota(1, on_quota_exceeded="queue_pending"))
        midnight_us = (START_US // (24 * HOUR_US) + 1) * 24 * HOUR_US
        world.host.time_us = midnight_us - 3
        assert code_of(world.submit()) is None
        refused(world.submit(), "quota_exceeded", "operation_kind", 1)
        world.host.time_us = midnight_us
        assert code_of(world.submit()) is None
        result = world.submit()
        refused(result, "quota_exceeded", "operation_kind", 24 * 3600)
    finally:
        monkeypatch.undo()
        time.tzset()
