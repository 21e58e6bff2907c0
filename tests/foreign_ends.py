"""The ways in which code that is not ours may end, by name; what calls it has to count each."""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Any, NoReturn

import anyio
from anyio.lowlevel import checkpoint

from workers.environment import foreign_threads


class NoException(BaseException):
    """Ends more than it should."""


class Unreadable(Exception):
    """Raises where its text is wanted."""

    def __str__(self) -> str:
        raise SystemExit(3)


def _raises(make: Callable[[], BaseException]) -> Callable[..., NoReturn]:
    def end(*_: Any, **__: Any) -> NoReturn:
        raise make()

    return end


ENDS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "Exception": _raises(lambda: RuntimeError("not today")),
        "an error without a text": _raises(Unreadable),
        "CancelledError": _raises(asyncio.CancelledError),
        "SystemExit": _raises(lambda: SystemExit(1)),
        "KeyboardInterrupt": _raises(KeyboardInterrupt),
        "GeneratorExit": _raises(GeneratorExit),
        "BaseException": _raises(lambda: NoException("more than it should")),
        "StopIteration": _raises(lambda: StopIteration(7)),
        "TimeoutError": _raises(TimeoutError),
        "EndOfStream": _raises(anyio.EndOfStream),
        "ExceptionGroup": _raises(lambda: ExceptionGroup("several", [RuntimeError("one")])),
        "group of a cancellation": _raises(
            lambda: BaseExceptionGroup("cancelled", [asyncio.CancelledError()])
        ),
        "group of an exit": _raises(lambda: BaseExceptionGroup("exits", [SystemExit(1)])),
    }
)
"""A function that ends so whatever it is called with, by the end's name."""


async def _awaits_what_it_cancelled(*_: Any) -> None:
    helper = asyncio.ensure_future(asyncio.sleep(60))
    await asyncio.sleep(0)
    helper.cancel()
    await helper


async def _cancels_its_task(*_: Any) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await checkpoint()


async def _awaits_a_task_that_exits(*_: Any) -> None:
    async def leave() -> None:
        raise SystemExit(1)

    await asyncio.ensure_future(leave())


async def _exits_in_a_task_group(*_: Any) -> None:
    async def leave() -> None:
        await checkpoint()
        raise SystemExit(1)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(leave)
        await anyio.sleep_forever()


async def _exits_on_a_thread(*_: Any) -> None:
    await anyio.to_thread.run_sync(ENDS["SystemExit"])


def _later(end: Callable[..., Any]) -> Callable[..., Any]:
    async def call(*_: Any) -> Any:
        await checkpoint()
        return end()

    return call


ASYNC_ENDS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        **ENDS,
        **{f"{name} after a wait": _later(end) for name, end in ENDS.items()},
        "a helper that it cancelled": _awaits_what_it_cancelled,
        "its own task": _cancels_its_task,
        "a task that exits": _awaits_a_task_that_exits,
        "a task group with an exit": _exits_in_a_task_group,
        "a thread that exits": _exits_on_a_thread,
        "no coroutine": lambda *_: 7,
    }
)
"""The same of coroutine functions."""


RELEASED = threading.Event()
"""Lets go what a test has left behind, at the end of that test."""


def stands_still(*_: Any, **__: Any) -> None:
    """Does not return while its test goes on."""
    RELEASED.wait()


async def _awaits_for_ever(*_: Any) -> None:
    await anyio.sleep_forever()


async def _goes_on_when_cancelled(*_: Any) -> None:
    released = RELEASED.is_set  # an interpreter that ends has forgotten what is global
    while not released():
        with suppress(BaseException):
            await asyncio.sleep(0.01)


async def _awaits_a_thread(*_: Any) -> None:
    await anyio.to_thread.run_sync(stands_still)


ASYNC_HANGS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "awaits for ever": _awaits_for_ever,
        "goes on when it is cancelled": _goes_on_when_cancelled,
        "awaits a thread that stands still": _awaits_a_thread,
    }
)
"""Coroutine functions that do not return, by what they do instead."""


@contextmanager
def released_at_the_end() -> Iterator[None]:
    """Let what stands still return when the block ends."""
    RELEASED.clear()
    try:
        yield
    finally:
        RELEASED.set()


async def until_nothing_is_left_behind() -> None:
    """Wait until what was left behind has returned; its loop should not be closed before."""
    with anyio.fail_after(30):
        while not all(is_over() for is_over in foreign_threads.LEFT_BEHIND):
            await anyio.sleep(0.01)


@contextmanager
def nobody_at_the_keyboard() -> Iterator[None]:
    """Have Ctrl-C handled as a process of ours does, so that `KeyboardInterrupt` is a program's."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
