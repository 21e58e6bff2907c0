"""Handing in: what the gateway's absence means for claiming, and that it is never an error."""

from typing import Any

import pytest
from structlog.testing import capture_logs

from kernel.values.priorities import PRIORITIES_OF
from kernel.work.queue_kinds import QUEUE_KINDS
from queues.queue.items import Claim, Lineage
from workers.client.errors import GatewayError
from workers.worker.gateway_reports import (
    AWAY_FIRST_S,
    AWAY_MAX_S,
    BUSY_FIRST_S,
    BUSY_MAX_S,
    GatewayReporter,
)
from workers.worker.wiring import HANDLERS

pytestmark = pytest.mark.anyio

DONE = {"outcome": "completed"}


BAD = "bad"
LETTERS_MAX = 256


class ReportedGateway:
    def __init__(self) -> None:
        self.answer: Any = DONE
        self.alive = True
        self.asked_count = 0

    async def post(self, _: str, body: Any) -> Any:
        self.asked = body
        self.asked_count += 1
        if BAD in body["items"]:
            raise GatewayError("request_invalid", "one of them", 422)
        if sum(map(len, body["items"])) > LETTERS_MAX:
            raise GatewayError("request_too_large", "all of them", 413)
        if isinstance(self.answer, GatewayError):
            raise self.answer
        return {"outcomes": [self.answer] * len(body["items"])}

    async def answers(self, _: str) -> bool:
        return self.alive


class ClockedReporter:
    def __init__(self) -> None:
        self.gateway = ReportedGateway()
        self.now_s = 0.0
        self.reporter = GatewayReporter(self.gateway, lambda: self.now_s)  # type: ignore[arg-type]

    async def give(self, count: int = 1) -> list[Any]:
        return await self.reporter.batch("/path", "items", ["x"] * count)

    async def pause_s(self) -> float:
        """How long it is not ready."""
        began_s = self.now_s
        while not await self.reporter.ready():
            self.now_s += BUSY_FIRST_S / 2
        return self.now_s - began_s


@pytest.mark.parametrize(
    "answer",
    [
        GatewayError("mailbox_full", "full", 429),
        GatewayError("gateway_full", "full", 503),
        GatewayError("body_too_slow", "slow", 408),
        GatewayError("unauthorized", "no", 401),
        {"outcome": "failed", "code": "mailbox_full"},
    ],
)
async def test_each_time_that_there_is_no_room_the_pause_is_longer_up_to_a_limit(answer):
    world = ClockedReporter()
    world.gateway.answer = answer
    pauses = []
    for _ in range(10):
        [outcome] = await world.give()
        assert outcome["outcome"] in ("absent", "failed")
        pauses.append(await world.pause_s())
    assert pauses == sorted(pauses)
    assert pauses[0] < pauses[3] < pauses[-1] <= BUSY_MAX_S + BUSY_FIRST_S
    world.gateway.answer = DONE
    assert await world.give() == [DONE]
    world.gateway.answer = answer
    await world.give()
    assert await world.pause_s() <= 2 * BUSY_FIRST_S


async def test_one_that_is_away_is_asked_whether_it_is_back():
    world = ClockedReporter()
    world.gateway.answer = GatewayError("gateway_unreachable", "away")
    assert await world.give(2) == [{"outcome": "absent", "code": "gateway_unreachable"}] * 2
    world.gateway.alive = False
    world.now_s += AWAY_FIRST_S
    assert not await world.reporter.ready()
    world.gateway.alive = True
    assert not await world.reporter.ready(), "it was looked for just now"
    world.now_s += AWAY_MAX_S
    assert await world.reporter.ready()


async def test_of_a_batch_that_is_refused_whole_only_who_is_to_blame_fails():
    world = ClockedReporter()
    items = ["x"] * 100 + [BAD] + ["x"] * 155
    outcomes = await world.reporter.batch("/path", "items", items)
    assert [outcome["outcome"] == "failed" for outcome in outcomes] == [
        item == BAD for item in items
    ]
    # Halves of halves: one by one it would be 256 more.
    assert world.gateway.asked_count <= 2 * 8 + 1


async def test_what_is_too_large_in_one_goes_in_several():
    world = ClockedReporter()
    assert await world.give(1000) == [DONE] * 1000
    assert world.gateway.asked_count == 7


async def test_a_refusal_of_an_item_does_not_slow_anything():
    world = ClockedReporter()
    world.gateway.answer = {"outcome": "rejected", "code": "broken"}
    await world.give()
    assert await world.reporter.ready()


def test_every_queue_is_carried_and_has_its_handler():
    assert PRIORITIES_OF.keys() == QUEUE_KINDS.keys() == HANDLERS.keys()


@pytest.mark.parametrize(
    ("priorities", "urgent"),
    [
        (["background"], False),
        (["user_initiated", "background"], False),
        (["background", "critical"], True),
        (["user_initiated_critical"], True),
    ],
)
async def test_what_comes_of_critical_work_is_handed_in_as_urgent(priorities, urgent):
    world = ClockedReporter()
    claims = [
        Claim(
            key=str(number),
            token="t",  # noqa: S106 - made up here
            payload=b"",
            priority=name,
            causes=("c",),
            lineage=(Lineage("", ""),),
            causes_count=1,
            attempt=1,
            enqueued_at_ms=0,
            deadline_ms=0,
        )
        for number, name in enumerate(priorities)
    ]
    await world.reporter.batch("/path", "items", ["x"] * len(claims), claims=claims)
    assert world.gateway.asked == {"items": ["x"] * len(claims)} | (
        {"urgent": True} if urgent else {}
    )


async def test_a_gateway_of_another_version_is_away_and_no_items_fault():
    world = ClockedReporter()
    world.gateway.answer = GatewayError("protocol_differs", "version 2", 503)
    with capture_logs() as logged:
        assert await world.give(2) == [{"outcome": "absent", "code": "protocol_differs"}] * 2
    assert [event["event"] for event in logged] == ["protocol_differs"]
    assert not await world.reporter.ready()
