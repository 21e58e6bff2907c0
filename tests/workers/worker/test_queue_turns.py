"""Whose turn it is: the earliest deadline, and now and then whoever waited longest."""

import pytest
from fakeredis import FakeAsyncRedis
from hypothesis import given
from hypothesis import strategies as st

from queues.queue.items import NewItem
from queues.queue.work_queue import WorkQueue
from workers.worker.drain_slots import next_deadline_ms
from workers.worker.queue_turns import FAIR_EVERY, turn_order

NAMES = ("a", "b", "c")


def test_the_earliest_deadline_goes_first_and_what_has_nothing_last():
    assert turn_order({"a": None, "b": 20, "c": 10}, {}, 1) == ["c", "b", "a"]


def test_a_fair_turn_goes_to_whoever_was_served_longest_ago():
    served = {"a": 3, "b": 1, "c": 2}
    assert turn_order({"a": 1, "b": 9, "c": None}, served, FAIR_EVERY) == ["b", "c", "a"]


def test_a_fair_turn_tries_a_queue_that_seems_empty():
    """A value at its head that cannot be read hides what is behind."""
    assert turn_order({"a": None, "b": 1}, {"b": 1}, FAIR_EVERY) == ["a", "b"]


@pytest.mark.anyio
async def test_names_without_an_item_at_its_head_do_not_hide_the_deadline_of_a_queue():
    """They may stay there: a slot that takes urgent work alone leaves them."""
    redis = FakeAsyncRedis()
    queue = WorkQueue(redis, "binding-evaluation", lambda: 1_000)
    assert await next_deadline_ms(queue) is None
    await queue.enqueue_many([NewItem("b-1", queue.priorities[1].name, "cause", b"{}")])
    deadline_ms = await next_deadline_ms(queue)
    assert deadline_ms is not None
    foreign = {f"nobody-{number}": 0 for number in range(3)}
    await redis.zadd("rotulus:{binding-evaluation}:suspended:4", foreign)
    assert await next_deadline_ms(queue) == deadline_ms
    await redis.aclose()


@given(
    st.fixed_dictionaries({name: st.none() | st.integers(0, 5) for name in NAMES}),
    st.integers(0, 10),
)
def test_nobody_who_has_something_is_passed_over_for_long(deadlines, start):
    """Whatever the deadlines, they being always the same."""
    served: dict[str, int] = {}
    for turn in range(start, start + FAIR_EVERY * (len(NAMES) + 1)):
        order = turn_order(deadlines, served, turn)
        assert sorted(order) == list(NAMES)
        if (
            tried := next((name for name in order if deadlines[name] is not None), None)
        ) is not None:
            served[tried] = turn
    assert set(served) == {name for name in NAMES if deadlines[name] is not None}
