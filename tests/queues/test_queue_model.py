"""The queue does what a plain model of it does, whatever the order of events."""

import asyncio

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from redis.asyncio import Redis

from queues.queue.items import Claim, NewItem
from queues.queue.priorities import PRIORITIES
from queues.queue.work_queue import WorkQueue
from tests.queues.model import VISIBILITY_MS, ModelItem, QueueModel, buried

NAMES = [row.name for row in PRIORITIES]
PLACES = ["a", "b", "c", "d", "e"]
KEYS = st.sampled_from(PLACES)
ASKED = st.tuples(KEYS, st.sampled_from(NAMES), st.sampled_from(["c1", "c2", "c3", "c4"]))
DELAYS_MS = st.sampled_from([0, 50, 5_000])
PASSING_MS = st.sampled_from([1, 50, 999, 1000, 30_000, 4_000_000])
NUMBERS = st.integers(0, 40)
LEAST = st.sampled_from([None, *NAMES])
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class QueueMachine(RuleBasedStateMachine):
    """Does the same to both and compares every answer and what is left."""

    def __init__(self, redis: Redis) -> None:
        super().__init__()
        self.model = QueueModel(PRIORITIES)
        self.runner = asyncio.Runner()
        self.redis = redis
        self.asked = 0
        self.claims: list[Claim] = []
        self.queue = WorkQueue(self.redis, "authority-recompute", lambda: self.model.now_ms)

    def do(self, coroutine):
        return self.runner.run(coroutine)

    @initialize()
    def begin(self) -> None:
        self.do(self.redis.flushdb())

    @rule(new_items=st.lists(ASKED, min_size=1, max_size=5))
    def enqueue(self, new_items) -> None:
        items = []
        for key, priority, cause in new_items:
            self.asked += 1
            payload, operation_id = str(self.asked).encode(), f"op-{self.asked}"
            lineage = [("", ""), (operation_id, ""), (operation_id, TRACEPARENT)][self.asked % 3]
            items.append(NewItem(key, priority, cause, payload, *lineage))
        expected = [self.model.enqueue(item) for item in items]
        answers = self.do(self.queue.enqueue_many(items))
        assert [answer.state for answer in answers] == expected

    @rule(limit=st.integers(1, 4), least=LEAST)
    def claim(self, limit, least):
        claims = self.do(self.queue.claim(limit, VISIBILITY_MS, least))
        token = claims[0].token if claims else ""
        expected = self.model.claim(limit, token, None if least is None else NAMES.index(least))
        assert [claim.key for claim in claims] == [key for key, _ in expected]
        for claim, (_, item) in zip(claims, expected, strict=True):
            work = item.work
            assert (claim.attempt, claim.payload) == (item.attempt, work.payload)
            assert claim.ends == item.ends
            assert dict(zip(claim.causes, claim.lineage, strict=True)) == work.causes
            assert (list(claim.causes), claim.causes_count) == (list(work.causes), len(work.causes))
            assert claim.priority == PRIORITIES[work.rank].name
            assert (claim.deadline_ms, claim.enqueued_at_ms) == (work.deadline_ms, work.enqueued_ms)
        self.claims += claims

    def a_claim(self, number: int) -> Claim | None:
        """Return one of the claims that hold; one time in four any that was ever made."""
        holding = [claim for claim in self.claims if self.model.held(claim.key, claim.token)]
        among = self.claims if number % 4 == 0 or not holding else holding
        return among[number % len(among)] if among else None

    def settle(self, claim, answer, effect) -> None:
        held = self.model.held(claim.key, claim.token)
        if held:
            effect()
        assert self.do(answer) == [held is not None]

    @rule(number=NUMBERS)
    def begin_one(self, number) -> None:
        claim = self.a_claim(number)
        if claim is None:
            return
        held = self.model.held(claim.key, claim.token)
        if held:
            held.begun = True
        assert self.do(self.queue.begin([claim])) == [held is not None]

    @rule(number=NUMBERS)
    def acknowledge(self, number) -> None:
        claim = self.a_claim(number)
        if claim is None:
            return
        self.settle(claim, self.queue.acknowledge([claim]), lambda: self.model.finish(claim.key))

    @rule(number=NUMBERS, delay_ms=DELAYS_MS)
    def retry(self, number, delay_ms) -> None:
        claim = self.a_claim(number)
        if claim is None:
            return
        answer = self.queue.retry([claim], [delay_ms], "flaky")
        self.settle(claim, answer, lambda: self.model.retry(claim.key, delay_ms))

    @rule(number=NUMBERS, delay_ms=DELAYS_MS)
    def put_off(self, number, delay_ms) -> None:
        claim = self.a_claim(number)
        if claim is None:
            return
        answer = self.queue.put_off([claim], [delay_ms], "nobody was there")
        self.settle(claim, answer, lambda: self.model.retry(claim.key, delay_ms, attempts=0))

    @rule(number=NUMBERS)
    def bury(self, number) -> None:
        claim = self.a_claim(number)
        if claim is None:
            return
        answer = self.queue.bury([claim])
        self.settle(claim, answer, lambda: self.model.bury(claim.key))

    @rule(number=NUMBERS)
    def suspend(self, number) -> None:
        claim = self.a_claim(number)
        if claim is None:
            return
        self.settle(claim, self.queue.suspend([claim]), lambda: self.model.suspend(claim.key))

    @rule(number=NUMBERS)
    def renew(self, number) -> None:
        claim = self.a_claim(number)
        if claim is None:
            return
        held = self.model.held(claim.key, claim.token)
        kept = held is not None and not held.cancelled
        if kept:
            held.until_ms = self.model.now_ms + VISIBILITY_MS
        assert self.do(self.queue.renew([claim], VISIBILITY_MS)) == [kept]

    @rule(key=KEYS)
    def cancel(self, key) -> None:
        assert self.do(self.queue.cancel([key])) == [self.model.cancel(key)]

    @rule(priority=LEAST)
    def pause(self, priority) -> None:
        changed = self.model.switch(priority, paused=True)
        assert self.do(self.queue.pause(priority)) is changed

    @rule(priority=LEAST)
    def resume(self, priority) -> None:
        changed = self.model.switch(priority, paused=False)
        assert self.do(self.queue.resume(priority)) is changed

    @rule()
    def resume_everything(self) -> None:
        for priority in tuple(self.model.paused):
            self.resume(priority)

    @rule()
    def reap(self) -> None:
        assert self.do(self.queue.reap()) == self.model.reap()

    @rule(ms=PASSING_MS)
    def time_passes(self, ms) -> None:
        self.model.now_ms += ms

    async def every_key(self):
        return [key async for key in self.redis.scan_iter()]

    @invariant()
    def the_same_is_left(self) -> None:
        model, depth = self.model, self.do(self.queue.depth())
        for state in ("ready", "suspended"):
            of_state = [item.work.rank for _, item in model.in_state(state)]
            expected = {name: of_state.count(rank) for rank, name in enumerate(NAMES)}
            assert getattr(depth, state) == expected
        for state in ("delayed", "in_flight"):
            assert getattr(depth, state) == len(model.in_state(state))
        assert depth.dead == len(model.dead)
        assert depth.paused == (None in model.paused)
        assert depth.paused_priorities == model.paused - {None}

    @invariant()
    def the_same_is_served(self) -> None:
        seen = [seen_item(item) for item in self.do(self.queue.peek(10))]
        expected = self.model.service_order(paused_too=True)
        assert seen == [model_item(key, item) for key, item in expected]

    def teardown(self) -> None:
        model = self.model
        for state in ("suspended", "delayed", "in_flight"):
            seen = [seen_item(item) for item in self.do(self.queue.peek(10, 0, state))]
            expected = [model_item(key, item) for key, item in model.in_state(state)]
            assert sorted(seen) == sorted(expected)
        dead = {key: list(work.causes) for key, work in model.dead.items()}
        assert self.do(buried(self.redis, self.queue)) == dead
        self.nothing_is_left_once_everything_is_cancelled()
        self.runner.run(self.redis.aclose())
        self.runner.close()

    def nothing_is_left_once_everything_is_cancelled(self) -> None:
        """Whatever happened, no key of an item stays behind."""
        self.do(self.queue.cancel(PLACES))
        self.model.now_ms += VISIBILITY_MS
        self.do(self.queue.reap())
        kept = {b"stamp", b"paused", b"sleeping", b"clock"}
        left = {key.rpartition(b":")[2] for key in self.do(self.every_key())}
        assert left <= kept


def seen_item(item):
    return item.key, item.state, item.attempts, item.deadline_ms, item.causes


def model_item(key: str, item: ModelItem):
    return key, item.state, item.attempt, item.work.deadline_ms, tuple(item.work.causes)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_queue_agrees_with_its_model(new_client, is_real) -> None:
    examples = settings().max_examples // (5 if is_real else 8)
    run_state_machine_as_test(
        lambda: QueueMachine(new_client()),
        settings=settings(max_examples=examples, stateful_step_count=50, deadline=None),
    )
