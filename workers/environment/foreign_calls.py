"""Calls coroutine functions that are not ours, and tells our cancellation from one of theirs.

A call is a task of its own in a task group, so that whatever cancels it is one of two: a scope
around the call, which is ours, or the function itself (decision kernel/0540). Every other end is an
`Exception` of the call, and so is one that kept the loop from everybody else.

asyncio lets `SystemExit` and `KeyboardInterrupt` of any task end the loop, and so the process. A
task that was begun within a call ends with an `Exception` instead.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import ContextVar
from math import inf
from time import monotonic as now_s
from typing import Any, Final, Generic, TypeVar

import anyio
import anyio.lowlevel
import structlog

from kernel.foreign_code import ForeignCodeEnded, is_of_the_user

T = TypeVar("T")

TICK_S: Final = 10.0
"""How often a call that runs says so to whoever wants to know."""

STEP_SHOWN_S: Final = 1.0
STEP_S_MAX: Final = 5.0
"""How long a call may keep the loop, the first with a warning; claims are visible no longer."""

_IS_FOREIGN: ContextVar[bool] = ContextVar("_IS_FOREIGN", default=False)

_log = structlog.get_logger(__name__)


class ForeignCodeBlocked(Exception):
    """A coroutine that is not ours kept the event loop, so that nothing else went on meanwhile."""

    code = "foreign_code_blocked"

    def __init__(self, name: str, seconds: float) -> None:
        message = f"{name} kept the event loop for {seconds:.1f} s; what blocks belongs on a thread"
        super().__init__(message)


async def await_foreign(
    name: str,
    function: Callable[..., Awaitable[T]],
    /,
    *arguments: Any,
    tick: Callable[[], None] | None = None,
) -> T:
    """Call a coroutine function, and return what it returns; cancelled with the scope around it.

    Args:
        name: what a log calls it.
        function: what is called.
        arguments: what it is called with.
        tick: called every `TICK_S` while it runs.

    Raises:
        ForeignCodeEnded: it ended in a way that is no `Exception`, and nobody had asked for it.
        ForeignCodeBlocked: it kept the loop for longer than `STEP_S_MAX`.
        Exception: what it raised.
    """
    loop = asyncio.get_running_loop()
    if loop.get_task_factory() is None:
        loop.set_task_factory(_new_task)
    call = _Call[T](name)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call.run, function, arguments)
        while tick is not None and not call.ended.is_set():
            tick()
            with anyio.move_on_after(TICK_S):
                await call.ended.wait()
    if call.error is not None:
        raise call.error
    if not call.returned:
        await anyio.lowlevel.checkpoint()  # where a scope around it was cancelled, this ends it
    return call.returned[0]


class _Call(Generic[T]):
    """How a call ended."""

    def __init__(self, name: str) -> None:
        self.ended = anyio.Event()
        self.returned: list[T] = []
        self.error: Exception | None = None
        self._name = name

    async def run(self, function: Callable[..., Awaitable[T]], arguments: tuple[Any, ...]) -> None:
        _IS_FOREIGN.set(True)  # in this task and in those that it begins
        steps = _Steps(_called(function, arguments))
        try:
            returned = await steps
            self._check(steps.longest_s)
            self.returned.append(returned)
        except Exception as error:  # noqa: BLE001 - its caller is told of it
            self.error = error
        except BaseException as error:
            if is_of_the_user(error):
                raise
            if isinstance(error, asyncio.CancelledError | BaseExceptionGroup) and _is_cancelled():
                # Nothing is kept of it: the scope that was cancelled ends the caller, too.
                return
            self.error = ForeignCodeEnded(error)
            self.error.__cause__ = error
        finally:
            self.ended.set()

    def _check(self, longest_s: float) -> None:
        if longest_s > STEP_SHOWN_S:
            _log.warning("foreign_code_blocks", name=self._name, seconds=round(longest_s, 1))
        if longest_s > STEP_S_MAX:
            raise ForeignCodeBlocked(self._name, longest_s)


def _is_cancelled() -> bool:
    """Tell whether a scope around this task was cancelled."""
    return anyio.current_effective_deadline() == -inf


async def _called(function: Callable[..., Awaitable[T]], arguments: tuple[Any, ...]) -> T:
    return await function(*arguments)


class _Steps(Awaitable[T]):
    """A coroutine of which each step is timed: what it does between two turns of the loop."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine
        self.longest_s = 0.0

    def __await__(self) -> Generator[Any, Any, T]:
        step: Callable[[Any], Any] = self._coroutine.send
        value: Any = None
        while True:
            began_s = now_s()
            try:
                waits_for = step(value)
            except StopIteration as ended:
                returned: T = ended.value
                return returned
            finally:
                self.longest_s = max(self.longest_s, now_s() - began_s)
            try:
                value, step = (yield waits_for), self._coroutine.send
            except GeneratorExit:
                self._coroutine.close()
                raise
            except BaseException as error:  # noqa: BLE001 - it is the coroutine's to handle
                value, step = error, self._coroutine.throw


def _new_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
    if _IS_FOREIGN.get():
        coroutine = _Guarded(coroutine)
    return asyncio.Task(coroutine, loop=loop, **options)


class _Guarded(Coroutine[Any, Any, T]):
    """A coroutine that ends no process: what would is raised as `ForeignCodeEnded`."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._coroutine, name)

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        """Go on to the next wait."""
        return _guarded(self._coroutine.send, value)

    def throw(self, *error: Any) -> Any:
        """Raise an error where the coroutine waits, and go on to the next wait."""
        return _guarded(self._coroutine.throw, *error)

    def close(self) -> None:
        """End the coroutine where it waits."""
        self._coroutine.close()


def _guarded(step: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return step(*arguments)
    except (SystemExit, KeyboardInterrupt) as error:
        if is_of_the_user(error):
            raise
        raise ForeignCodeEnded(error) from error
