"""What a client is told when capacity is short: every strategy, the override, and what goes on."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import orjson
import pytest
from fakeredis import FakeAsyncRedis

from kernel.ledger import schema
from kernel.records.capacity import CapacityGrant
from kernel.transaction.kernel import Kernel
from kernel.values.pressure import ANY_KIND, Amount, Capacity
from queues.leases.capacity_leases import CapacityLeases
from queues.leases.kernel_capacity import LeasedCapacity
from tests.kernel.build import FakeHost, advance_policy, create, findings, receipts_of_kind
from tests.workers.api.door import SESSION, Door, error_of, rows, running_door, source

pytestmark = pytest.mark.anyio

PERIOD_MS = 10_000
COST = 1.0
SHORT_OF = Capacity(Amount(float("inf"), 1.5), {"critical": Amount(cost=0.5)})
"""One operation at a time, but for what is kept for critical work."""

UNAVAILABLE = "envelope_capacity_unavailable"
CONFIRMED = {"confirmed_by": "A. Clerk", "reason": "the hearing is at noon"}
STATUS = {"block_on_unavailable": 503, "queue_until_available": 429}


@dataclass
class Short:
    """A gateway whose capacity is short, and the time that brings it back."""

    door: Door
    capacity: LeasedCapacity
    redis: FakeAsyncRedis
    now_ms: int = 1_700_000_000_000
    made: int = 0
    generation: int = 1

    def govern(self, **governance: Any) -> None:
        self.generation += 1
        name = f"PG-{self.generation}"
        advance_policy(self.door.ledger, name, kernel_cost_governance=governance)

    def note(self, **changes: Any) -> dict[str, Any]:
        self.made += 1
        with self.door.ledger.view() as view:
            changes = {"policy_generation_id": view.policy_generation_id(), **changes}
        document = create(f"n-{self.made}", "Note", envelope=changes)
        document["affected_subgraph_descriptor"]["estimated_capacity_cost"] = COST
        return document

    async def post(self, document: Any) -> Any:
        return await self.door.post("envelopes", document)

    async def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        await self.capacity.refresh()

    def receipts(self, kind: str) -> list[dict[str, Any]]:
        return receipts_of_kind(self.door.ledger, kind)


@pytest.fixture
async def short(anyio_backend: str) -> AsyncIterator[Short]:
    redis = FakeAsyncRedis()
    short: Short
    capacity = LeasedCapacity(
        CapacityLeases(redis, lambda: short.now_ms),
        {ANY_KIND: SHORT_OF},
        "g",
        PERIOD_MS,
        lambda: short.now_ms / 1000,
    )
    kernel = Kernel(capacity=capacity)
    async with running_door(host=FakeHost().host, redis=redis, kernel=kernel) as door:
        short = Short(door, capacity, redis)
        await capacity.refresh()
        await door.declare(SESSION, "a", "b")
        await short.pass_time(PERIOD_MS)
        await short.pass_time(PERIOD_MS)
        yield short
        assert findings(door.ledger) == ()


@pytest.mark.spec("INV-A-COST-1", "§18.1", "§18.2")
@pytest.mark.parametrize("strategy", sorted(STATUS))
async def test_what_capacity_does_not_cover_may_be_sent_again_when_it_is_back(
    short: Short, strategy
):
    short.govern(ec_capacity_lease_strategy=strategy)
    assert (await short.post(short.note())).status_code == 200
    document = short.note()
    response = await short.post(document)
    error = error_of(response, STATUS[strategy], UNAVAILABLE)
    assert "the system is at capacity" in error["message"]
    assert "explicit confirmation" in error["message"]
    assert int(response.headers["retry-after"]) >= 1
    if strategy == "queue_until_available":
        assert response.headers["retry-after"] == str(error["details"]["retry_after_s"]) == "10"
    else:
        assert "retry_after_s" not in error["details"]
    assert error["details"]["check"] == "V11"
    await short.pass_time(PERIOD_MS // 2)
    error_of(await short.post(document), STATUS[strategy], UNAVAILABLE)
    await short.pass_time(PERIOD_MS)
    assert (await short.post(document)).status_code == 200


@pytest.mark.spec("§18.1")
async def test_under_alert_and_proceed_it_goes_on_with_an_alert(short: Short):
    short.govern(ec_capacity_lease_strategy="alert_and_proceed")
    for _ in range(3):
        assert (await short.post(short.note())).status_code == 200
    covered = short.receipts("capacity_lease")[-1]
    alerts = short.receipts("capacity_alert")
    assert [report["estimated_cost"] for report in [covered, *alerts]] == [COST] * 3


@pytest.mark.spec("§8.3", "INV-A-COST-1")
async def test_what_is_kept_for_critical_work_is_there_for_it(short: Short):
    assert (await short.post(short.note())).status_code == 200
    error_of(await short.post(short.note()), 429, UNAVAILABLE)
    critical = short.note(recompute_priority="user_initiated_critical")
    critical["affected_subgraph_descriptor"]["estimated_capacity_cost"] = 0.5
    assert (await short.post(critical)).status_code == 200


async def test_what_costs_more_than_there_ever_is_need_not_be_sent_again(short: Short):
    document = short.note()
    document["affected_subgraph_descriptor"]["estimated_capacity_cost"] = 7.0
    error = error_of(await short.post(document), 503, UNAVAILABLE)
    assert "never more than 1" in error["message"]
    assert "retry_after_s" not in error["details"]


@pytest.mark.spec("INV-A-COST-1")
@pytest.mark.parametrize("strategy", sorted(STATUS))
async def test_when_the_leases_cannot_be_read_the_strategy_decides(short: Short, strategy):
    short.govern(ec_capacity_lease_strategy=strategy)
    short.now_ms += PERIOD_MS  # nobody reads meanwhile
    error = error_of(await short.post(short.note()), STATUS[strategy], UNAVAILABLE)
    assert "its leases cannot be read" in error["message"]
    short.govern(ec_capacity_lease_strategy="alert_and_proceed")
    assert (await short.post(short.note())).status_code == 200
    assert short.receipts("capacity_alert")[-1]["lease_known"] is False
    short.govern(consumes_ec_capacity_lease=False)
    assert (await short.post(short.note())).status_code == 200


@pytest.mark.spec("INV-A-COST-1")
async def test_a_user_may_confirm_that_it_goes_on(short: Short):
    assert (await short.post(short.note())).status_code == 200
    document = short.note()
    error_of(await short.post(document), 429, UNAVAILABLE)
    response = await short.post(document | {"capacity_override": CONFIRMED})
    assert response.status_code == 200
    [receipt] = short.receipts("capacity_override")
    assert receipt["operation_id"] == document["operation_id"]
    assert {name: receipt[name] for name in CONFIRMED} == CONFIRMED
    lines = (await short.door.http.get("/v1/audit/costs")).json()["entries"]
    assert lines[-1]["ec_capacity_lease_id"] == receipt["ec_capacity_lease_id"]


@pytest.mark.spec("INV-A-COST-1", "K6")
async def test_an_intent_may_be_confirmed_and_stays_the_same_intent(short: Short):
    assert (await short.post(short.note())).status_code == 200
    [refused] = await short.door.operate(source("s-1"))
    assert (refused["reason_code"], refused["retry_after_s"]) == (UNAVAILABLE, 10)
    [done] = await short.door.operate(source("s-1", capacity_override=CONFIRMED))
    assert done["validation_result"] == "accepted"
    assert [receipt["reason"] for receipt in short.receipts("capacity_override")] == [
        CONFIRMED["reason"]
    ]
    [again] = await short.door.operate(source("s-1"))
    assert (again["duplicate"], again["operation_id"]) == (True, done["operation_id"])


async def test_a_confirmation_of_nothing_is_refused(short: Short):
    response = await short.post(short.note(capacity_override={"reason": "because"}))
    error = error_of(response, 422, "envelope_schema_invalid")
    assert error["details"]["field"] == "capacity_override.confirmed_by"


@pytest.mark.spec("INV-A-COST-1")
async def test_a_session_goes_on_without_capacity(short: Short):
    """Its eliminations are its own; what anchors them is told of and not refused."""
    short.govern(ec_capacity_lease_strategy="block_on_unavailable")
    short.now_ms += PERIOD_MS
    error_of(await short.post(short.note()), 503, UNAVAILABLE)
    strike = {"source_id": "s", "observation_id": "o", "eliminated": ["a"]}
    response = await short.door.post("eliminate", strike)
    assert response.status_code == 200
    assert response.json()["applied_eliminated"] == ["a"]
    assert len(short.receipts("capacity_alert")) == 1


@pytest.mark.spec("§18.4")
@pytest.mark.parametrize(
    ("policy", "status"),
    [("queue_pending", 429), ("hard_stop_and_alert", 422), ("alert_and_continue", 200)],
)
async def test_a_quota_does_what_the_policy_says(short: Short, policy, status):
    short.govern(daily_write_quota_per_kind={"create": 0}, on_quota_exceeded=policy)
    response = await short.post(short.note())
    assert response.status_code == status
    alerts = short.receipts("quota_exceeded_alert")
    assert len(alerts) == (policy == "alert_and_continue")
    if status != 200:
        error_of(response, status, "quota_exceeded")
        assert ("retry-after" in response.headers) is (policy == "queue_pending")
    [*_, receipt] = rows(short.door.ledger, schema.receipts)
    stopped = orjson.loads(receipt["receipt_bytes"]).get("alert")
    assert (stopped is not None) is (policy == "hard_stop_and_alert")


@pytest.mark.spec("§18.2")
async def test_a_preview_uses_up_nothing(short: Short):
    def left() -> CapacityGrant:
        return short.capacity.lease("create", "user_active_session")

    before = left()
    body = {"envelope": short.note()}
    response = await short.door.post("simulations", body)
    assert response.status_code == 200, response.text
    # A preview is an operation itself, of two effects and more; what it shows would have cost 1.
    assert before.cost_remaining - left().cost_remaining < COST
