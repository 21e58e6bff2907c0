"""What wakes a loop is not lost, and is not counted twice."""

import anyio
import pytest

from actors.supervision import WakeSignal

pytestmark = pytest.mark.anyio

LONG_S = 30.0


async def looks_now(signal: WakeSignal) -> bool:
    """Whether a loop that waits now would look at once."""
    began_s = anyio.current_time()
    await signal.wait(0.02)
    return anyio.current_time() - began_s < 0.01


async def test_what_was_set_during_a_look_is_found_by_the_next_wait():
    signal = WakeSignal()
    signal.set()
    signal.set()
    assert await looks_now(signal)
    assert not await looks_now(signal)


async def test_a_loop_that_waits_is_woken():
    signal = WakeSignal()
    with anyio.fail_after(LONG_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(signal.wait)
            await anyio.lowlevel.checkpoint()
            signal.set()
    assert not await looks_now(signal)
