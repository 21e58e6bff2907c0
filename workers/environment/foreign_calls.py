"""Calls coroutine functions that are not ours, and tells our cancellation from one of theirs.

A call is a task of its own, so that whatever cancels it is one of two: its scope, which is ours, or
the function itself (decision kernel/0540). Every other end is an `Exception` of the call, and so is
one that kept the loop from everybody else. A task group would wait for a task that does not end
when it is cancelled; this task is left behind then, and closed where it would go on (decision
workers/0450).

asyncio lets `SystemExit` and `KeyboardInterrupt` of any task end the loop, and so the process. A
task that was begun within a call ends with an `Exception` instead.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import ContextVar
from math import inf
from time import monotonic as now_s
from types import FrameType
from typing import Any, Final, Generic, TypeVar

import anyio
import structlog

from kernel.values.foreign_code import ForeignCodeEnded, is_of_the_user
from workers.environment.foreign_threads import (
    CallStack,
    ForeignCodeHangs,
    call_stack,
    leave_behind,
)

T = TypeVar("T")

TICK_S: Final = 10.0
"""How often a call that runs says so to whoever wants to know."""

STEP_SHOWN_S: Final = 1.0
STEP_S_MAX: Final = 5.0
"""How long a call may keep the loop, the first with a warning; claims are visible no longer."""

END_S: Final = 5.0
"""How long a call that was cancelled may take to end."""

_IS_FOREIGN: ContextVar[bool] = ContextVar("_IS_FOREIGN", default=False)

_LEFT: Final = set[Any]()
"""What was left behind; the interpreter would close it, and say that it goes on."""

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
    limit_s: float = inf,
) -> T:
    """Call a coroutine function, and return what it returns; cancelled with the scope around it.

    One that goes on for `END_S` after it was cancelled is left behind.

    Args:
        name: what a log calls it.
        function: what is called.
        arguments: what it is called with.
        tick: called every `TICK_S` while it runs.
        limit_s: the seconds after which it is cancelled and has failed.

    Raises:
        ForeignCodeEnded: it ended in a way that is no `Exception`, and nobody had asked for it.
        ForeignCodeBlocked: it kept the loop for longer than `STEP_S_MAX`.
        ForeignCodeHangs: it did not return within `limit_s`.
        Exception: what it raised.
    """
    loop = asyncio.get_running_loop()
    if loop.get_task_factory() is None:
        loop.set_task_factory(_new_task)
    call = _Call[T](name)
    task = loop.create_task(call.run(function, arguments))
    deadline_s = anyio.current_time() + limit_s
    pause_s = inf if tick is None else TICK_S
    hangs_at: CallStack | None = None
    try:
        while not call.ended.is_set() and anyio.current_time() < deadline_s:
            if tick is not None:
                tick()
            with anyio.move_on_after(min(pause_s, deadline_s - anyio.current_time())):
                await call.ended.wait()
    finally:
        if not call.ended.is_set():
            hangs_at = call.stack()
            await call.cancel(task)
    if hangs_at is not None:
        raise ForeignCodeHangs(limit_s, hangs_at)
    if call.error is not None:
        raise call.error
    return call.returned[0]


class _Call(Generic[T]):
    """How a call ended; it runs in a task of its own, in a scope that this module cancels."""

    def __init__(self, name: str) -> None:
        self.ended = anyio.Event()
        self.returned: list[T] = []
        self.error: Exception | None = None
        self._name = name
        self._scope = anyio.CancelScope()
        self._steps: _Steps[T] | None = None

    async def run(self, function: Callable[..., Awaitable[T]], arguments: tuple[Any, ...]) -> None:
        _IS_FOREIGN.set(True)  # in this task and in those that it begins
        self._steps = steps = _Steps(self._name, _call_async(function, arguments))
        try:
            with self._scope:
                returned = await steps
                self._check(steps.longest_s)
                self.returned.append(returned)
        except Exception as error:  # noqa: BLE001 - its caller is told of it
            self.error = error
        except BaseException as error:
            if is_of_the_user(error):
                raise
            # What ends it once it is cancelled is kept of nobody.
            self.error = ForeignCodeEnded(error)
            self.error.__cause__ = error
        finally:
            self.ended.set()

    async def cancel(self, task: asyncio.Task[None]) -> None:
        """Cancel the call, and leave it behind if it goes on all the same."""
        self._scope.cancel()
        with anyio.CancelScope(shield=True), anyio.move_on_after(END_S):
            await self.ended.wait()
        if not self.ended.is_set():
            stack = self.stack()
            if self._steps is not None:
                self._steps.is_left = True
            _LEFT.add(task)
            task.add_done_callback(_LEFT.discard)
            leave_behind(stack, task.done)

    def stack(self) -> CallStack:
        """Return where the call waits."""
        return CallStack() if self._steps is None else self._steps.stack()

    def _check(self, longest_s: float) -> None:
        if longest_s > STEP_SHOWN_S:
            _log.warning("foreign_code_blocks", name=self._name, seconds=round(longest_s, 1))
        if longest_s > STEP_S_MAX:
            raise ForeignCodeBlocked(self._name, longest_s)


async def _call_async(function: Callable[..., Awaitable[T]], arguments: tuple[Any, ...]) -> T:
    return await function(*arguments)


class _Steps(Awaitable[T]):
    """A coroutine of which each step is timed: what it does between two turns of the loop."""

    running = ""
    """The name of the call of which a step goes on now in this process."""

    def __init__(self, name: str, coroutine: Coroutine[Any, Any, T]) -> None:
        self._name = name
        self._coroutine = coroutine
        self.longest_s = 0.0
        self.is_left = False
        """Whether no further step is to be made."""

    def __await__(self) -> Generator[Any, Any, T]:
        step: Callable[[Any], Any] = self._coroutine.send
        value: Any = None
        while True:
            began_s, _Steps.running = now_s(), self._name
            try:
                waits_for = step(value)
            except StopIteration as ended:
                returned: T = ended.value
                return returned
            finally:
                self.longest_s, _Steps.running = max(self.longest_s, now_s() - began_s), ""
            try:
                value, step = (yield waits_for), self._coroutine.send
            except GeneratorExit:
                self._coroutine.close()
                raise
            except BaseException as error:  # noqa: BLE001 - it is the coroutine's to handle
                value, step = error, self._coroutine.throw
            if self.is_left:
                stack = self.stack()
                if step == self._coroutine.throw:
                    _LEFT.add(self._coroutine)  # it does not listen
                else:
                    self._coroutine.close()  # what it waited for came; it lets go what it holds
                raise ForeignCodeHangs(END_S, stack)

    def stack(self) -> CallStack:
        """Return where the coroutine waits."""
        frames: list[tuple[FrameType, int]] = []
        waits: Any = self._coroutine
        while (frame := getattr(waits, "cr_frame", getattr(waits, "gi_frame", None))) is not None:
            frames.append((frame, frame.f_lineno))
            waits = getattr(waits, "cr_await", getattr(waits, "gi_yieldfrom", None))
        return call_stack(frames)


def running_call() -> str:
    """Return the name of the foreign call of which a step goes on now, "" where none does."""
    return _Steps.running


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
        return _guarded_step(self._coroutine.send, value)

    def throw(self, *error: Any) -> Any:
        """Raise an error where the coroutine waits, and go on to the next wait."""
        return _guarded_step(self._coroutine.throw, *error)

    def close(self) -> None:
        """End the coroutine where it waits."""
        self._coroutine.close()


def _guarded_step(step: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return step(*arguments)
    except (SystemExit, KeyboardInterrupt) as error:
        if is_of_the_user(error):
            raise
        raise ForeignCodeEnded(error) from error
