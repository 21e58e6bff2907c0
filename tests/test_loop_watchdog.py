"""The watchdog sees what holds a loop, on its own thread and on others, and where."""

import asyncio
import gc
import time

import anyio
import pytest

from tests.loop_watchdog import STALL_S, watched

pytestmark = pytest.mark.anyio

HELD_S = 4 * STALL_S


def hold_the_thread(seconds: float) -> None:
    until_s = time.thread_time() + seconds
    while time.thread_time() < until_s:
        pass


def hold_the_interpreter() -> None:
    """Sorting calls nothing that is written in Python, so it never lets another thread run."""
    names = [f"{(7919 * number) % 500_009:06d}" for number in range(500_000)]
    for _ in range(3):
        sorted(names)


async def test_a_callback_that_takes_long_is_told_with_its_stack():
    with watched() as watch:
        await anyio.sleep(0.02)
        asyncio.get_running_loop().call_soon(hold_the_thread, HELD_S)
        await anyio.sleep(0.02)
    assert watch.longest.measure == "callback"
    assert watch.longest.seconds >= HELD_S
    assert "hold_the_thread" in watch.longest.stack


async def test_a_loop_that_sleeps_is_not_held():
    """However late it wakes: what it waits for is no work of this process."""
    with watched() as watch:
        task = asyncio.create_task(watch.probe())
        await anyio.sleep(6 * STALL_S)
        task.cancel()
    assert watch.longest.seconds < STALL_S


async def test_a_thread_that_keeps_the_interpreter_starves_the_loop():
    with watched() as watch:
        task = asyncio.create_task(watch.probe())
        await anyio.sleep(0.02)
        await anyio.to_thread.run_sync(hold_the_interpreter)
        await anyio.sleep(0.02)
        task.cancel()
    starved = [stall for stall in watch.stalls if stall.measure == "starved"]
    assert max(stall.seconds for stall in starved) > STALL_S


async def test_what_was_before_is_forgotten():
    with watched() as watch:
        asyncio.get_running_loop().call_soon(hold_the_thread, STALL_S)
        await anyio.sleep(0.02)
        watch.forget()
        await anyio.sleep(0.02)
    assert watch.longest.seconds < STALL_S


async def test_a_stall_says_how_much_of_it_went_into_a_collection_of_garbage():
    def collect() -> None:
        until_s = time.thread_time() + 2 * STALL_S
        while time.thread_time() < until_s:
            gc.collect()

    with watched() as watch:
        asyncio.get_running_loop().call_soon(collect)
        await anyio.sleep(0.01)
    assert watch.longest.seconds / 2 < watch.longest.collecting_s <= watch.longest.seconds
