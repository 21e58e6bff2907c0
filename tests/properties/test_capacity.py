"""PT-10: under any load, what capacity does not cover is refused, put off, or told of (§3.8.1)."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.audit.costs import cost_totals
from kernel.ledger import schema
from kernel.ledger.store.tables import TableQuery
from kernel.model.result import SubmissionResult
from kernel.records.capacity import CapacityGrant
from kernel.transaction.kernel import Kernel
from kernel.values.pressure import Amount, Capacity
from kernel.values.priorities import capacity_priority_of
from tests.kernel.build import advance_policy, create, memory_ledger, submit
from tests.properties.family import FAMILY

STRATEGIES = ("block_on_unavailable", "queue_until_available", "alert_and_proceed")
PRIORITIES = (None, "user_initiated_critical", "background_low_priority")
TOTAL = 8.0
KEPT = 2.0
CAPACITY = Capacity(Amount(float("inf"), TOTAL), {"critical": Amount(cost=KEPT)})


@dataclass
class SwitchedLeases:
    """A lease of cost that comes back when a test says so, and cannot be read when it says so."""

    held: dict[str, float] = field(default_factory=dict)
    known: bool = True

    def lease(self, operation_kind, priority):  # noqa: ARG002 - the port's names
        name = capacity_priority_of(priority)
        held = tuple(
            Amount(cost=self.held.get(rank, 0.0))
            for rank in ("background", "user_initiated", "critical")
        )
        left = CAPACITY.available(name, held).cost if self.known else 0.0
        ceiling = CAPACITY.ceiling(name).cost
        return CapacityGrant(left > 0, max(0.0, left), "lease", 7, ceiling, self.known)

    def draw(self, operation_kind, priority, cost):  # noqa: ARG002
        name = capacity_priority_of(priority)
        self.held[name] = self.held.get(name, 0.0) + cost


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("submit"),
            st.sampled_from(PRIORITIES),
            st.sampled_from([0.25, 1.0, 3.0, 7.0, 9.0]),
            st.booleans(),
        ),
        st.sampled_from([("returns",), ("lost",), ("found",)]),
    ),
    max_size=8,
)


@pytest.mark.spec("PT-10", "INV-A-COST-1")
@FAMILY
@given(strategy=st.sampled_from(STRATEGIES), steps=STEPS)
def test_no_load_gets_past_the_capacity_but_as_the_policy_says(strategy, steps):
    ledger, leases = memory_ledger(), SwitchedLeases()
    advance_policy(ledger, kernel_cost_governance={"ec_capacity_lease_strategy": strategy})
    kernel = Kernel(capacity=leases)
    accepted = alerts = overrides = 0
    costs = 0.0
    for number, step in enumerate(steps):
        match step:
            case ("returns",):
                leases.held.clear()
            case ("lost",) | ("found",):
                leases.known = step[0] == "found"
            case (_, priority, cost, confirmed):
                fields = {"recompute_priority": priority} if priority else {}
                if confirmed:
                    fields["capacity_override"] = {"confirmed_by": "a", "reason": "b"}
                document = create(f"n-{number}", "Note", envelope=fields)
                document["policy_generation_id"] = "PG-2"
                document["affected_subgraph_descriptor"]["estimated_capacity_cost"] = cost
                before = dict(leases.held)
                lease = leases.lease("create", priority or "user_active_session")
                covered = lease.granted and lease.cost_remaining >= cost
                result = submit(ledger, document, kernel=kernel)
                if covered or confirmed or strategy == "alert_and_proceed":
                    assert isinstance(result, SubmissionResult)
                    assert sum(leases.held.values()) == sum(before.values()) + cost
                    accepted, costs = accepted + 1, costs + cost
                    overrides += not covered and confirmed
                    alerts += not covered and not confirmed
                else:
                    refusal = result.rejection
                    assert refusal.reason_code == "envelope_capacity_unavailable"
                    waits = strategy == "queue_until_available" and cost <= lease.ceiling
                    assert refusal.retry_after_s == (7 if waits else None)
                    assert leases.held == before
    with ledger.view() as view:
        assert view.head().ec_sequence_number == accepted + 1
        kinds = [row["receipt_kind"] for row in view.tables.scan(TableQuery(schema.receipts))]
        totals = {total.semantic_intent: total for total in cost_totals(view).totals}
    assert (kinds.count("capacity_alert"), kinds.count("capacity_override")) == (alerts, overrides)
    assert kinds.count("capacity_lease") == accepted - alerts - overrides
    if accepted:
        assert totals["create"].operations == accepted
        assert totals["create"].estimated_cost == costs
