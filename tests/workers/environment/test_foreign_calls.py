"""A call of a foreign coroutine function: its every end is counted, and only ours cancels it."""

import asyncio
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from structlog.testing import capture_logs

from kernel.values.foreign_code import cause_of, traceback_of
from tests.foreign_ends import (
    ASYNC_ENDS,
    ASYNC_HANGS,
    nobody_at_the_keyboard,
    released_at_the_end,
    until_nothing_is_left_behind,
)
from workers.environment import foreign_calls, foreign_threads
from workers.environment.foreign_calls import ForeignCodeBlocked, await_foreign
from workers.environment.foreign_threads import ForeignCodeHangs

pytestmark = pytest.mark.anyio


async def test_a_result_is_returned_and_contexts_are_kept():
    async def add(left: int, right: int) -> int:
        await checkpoint()
        return left + right

    assert await await_foreign("sum", add, 3, 4) == 7
    assert [await await_foreign("sum", add, n, n) for n in range(3)] == [0, 2, 4]


async def test_what_is_thrown_into_a_call_is_its_own_to_handle():
    async def patient() -> str:
        try:
            with anyio.fail_after(0):
                await anyio.sleep_forever()
        except TimeoutError:
            return "handled"
        return "never"

    assert await await_foreign("patient", patient) == "handled"


@pytest.mark.parametrize("name", ASYNC_ENDS)
async def test_whatever_ends_a_call_is_an_exception_and_the_caller_goes_on(name: str):
    with nobody_at_the_keyboard(), pytest.raises(Exception) as caught:  # noqa: PT011
        await await_foreign("it", ASYNC_ENDS[name])
    assert cause_of(caught.value) is not None
    await checkpoint()  # nothing is left of a cancellation
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_scope_around_a_call_cancels_it():
    ended: list[str] = []

    async def wait() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("cancelled")

    with anyio.move_on_after(0.01) as limit:
        await await_foreign("it", wait)
    assert limit.cancelled_caught
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(await_foreign, "it", wait)
            await checkpoint()
            scope.cancel()
    assert scope.cancelled_caught
    assert ended == ["cancelled", "cancelled"]


async def test_a_task_that_is_cancelled_ends_its_call_and_is_cancelled():
    begun = anyio.Event()

    async def wait() -> None:
        begun.set()
        await anyio.sleep_forever()

    task = asyncio.ensure_future(await_foreign("it", wait))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


@pytest.mark.parametrize("name", ["CancelledError", "group of a cancellation", "SystemExit"])
async def test_however_a_call_ends_that_we_cancelled_its_caller_is_cancelled(name: str):
    async def wait() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ASYNC_ENDS[name]()

    with anyio.move_on_after(0.01) as limit:
        await await_foreign("it", wait)
    assert limit.cancelled_caught


async def test_a_call_that_keeps_the_loop_is_named_and_fails(monkeypatch: pytest.MonkeyPatch):
    async def two_steps() -> str:
        await checkpoint()
        return "done"

    def timed(took_s: float) -> Any:
        now = iter([0.0, took_s, took_s, took_s])
        return lambda: next(now, took_s)

    for took_s, names in ((0.5, []), (2.0, ["it"]), (6.0, ["it"])):
        monkeypatch.setattr(foreign_calls, "now_s", timed(took_s))
        with capture_logs() as logs:
            if took_s > foreign_calls.STEP_S_MAX:
                with pytest.raises(ForeignCodeBlocked, match=r"it kept the event loop for 6\.0 s"):
                    await await_foreign("it", two_steps)
            else:
                assert await await_foreign("it", two_steps) == "done"
        assert [log["name"] for log in logs if log["event"] == "foreign_code_blocks"] == names


async def test_who_waits_is_told_that_a_call_goes_on(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(foreign_calls, "TICK_S", 0.001)
    ticks: list[int] = []
    seen = anyio.Event()

    def tick() -> None:
        ticks.append(1)
        if len(ticks) == 3:
            seen.set()

    await await_foreign("it", seen.wait, tick=tick)
    assert len(ticks) >= 3


@pytest.mark.parametrize("name", ASYNC_HANGS)
async def test_a_call_that_does_not_return_fails_in_time_with_the_place_at_which_it_waits(
    monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.setattr(foreign_calls, "END_S", 0.05)
    monkeypatch.setattr(foreign_threads, "LEFT_BEHIND", [])
    with released_at_the_end(), capture_logs() as logs:
        with pytest.raises(ForeignCodeHangs, match=r"within 0\.05 s") as caught:
            await await_foreign("it", ASYNC_HANGS[name], limit_s=0.05)
        assert f"in {ASYNC_HANGS[name].__name__}" in traceback_of(caught.value)
        with anyio.move_on_after(0.05) as limit:
            await await_foreign("it", ASYNC_HANGS[name])
        assert limit.cancelled_caught
    await until_nothing_is_left_behind()
    left = [log for log in logs if log["event"] == "foreign_code_left_behind"]
    assert len(left) == (0 if name == "awaits for ever" else 2)
    assert all(f"in {ASYNC_HANGS[name].__name__}" in log["place"] for log in left)


async def test_a_call_that_was_left_behind_makes_no_further_step(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(foreign_calls, "END_S", 0.01)
    monkeypatch.setattr(foreign_threads, "LEFT_BEHIND", [])
    steps: list[int] = []

    async def goes_on() -> None:
        while True:
            try:
                await anyio.sleep(0.001)
            except BaseException:  # noqa: BLE001 - it is what it does
                steps.append(1)

    with pytest.raises(ForeignCodeHangs):
        await await_foreign("it", goes_on, limit_s=0.01)
    await until_nothing_is_left_behind()
    count = len(steps)
    await anyio.sleep(0.01)
    assert len(steps) == count
