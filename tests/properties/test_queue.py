"""Work under load: what is promised drains in time, and what finds no capacity loses nothing.

PT-6 and PT-10 as far as they are about the queue: which item is handed out, when, to whom. That
the values are right is test_authority's.
"""

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis

from queues.embedded.server import EmbeddedRedis, find_server
from queues.queue.items import NewItem
from queues.queue.work_queue import WorkQueue
from tests.properties.family import BESIDE, FAMILY

pytestmark = pytest.mark.timeout(900)

CAPACITY = 2
"""Items that are served in a second."""

STEP_MS = 1000


class ClockedQueue:
    """A queue, a clock that the test moves, and an event loop for its calls."""

    def __init__(self, url: str) -> None:
        self.now_ms = 0
        self.runner = asyncio.Runner()
        self.redis = Redis.from_url(url)

    def begin(self, name: str) -> None:
        self.now_ms = 1_700_000_000_000
        self.queue = WorkQueue(self.redis, name, lambda: self.now_ms)
        self.do(self.redis.flushdb())

    def do(self, call: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(call)

    def ask(self, requests: list[tuple[str, str]]) -> None:
        items = [NewItem(key, priority, f"cause of {key}", b"") for key, priority in requests]
        self.do(self.queue.enqueue_many(items))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClockedQueue]:
    server = EmbeddedRedis(tmp_path_factory.mktemp("redis"), find_server())
    server.start()
    world = ClockedQueue(server.url)
    yield world
    world.do(world.redis.aclose())
    world.runner.close()
    server.stop()


URGENT = st.sampled_from(["user_initiated_critical", "user_active_session"])
REST = st.sampled_from(["high_access_frequency", "background_normal", "background_low_priority"])
SECONDS = st.lists(
    st.tuples(st.lists(URGENT, max_size=CAPACITY), st.lists(REST, max_size=3)),
    max_size=4,
)


@pytest.mark.spec("PT-6", "§8.3", "§8.4")
@FAMILY
@given(seconds=SECONDS, backlog=st.lists(REST, max_size=6))
def test_the_queue_drains_and_urgent_work_is_served_in_time(world, seconds, backlog):
    """However much of the rest waits: within 5 s and 30 s, if the urgent alone is within capacity.

    And then everything is served, once, in no more time than it needs.
    """
    world.begin("authority-recompute")
    asked_at_ms: dict[str, int] = {}
    served: list[str] = []

    def step(arrivals: list[str]) -> None:
        named = [(f"{len(asked_at_ms) + place}", name) for place, name in enumerate(arrivals)]
        asked_at_ms.update((key, world.now_ms) for key, _ in named)
        world.ask(named)
        claims = world.do(world.queue.claim(CAPACITY, 60_000))
        for claim in claims:
            waited_ms = world.now_ms - asked_at_ms[claim.key]
            if claim.priority in ("user_initiated_critical", "user_active_session"):
                assert waited_ms <= (5_000 if claim.priority.endswith("critical") else 30_000)
        assert all(world.do(world.queue.acknowledge(claims)))
        served.extend(claim.key for claim in claims)
        world.now_ms += STEP_MS

    step(backlog)
    for urgent, rest in seconds:
        step([*rest, *urgent])
    left = len(asked_at_ms) - len(served)
    for _ in range(-(-left // CAPACITY)):
        step([])
    assert sorted(served) == sorted(asked_at_ms)


BINDING = st.sampled_from(["critical", "user_initiated", "background"])
CAPACITIES = st.sampled_from(["all", "no background", "critical alone", "lost meanwhile"])
LEAST = {"no background": "user_initiated", "critical alone": "critical"}
ROUNDS = st.lists(
    st.tuples(st.lists(BINDING, max_size=4), CAPACITIES, st.integers(1, 4)), max_size=5
)


@pytest.mark.spec("PT-10", "§14.3")
@BESIDE
@given(rounds=ROUNDS)
def test_whatever_capacity_comes_and_goes_the_background_waits_in_order_and_nothing_is_lost(
    world, rounds
):
    world.begin("binding-evaluation")
    waiting: dict[str, str] = {}
    suspended: list[str] = []
    since: dict[str, int] = {}
    """When each was suspended for the first time, which is its place whenever it is again."""
    number = 0
    for arrivals, capacity, limit in [*rounds, *[([], "all", 100)] * 2]:
        world.now_ms += STEP_MS
        named = [(f"{number + place}", name) for place, name in enumerate(arrivals)]
        number += len(named)
        waiting.update(named)
        world.ask(named)
        claims = world.do(world.queue.claim(limit, 60_000, LEAST.get(capacity)))
        taken = [claim.priority for claim in claims]
        critical = list(waiting.values()).count("critical")
        assert taken[: min(limit, critical)] == ["critical"] * min(limit, critical)
        if capacity in LEAST:
            assert "background" not in taken
        if capacity == "critical alone":
            assert set(taken) <= {"critical"}
        background = [claim for claim in claims if claim.priority == "background"]
        resumed = [claim.key for claim in background]
        first = min(len(resumed), len(suspended))
        assert resumed[:first] == suspended[:first]
        suspended = suspended[first:]
        halted = background if capacity == "lost meanwhile" else []
        assert all(world.do(world.queue.suspend(halted)))
        for claim in halted:
            since.setdefault(claim.key, len(since))
        suspended = sorted([*suspended, *(claim.key for claim in halted)], key=since.__getitem__)
        done = [claim for claim in claims if claim not in halted]
        assert all(claim.attempt == 1 for claim in claims)
        assert all(world.do(world.queue.acknowledge(done)))
        for claim in done:
            del waiting[claim.key]
    assert waiting == {}
    assert world.do(world.queue.depth()).in_flight == 0
