"""The queue does what a plain model of it does, whatever the order of events."""

import asyncio
from dataclasses import dataclass, field

from fakeredis import FakeAsyncRedis
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

from queues.items import NewItem
from queues.priorities import PRIORITIES, PRIORITY_BY_NAME
from queues.queue import WorkQueue

KEYS = st.sampled_from(["a", "b", "c"])
CAUSES = st.sampled_from(["c1", "c2", "c3", "c4"])
PRIORITY_NAMES = st.sampled_from(sorted(PRIORITY_BY_NAME))
DELAYS_MS = st.sampled_from([0, 50, 5_000])
PASSING_MS = st.sampled_from([1, 50, 999, 1000, 30_000])
VISIBILITY_MS = 1000


@dataclass
class Work:
    """A set of causes that is done in one go."""

    rank: int
    deadline_ms: int
    enqueued_ms: int
    payload: bytes
    causes: list[str]

    def join(self, other: "Work", *, newest: bool) -> None:
        self.rank = min(self.rank, other.rank)
        self.deadline_ms = min(self.deadline_ms, other.deadline_ms)
        self.enqueued_ms = min(self.enqueued_ms, other.enqueued_ms)
        self.causes += [cause for cause in other.causes if cause not in self.causes]
        if newest:
            self.payload = other.payload


@dataclass
class Item:
    work: Work
    state: str = "ready"
    attempt: int = 0
    token: str = ""
    until_ms: int = 0
    """When a claim expires or a retry is due."""
    successor: Work | None = None


@dataclass
class Model:
    now_ms: int = 1_000_000
    items: dict[str, Item] = field(default_factory=dict)
    dead: dict[str, tuple[Work, str]] = field(default_factory=dict)

    def enqueue(self, new: NewItem) -> str:
        priority = PRIORITY_BY_NAME[new.priority]
        deadline_ms = self.now_ms + priority.service_target_ms
        work = Work(priority.rank, deadline_ms, self.now_ms, new.payload, [new.cause_id])
        item = self.items.get(new.key)
        if new.key in self.dead and new.cause_id in self.dead[new.key][0].causes:
            return "dead"
        if item is None:
            self.items[new.key] = Item(work)
            return "new"
        behind = item.successor.causes if item.successor else []
        if new.cause_id in item.work.causes + behind:
            return "known"
        if item.state != "in_flight":
            item.work.join(work, newest=True)
            return "merged"
        if item.successor:
            item.successor.join(work, newest=True)
        else:
            item.successor = work
        return "successor"

    def claim(self, limit: int, token: str) -> list[tuple[str, Work, int]]:
        for item in self.items.values():
            if item.state == "delayed" and item.until_ms <= self.now_ms:
                item.state = "ready"
        taken = self.ready()[:limit]
        for _, item in taken:
            item.state, item.token = "in_flight", token
            item.attempt += 1
            item.until_ms = self.now_ms + VISIBILITY_MS
        return [(key, item.work, item.attempt) for key, item in taken]

    def ready(self) -> list[tuple[str, Item]]:
        return sorted(
            (entry for entry in self.items.items() if entry[1].state == "ready"),
            key=lambda entry: (entry[1].work.deadline_ms, entry[1].work.rank, entry[0]),
        )

    def held(self, key: str, token: str) -> Item | None:
        item = self.items.get(key)
        return item if item and item.state == "in_flight" and item.token == token else None

    def absorb(self, item: Item) -> None:
        if item.successor:
            item.work.join(item.successor, newest=True)
            item.successor = None

    def finish(self, key: str) -> None:
        item = self.items.pop(key)
        if item.successor:
            self.items[key] = Item(item.successor)

    def retry(self, item: Item, delay_ms: int) -> None:
        self.absorb(item)
        item.state, item.until_ms = "delayed", self.now_ms + delay_ms

    def bury(self, key: str, signature: str) -> None:
        work = self.items[key].work
        if key in self.dead:
            before = self.dead[key][0]
            before.join(work, newest=True)
            work = before
        self.dead[key] = (work, signature)
        self.finish(key)

    def reap(self) -> int:
        ended = [
            item
            for item in self.items.values()
            if item.state == "in_flight" and item.until_ms <= self.now_ms
        ]
        for item in ended:
            self.absorb(item)
            item.state = "ready"
        return len(ended)

    def requeue(self, key: str) -> bool:
        if key not in self.dead:
            return False
        work, _ = self.dead.pop(key)
        work.enqueued_ms = self.now_ms
        work.deadline_ms = self.now_ms + PRIORITIES[work.rank].service_target_ms
        item = self.items.get(key)
        if item is None:
            self.items[key] = Item(work)
        elif item.state != "in_flight":
            item.work.join(work, newest=False)
        elif item.successor:
            item.successor.join(work, newest=False)
        else:
            work.payload = item.work.payload
            item.successor = work
        return True


