"""Leases do what a plain model of them does, whatever the order of events."""

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from redis.asyncio import Redis

from kernel.values.pressure import Amount, Capacity
from kernel.values.priorities import CAPACITY_PRIORITIES
from queues.errors import QueueError
from queues.leases.capacity_leases import CapacityLeases

HOLDERS = st.sampled_from("ABCDE")
PRIORITIES = st.sampled_from(CAPACITY_PRIORITIES)
COSTS = st.sampled_from([0.0, 0.05, 1.0, 2.5, 4.0])
PASSING_MS = st.sampled_from([1, 30, 100])
TTL_MS = 100

# In units of the model: cost in millionths, so that it adds up exactly.
SLOTS, COST = 4, 6_000_000
KEPT_SLOTS = {"user_initiated": 1, "critical": 1}
KEPT_COST = {"user_initiated": 1_000_000, "critical": 2_000_000}
CAPACITY = Capacity(
    Amount(SLOTS, COST / 1e6),
    {name: Amount(KEPT_SLOTS[name], KEPT_COST[name] / 1e6) for name in KEPT_SLOTS},
)


@dataclass
class ModelHold:
    priority: str
    slots: int
    cost: int
    until_ms: int
    token: int


@dataclass
class LeaseModel:
    now_ms: int = 1_000_000
    fence: int = 0
    holds: dict[str, ModelHold] = field(default_factory=dict)
    waiting: dict[str, tuple[str, int]] = field(default_factory=dict)

    def living(self) -> dict[str, ModelHold]:
        return {name: hold for name, hold in self.holds.items() if hold.until_ms > self.now_ms}

    def fits(self, holder: str, priority: str, cost: int) -> bool:
        """Whatever is held at or below a priority stays out of what is kept above it."""
        for index in range(CAPACITY_PRIORITIES.index(priority), len(CAPACITY_PRIORITIES)):
            above = CAPACITY_PRIORITIES[index + 1 :]
            below = [
                hold
                for other, hold in self.living().items()
                if other != holder and hold.priority not in above
            ]
            slots = SLOTS - sum(KEPT_SLOTS.get(kept_rank, 0) for kept_rank in above)
            costs = COST - sum(KEPT_COST.get(kept_rank, 0) for kept_rank in above)
            if sum(hold.slots for hold in below) + 1 > slots:
                return False
            if sum(hold.cost for hold in below) + cost > costs:
                return False
        return True

    def acquire(self, holder: str, priority: str, cost: int) -> bool:
        self.waiting.pop(holder, None)
        if not self.fits(holder, priority, cost):
            self.waiting[holder] = (priority, self.now_ms + TTL_MS)
            return False
        self.hold(holder, priority, 1, cost)
        return True

    def hold(self, name: str, priority: str, slots: int, cost: int) -> None:
        self.fence += 1
        self.holds[name] = ModelHold(priority, slots, cost, self.now_ms + TTL_MS, self.fence)

    def held_by(self, holder: str, token: int) -> ModelHold | None:
        hold = self.holds.get(holder)
        return hold if hold is not None and hold.token == token else None


class LeaseMachine(RuleBasedStateMachine):
    """Does the same to both and compares every answer and what is left."""

    leases_given = Bundle("leases_given")

    def __init__(self, redis: Redis) -> None:
        super().__init__()
        self.model = LeaseModel()
        self.runner = asyncio.Runner()
        self.redis = redis
        self.leases = CapacityLeases(redis, lambda: self.model.now_ms)

    def do(self, coroutine):
        return self.runner.run(coroutine)

    @initialize()
    def begin(self) -> None:
        self.do(self.redis.flushdb())

    @rule(holder=HOLDERS, priority=PRIORITIES, cost=COSTS, target=leases_given)
    def acquire(self, holder, priority, cost):
        acquired_lease = self.leases.acquire(
            "r", CAPACITY, holder, TTL_MS, capacity_priority=priority, cost=cost
        )
        if cost > CAPACITY.ceiling(priority).cost:
            with pytest.raises(QueueError, match="never has as much") as raised:
                self.do(acquired_lease)
            assert raised.value.code == "lease_too_large"
            return multiple()
        lease = self.do(acquired_lease)
        granted = self.model.acquire(holder, priority, round(cost * 1e6))
        assert (lease is not None) is granted
        if lease is None:
            return multiple()
        hold = self.model.holds[holder]
        assert (lease.token, lease.expires_at_ms) == (hold.token, hold.until_ms)
        return lease

    @rule(name=HOLDERS, priority=PRIORITIES, cost=COSTS)
    def draw(self, name, priority, cost) -> None:
        self.do(self.leases.draw("r", CAPACITY, f"draw-{name}", {priority: cost}, TTL_MS))
        if cost:
            rank = CAPACITY_PRIORITIES.index(priority)
            self.model.hold(f"draw-{name}/{rank}", priority, 0, round(cost * 1e6))

    # Leases are not consumed: every later use of one is a test of a stale token.

    @rule(lease=leases_given)
    def renew(self, lease) -> None:
        hold = self.model.held_by(lease.holder, lease.token)
        renewed = hold is not None and hold.until_ms > self.model.now_ms
        if renewed:
            hold.until_ms = self.model.now_ms + TTL_MS
        assert self.do(self.leases.renew(lease, TTL_MS)) is renewed

    @rule(lease=leases_given)
    def release(self, lease) -> None:
        released = self.do(self.leases.release(lease))
        hold = self.model.held_by(lease.holder, lease.token)
        if hold is not None and hold.until_ms > self.model.now_ms:
            assert released
        if hold is None:
            assert not released
        elif released:
            del self.model.holds[lease.holder]

    @rule(ms=PASSING_MS)
    def time_passes(self, ms) -> None:
        self.model.now_ms += ms

    @invariant()
    def the_same_is_left(self) -> None:
        living = self.model.living()
        left = {
            claim.holder: (claim.token, claim.expires_at_ms, claim.capacity_priority, claim.cost)
            for claim in self.do(self.leases.active_leases("r"))
        }
        assert left == {
            name: (claim.token, claim.until_ms, claim.priority, claim.cost / 1e6)
            for name, claim in living.items()
            if claim.slots
        }
        state = self.do(self.leases.state("r", CAPACITY))
        for index, name in enumerate(CAPACITY_PRIORITIES):
            held = [item for item in living.values() if item.priority == name]
            assert state.held[index] == Amount(
                sum(hold.slots for hold in held), sum(hold.cost for hold in held) / 1e6
            )
            asking = [
                waiting
                for waiting, until in self.model.waiting.values()
                if until > self.model.now_ms
            ]
            assert state.waiting[index] == asking.count(name)
        ends = [item.until_ms - self.model.now_ms for item in living.values()]
        assert state.free_in_ms == min(ends, default=None)

    @invariant()
    def what_the_state_leaves_is_what_would_be_granted(self) -> None:
        state = self.do(self.leases.state("r", CAPACITY))
        for name in CAPACITY_PRIORITIES:
            for cost in (0.0, 1.0):
                said = state.available(name).covers(Amount(1, cost))
                assert said is self.model.fits("nobody", name, round(cost * 1e6))

    def teardown(self) -> None:
        self.runner.run(self.redis.aclose())
        self.runner.close()


@pytest.mark.slow
@pytest.mark.spec("§18.2", "§8.3")
def test_leases_agree_with_their_model(new_client, is_real) -> None:
    examples = settings().max_examples // (5 if is_real else 8)
    run_state_machine_as_test(
        lambda: LeaseMachine(new_client()),
        settings=settings(max_examples=examples, stateful_step_count=40, deadline=None),
    )
