"""The urgent lane goes first, takes no more than its share, and starves nobody."""

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.commit.priority_lanes import OTHERS_SHARE, PriorityLanes

pytestmark = pytest.mark.anyio

SIZES = st.lists(st.integers(0, 40), max_size=30)


MADE = []


@pytest.fixture(autouse=True)
def _closed():
    yield
    while MADE:
        MADE.pop().close()


def new_lanes(places, urgent_places):
    lanes = PriorityLanes(places, urgent_places)
    MADE.append(lanes)
    return lanes


async def lanes_of(urgent, others):
    lanes = new_lanes(1000, 1000)
    for number, size in enumerate(urgent):
        lanes.put_urgent(("urgent", number, size))
    for number, size in enumerate(others):
        await lanes.put(("other", number, size))
    return lanes


async def take_all(urgent, others, limit):
    lanes, takes = await lanes_of(urgent, others), []
    while lanes.waiting:
        takes.append(await lanes.take(limit, lambda waiting: waiting[2]))
    return takes


@given(SIZES, SIZES, st.integers(1, 64))
def test_everything_is_taken_once_in_the_order_of_its_lane_and_nobody_is_left_waiting(
    urgent, others, limit
):
    takes = anyio.run(take_all, urgent, others, limit)
    taken = [waiting for take in takes for waiting in take]
    for name, sizes in (("urgent", urgent), ("other", others)):
        mine = [(number, size) for lane, number, size in taken if lane == name]
        assert mine == list(enumerate(sizes))
    left = len(others)
    for take in takes:
        of_others = sum(lane == "other" for lane, *_ in take)
        assert of_others or not left
        left -= of_others
        # Without the last of each lane a take is below its limit.
        last = {lane: size for lane, _, size in take}
        assert sum(size for *_, size in take) - sum(last.values()) < limit


async def test_what_is_urgent_is_in_the_next_take_with_few_others_whatever_waits():
    lanes = await lanes_of([1], [1] * 500)
    first = await lanes.take(64, lambda waiting: waiting[2])
    assert first[0][0] == "urgent"
    assert len(first) == 1 + OTHERS_SHARE * 64
    assert len(await lanes.take(64, lambda waiting: waiting[2])) == 64


async def test_a_flood_of_urgent_work_has_its_share_and_no_more():
    lanes = await lanes_of([1] * 500, [1] * 500)
    first = await lanes.take(64, lambda waiting: waiting[2])
    assert sum(lane == "other" for lane, *_ in first) == OTHERS_SHARE * 64
    assert len(first) == 64


async def test_alone_each_lane_has_the_whole():
    for urgent, ordinary in (([1] * 500, []), ([], [1] * 500)):
        lanes = await lanes_of(urgent, ordinary)
        assert len(await lanes.take(64, lambda waiting: waiting[2])) == 64


async def test_a_full_urgent_lane_refuses_and_a_full_one_of_others_lets_wait():
    lanes = new_lanes(1, 1)
    lanes.put_urgent(1)
    with pytest.raises(anyio.WouldBlock):
        lanes.put_urgent(2)
    await lanes.put(3)
    with anyio.move_on_after(0.01) as waits:
        await lanes.put(4)
    assert waits.cancelled_caught
    assert await lanes.take(10, lambda _: 1) == [1, 3]


async def test_who_takes_is_woken_by_either_lane():
    for put in (PriorityLanes.put, None):
        lanes = new_lanes(4, 4)
        async with anyio.create_task_group() as tasks:
            taken: list[int] = []

            async def take(lanes=lanes, taken=taken):
                taken += await lanes.take(10, lambda _: 1)

            tasks.start_soon(take)
            await anyio.wait_all_tasks_blocked()
            if put is None:
                lanes.put_urgent(7)
            else:
                await lanes.put(7)
        assert taken == [7]


async def test_closing_returns_what_waits_and_lets_nothing_more_in():
    lanes = await lanes_of([1], [2])
    MADE.remove(lanes)
    assert [caller[0] for caller in lanes.close()] == ["urgent", "other"]
    with pytest.raises(anyio.ClosedResourceError):
        await lanes.put(("late", 0, 0))
    with pytest.raises(anyio.ClosedResourceError):
        lanes.put_urgent(("late", 0, 0))