class QueueMachine(RuleBasedStateMachine):
    """Does the same to both and compares every answer and what is left."""

    claims = Bundle("claims")

    def __init__(self, redis: Redis) -> None:
        super().__init__()
        self.model = Model()
        self.runner = asyncio.Runner()
        self.redis = redis
        self.payloads = 0
        self.queue = WorkQueue(self.redis, "q", lambda: self.model.now_ms)

    def do(self, coroutine):
        return self.runner.run(coroutine)

    @initialize()
    def begin(self) -> None:
        self.do(self.redis.flushdb())

    @rule(asked=st.lists(st.tuples(KEYS, PRIORITY_NAMES, CAUSES), min_size=1, max_size=5))
    def enqueue(self, asked) -> None:
        items = []
        for key, priority, cause in asked:
            self.payloads += 1
            items.append(NewItem(key, priority, cause, str(self.payloads).encode()))
        expected = [self.model.enqueue(item) for item in items]
        answers = self.do(self.queue.enqueue_many(items))
        assert [answer.state for answer in answers] == expected

    @rule(limit=st.integers(1, 3), target=claims)
    def claim(self, limit):
        claims = self.do(self.queue.claim(limit, VISIBILITY_MS))
        token = claims[0].token if claims else ""
        expected = self.model.claim(limit, token)
        assert len(claims) == len(expected)
        for claim, (key, work, attempt) in zip(claims, expected, strict=True):
            assert (claim.key, claim.attempt, claim.payload) == (key, attempt, work.payload)
            assert (list(claim.causes), claim.causes_count) == (work.causes, len(work.causes))
            assert claim.priority == PRIORITIES[work.rank].name
            assert claim.deadline_ms == work.deadline_ms
            assert claim.enqueued_at_ms == work.enqueued_ms
        return multiple(*claims)

    # Claims are not consumed: every later use of one is a test of a stale token.

    @rule(claim=claims)
    def acknowledge(self, claim) -> None:
        held = self.model.held(claim.key, claim.token)
        if held:
            self.model.finish(claim.key)
        assert self.do(self.queue.acknowledge([claim])) == [held is not None]

    @rule(claim=claims, delay_ms=DELAYS_MS)
    def retry(self, claim, delay_ms) -> None:
        held = self.model.held(claim.key, claim.token)
        if held:
            self.model.retry(held, delay_ms)
        assert self.do(self.queue.retry([claim], [delay_ms], "flaky")) == [held is not None]

    @rule(claim=claims, signature=st.sampled_from(["E1", "E2"]))
    def bury(self, claim, signature) -> None:
        held = self.model.held(claim.key, claim.token)
        if held:
            self.model.bury(claim.key, signature)
        assert self.do(self.queue.bury([claim], [signature])) == [held is not None]

    @rule(claim=claims)
    def renew(self, claim) -> None:
        held = self.model.held(claim.key, claim.token)
        if held:
            held.until_ms = self.model.now_ms + VISIBILITY_MS
        assert self.do(self.queue.renew([claim], VISIBILITY_MS)) == [held is not None]

    @rule(key=KEYS)
    def requeue(self, key) -> None:
        assert self.do(self.queue.requeue([key])) == [self.model.requeue(key)]

    @rule()
    def reap(self) -> None:
        assert self.do(self.queue.reap()) == self.model.reap()

    @rule(ms=PASSING_MS)
    def time_passes(self, ms) -> None:
        self.model.now_ms += ms

    @invariant()
    def the_same_is_left(self) -> None:
        states = [item.state for item in self.model.items.values()]
        depth = self.do(self.queue.depth())
        assert sum(depth.ready.values()) == states.count("ready")
        assert (depth.delayed, depth.in_flight) == (
            states.count("delayed"),
            states.count("in_flight"),
        )
        waiting = [(item.key, list(item.causes)) for item in self.do(self.queue.peek(10))]
        assert waiting == [(key, item.work.causes) for key, item in self.model.ready()]
        dead = {
            item.key: (list(item.causes), item.payload, item.error_signature)
            for item in self.do(self.queue.dead(10))
        }
        assert dead == {
            key: (work.causes, work.payload, signature)
            for key, (work, signature) in self.model.dead.items()
        }
        signatures = [signature for _, signature in self.model.dead.values()]
        assert self.do(self.queue.dead_by_signature()) == {
            signature: signatures.count(signature) for signature in signatures
        }

    def teardown(self) -> None:
        self.runner.run(self.redis.aclose())
        self.runner.close()


def test_the_queue_agrees_with_its_model(redis_kind, request) -> None:
    def client() -> Redis:
        if redis_kind == "fakeredis":
            return FakeAsyncRedis()
        return Redis.from_url(request.getfixturevalue("embedded_url"))

    run_state_machine_as_test(
        lambda: QueueMachine(client()),
        settings=settings(max_examples=60, stateful_step_count=40, deadline=None),
    )
