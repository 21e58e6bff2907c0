"""What wakes a loop is not lost, and is not counted twice."""

import anyio
import pytest

from actors.supervision import WakeSignal

pytestmark = pytest.mark.anyio


async def looks_now(signal: WakeSignal) -> bool:
    """Whether a loop that waits now would look at once."""
    looks = 0

    async def look() -> None:
        nonlocal looks
        await signal.wait()
        looks += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(look)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    return looks == 1


async def test_what_was_set_between_two_waits_is_found_by_the_next_and_counts_once():
    signal = WakeSignal()
    assert not await looks_now(signal)
    signal.set()
    signal.set()
    assert await looks_now(signal)
    assert not await looks_now(signal)


async def test_a_loop_that_nothing_wakes_looks_after_a_time():
    with anyio.fail_after(30):
        await WakeSignal().wait(0.001)
