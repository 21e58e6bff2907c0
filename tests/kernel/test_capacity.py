"""V11: quotas, budgets, the throttle and the leases of capacity (§18)."""

from dataclasses import replace

import orjson
import pytest

from kernel.audit.costs import cost_entries
from kernel.capacity import DEFAULT_DAILY_QUOTA, KernelCostGovernance, Lease
from kernel.kernel import Kernel
from kernel.ledger import schema
from kernel.ledger.memory import MemoryStore
from kernel.model.result import SubmissionResult
from kernel.operation_counts import operations_of_day, operations_of_run
from kernel.verify import verify
from tests.kernel.build import (
    HOUR_US,
    START_US,
    advance_policy,
    answered,
    changed,
    code_of,
    create,
    effect,
    envelope,
    ledger_on,
    submit,
)

COST = "affected_subgraph_descriptor.estimated_capacity_cost"
UNAVAILABLE = "envelope_capacity_unavailable"
ENOUGH = Lease(granted=True, cost_remaining=2, ec_capacity_lease_id="lease-1")
SHORT = Lease(granted=True, cost_remaining=1, ec_capacity_lease_id="lease-1", retry_after_s=9)
UNREADABLE = replace(SHORT, granted=False, cost_remaining=0, known=False)
ESTIMATE = 0.1
"""Of a note: it has two effects."""

DENIED = Lease(granted=False, cost_remaining=100, ec_capacity_lease_id="lease-1", retry_after_s=9)


class Leases:
    """A port that always answers the same, and remembers what it was asked."""

    def __init__(self, lease):
        self._lease, self.asked, self.drawn = lease, [], []

    def lease(self, operation_kind, priority):
        self.asked.append((operation_kind, priority))
        return self._lease

    def draw(self, operation_kind, priority, cost):
        self.drawn.append((operation_kind, priority, cost))


class World:
    def __init__(self):
        self.ledger, self.host = ledger_on(MemoryStore())
        self.policy = "PG-1"
        self.made = 0

    def govern(self, **governance):
        self.policy = f"PG-{int(self.policy[3:]) + 1}"
        advance_policy(self.ledger, self.policy, kernel_cost_governance=governance)

    def note(self, cost=None, **changes):
        self.made += 1
        document = create(f"n-{self.made}", "Note", envelope={"policy_generation_id": self.policy})
        return changed(document, ({} if cost is None else {COST: cost}) | changes)

    def submit(self, document=None, lease=None, submitter="caller"):
        kernel = Kernel() if lease is None else Kernel(capacity=Leases(lease))
        document = self.note(2) if document is None else document
        return submit(self.ledger, document, kernel=kernel, submitter=submitter)

    def receipts(self, kind):
        with self.ledger.view() as view:
            rows = view.tables.select(schema.receipts, {"receipt_kind": kind})
        return [orjson.loads(row["receipt_bytes"]) for row in rows]

    def count(self, kind="create"):
        with self.ledger.view() as view:
            return operations_of_day(view, self.host.time_us, kind)


@pytest.fixture
def world():
    made = World()
    yield made
    with made.ledger.view() as view:
        assert verify(view).findings == ()


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
    assert isinstance(world.submit(world.note(1e12)), SubmissionResult)
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
    lease = Lease(granted=False, cost_remaining=remaining)
    assert isinstance(world.submit(lease=lease), SubmissionResult)
    [receipt] = world.receipts("capacity_alert")
    assert "cost_remaining" not in receipt


@pytest.mark.spec("§18.1")
def test_a_policy_that_consumes_no_lease_asks_for_none(world):
    world.govern(consumes_ec_capacity_lease=False)
    leases = Leases(DENIED)
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
    leases = Leases(ENOUGH)
    document = world.note(1) | changes
    submit(world.ledger, document, kernel=Kernel(capacity=leases), submitter="orchestrator")
    assert leases.asked == [("create", priority)]


# Quotas


def quota(number, **more):
    return {"daily_write_quota_per_kind": {"create": number}, **more}


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


@pytest.mark.spec("§18.1")
def test_above_a_stated_threshold_background_work_waits_a_second(world):
    world.govern(emergency_throttle_threshold_ops_per_sec=3)
    background = {"recompute_priority": "background_low_priority"}
    assert [code_of(world.submit()) for _ in range(2)] == [None, None]
    result = world.submit(world.note() | background)
    refused(result, "emergency_throttle", "recompute_priority", 1)
    assert code_of(world.submit()) is None
    world.host.time_us += 1_000_001
    assert code_of(world.submit(world.note() | background)) is None


@pytest.mark.spec("§18.1")
def test_a_threshold_that_nobody_stated_throttles_nothing(world):
    background = {"recompute_priority": "background_normal"}
    assert [code_of(world.submit(world.note() | background)) for _ in range(150)] == [None] * 150


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
    assert [one.semantic_intent for one in rest.entries] == ["policy_snapshot_advance"]
    assert rest.next_after is None


@pytest.mark.spec("§18.3")
def test_what_models_used_is_the_actual_cost(world):
    usage = {"input": 10, "output": 5}
    assert (
        code_of(
            world.submit(
                answered(world.note(), recorded_token_usage=usage), submitter="orchestrator"
            )
        )
        is None
    )
    with world.ledger.view() as view:
        [entry] = cost_entries(view).entries
    assert entry.actual_cost == 15
