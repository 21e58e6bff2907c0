"""Calls functions that are not ours on threads, and leaves behind what does not return.

Python cannot end a thread. A function that does not return in time has failed, with the place at
which it stands, and its thread is left to itself. So is a coroutine that goes on although it was
cancelled (`foreign_calls.py`). A call that is left behind holds a thread or a task for ever, so a
process ends itself when too much of it is there (decision workers/0450).
"""

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import Context, copy_context
from dataclasses import dataclass
from itertools import takewhile
from queue import Empty, SimpleQueue
from traceback import StackSummary, walk_stack
from types import CodeType, FrameType
from typing import Any, Final, ParamSpec, TypeVar

import structlog

from kernel.values.foreign_code import call_foreign
from workers.environment.system_host import end_process

P = ParamSpec("P")
T = TypeVar("T")

LEFT_BEHIND_MAX: Final = 16
"""Calls that go on although their callers went on without them; with one more a process ends."""

FRAMES_SHOWN: Final = 20

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CallStack:
    """Where a call that goes on stood, its innermost function last."""

    text: str = ""
    functions: tuple[tuple[CodeType, str], ...] = ()
    """The code of each and the name of its module; no frame, which would keep what it holds."""


def call_stack(frames: Iterable[tuple[FrameType, int]]) -> CallStack:
    """Return where a call stands by its frames and their lines, the innermost last."""
    shown = [*frames][-FRAMES_SHOWN:]
    text = "".join(StackSummary.extract(iter(shown)).format())
    return CallStack(text, tuple((frame.f_code, module_of(frame)) for frame, _ in shown))


def module_of(frame: FrameType) -> str:
    """Return the name of the module of a frame's code."""
    return str(frame.f_globals.get("__name__", ""))


class ForeignCodeHangs(Exception):
    """A function that is not ours did not return in time; the notes say where it stands."""

    code = "foreign_code_hangs"
    stack = CallStack()

    def __init__(self, seconds: float, stack: CallStack) -> None:
        super().__init__(f"it did not return within {seconds:g} s")
        self.add_note(f"It stands here, the innermost call last:\n{stack.text}")
        self.stack = stack


def call_within(
    limit_s: float, function: Callable[P, T], /, *arguments: P.args, **named: P.kwargs
) -> T:
    """Call a function as `call_foreign` does, on another thread, and return what it returns.

    Blocks for the limit at most. A call within such a call is on its thread and has its limit.

    Raises:
        ForeignCodeHangs: it did not return within the limit.
        ForeignCodeEnded: it ended in a way that is no `Exception`.
        Exception: what it raised.
    """
    if getattr(_here, "is_helper", False):
        return call_foreign(function, *arguments, **named)
    try:
        helper = _idle.pop()
    except IndexError:
        helper = _Helper()
    call = _Call(copy_context(), lambda: call_foreign(function, *arguments, **named))
    helper.calls.put(call)
    try:
        helper.ended.get(timeout=limit_s)
    except BaseException as waited:
        # Empty, or Ctrl-C in the thread that waits.
        stack, call.is_left = helper.stack(), True
        leave_behind(stack, lambda: call.is_over)
        if isinstance(waited, Empty):
            raise ForeignCodeHangs(limit_s, stack) from None
        raise
    _idle.append(helper)
    error, call.error = call.error, None
    if error is None:
        returned: T = call.returned
        return returned
    try:
        raise error
    finally:
        del error  # whose traceback has this frame


def leave_behind(stack: CallStack, is_over: Callable[[], bool]) -> None:
    """Note a call that goes on without its caller; end the process where there are too many.

    Args:
        stack: where the call stands.
        is_over: tells whether it has returned meanwhile.
    """
    with _lock:
        LEFT_BEHIND[:] = [each for each in LEFT_BEHIND if not each()]
        LEFT_BEHIND.append(is_over)
        count = len(LEFT_BEHIND)
    place, most = stack.text, LEFT_BEHIND_MAX
    _log.error("foreign_code_left_behind", count=count, count_max=most, place=place)
    if count > LEFT_BEHIND_MAX:
        _log.critical("process_ends", reason="foreign_code_left_behind", count=count)
        end_process(1)


@dataclass(slots=True)
class _Call:
    context: Context
    function: Callable[[], Any]
    returned: Any = None
    error: Exception | None = None
    is_over: bool = False
    is_left: bool = False


class _Helper:
    """A thread that makes one call after the other; a daemon, so that no process waits for it."""

    def __init__(self) -> None:
        self.calls = SimpleQueue[_Call]()
        self.ended = SimpleQueue[None]()
        self._thread = threading.Thread(target=self._serve, name="foreign code", daemon=True)
        self._thread.start()

    def stack(self) -> CallStack:
        """Return where the call stands that goes on, without what made it."""
        frame = sys._current_frames().get(self._thread.ident or 0)  # noqa: SLF001 - the one way
        serve = _Helper._serve.__code__
        of_call = takewhile(lambda each: each[0].f_code is not serve, walk_stack(frame))
        return call_stack(reversed([*of_call]))

    def _serve(self) -> None:
        _here.is_helper = True
        while True:
            call = self.calls.get()
            try:
                call.returned = call.context.run(call.function)
            except Exception as error:  # noqa: BLE001 - the caller raises it
                call.error = error
            call.is_over = True
            if call.is_left:
                return
            del call
            self.ended.put(None)


_here = threading.local()
_idle: deque[_Helper] = deque()
"""Threads that wait for a call; as many as there were calls at once."""

_lock = threading.Lock()
LEFT_BEHIND: list[Callable[[], bool]] = []
