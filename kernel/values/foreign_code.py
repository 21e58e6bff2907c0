"""Calls code that is not ours, which may end in any way (decision kernel/0540).

A handler, a node of a pipeline or a plug-in may raise what ends a program (`SystemExit`), a task
(`CancelledError`) or a generator. Its caller handles `Exception`, so every other end is raised as
one: `ForeignCodeEnded`. An end that its caller did ask for passes as it is, and the caller decides
that: a function on a thread is never cancelled, a coroutine is by its scope
(`workers/environment/foreign_calls.py`).
"""

import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any, Final, ParamSpec, TypeVar

from kernel.values.errors import KernelError

P = ParamSpec("P")
T = TypeVar("T")

MESSAGE_CHARS_MAX: Final = 500
TRACEBACK_HEAD_BYTES: Final = 2 * 1024
TRACEBACK_TAIL_BYTES: Final = 6 * 1024
"""Of a longer traceback its begin and its end are shown; the innermost frames explain."""


class ForeignCodeEnded(KernelError):
    """A function that is not ours ended in a way that nobody asked for."""

    code = "foreign_code_ended"

    def __init__(self, ended_by: BaseException) -> None:
        super().__init__(f"{type(ended_by).__name__}: {message_of(ended_by)}")
        self.ended_by = ended_by


def call_foreign(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function, and return what it returns.

    Raises:
        ForeignCodeEnded: it raised what is no `Exception`.
        Exception: what it raised.
    """
    try:
        return function(*args, **kwargs)
    except Exception:
        raise
    except BaseException as error:
        if is_of_the_user(error):
            raise
        raise ForeignCodeEnded(error) from error


def is_of_the_user(error: BaseException) -> bool:
    """Tell whether Python raised this where somebody pressed Ctrl-C.

    It does so in the main thread alone, and only while nothing else handles the signal; whatever
    raises it elsewhere is a program.
    """
    return (
        isinstance(error, KeyboardInterrupt)
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )


def cause_of(error: BaseException) -> BaseException:
    """Return what a function raised itself."""
    return error.ended_by if isinstance(error, ForeignCodeEnded) else error


def message_of(error: Any, chars_max: int = MESSAGE_CHARS_MAX) -> str:
    """Return the first characters of an error's text, which is foreign code too."""
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001 - making the text of an error calls its class
        return "its text cannot be made"
    return text[:chars_max].encode("utf-8", "replace").decode()


def traceback_of(error: BaseException, callers: tuple[str, ...] = ()) -> str:
    """Return an error's traceback, of which the middle is left out where it is long.

    `callers` begin the names of files of whoever called the code that raised it: their frames
    before its first one are left out.
    """
    try:
        described = traceback.TracebackException.from_exception(cause_of(error), compact=True)
        for each in _chain_of(described):
            _drop_callers(each.stack, callers)
        text = "".join(described.format())
    except BaseException as unprinted:  # noqa: BLE001 - as above
        return f"{type(error).__name__}: its traceback cannot be made: {type(unprinted).__name__}"
    content = text.encode("utf-8", "replace")
    left_out = len(content) - TRACEBACK_HEAD_BYTES - TRACEBACK_TAIL_BYTES
    if left_out <= 0:
        return content.decode()
    head, tail = content[:TRACEBACK_HEAD_BYTES], content[-TRACEBACK_TAIL_BYTES:]
    shown = (part.decode(errors="ignore") for part in (head, tail))
    return f"\n... {left_out} bytes are left out ...\n".join(shown)


def _chain_of(
    described: traceback.TracebackException | None,
) -> Iterator[traceback.TracebackException]:
    """Yield an error with all from which it followed and of which it is a group."""
    left = [described]
    while left:
        if (each := left.pop()) is not None:
            yield each
            left += [each.__cause__, each.__context__, *(getattr(each, "exceptions", None) or ())]


def _drop_callers(stack: traceback.StackSummary, callers: tuple[str, ...]) -> None:
    """Drop the first frames that are of callers, unless there are no others."""
    own = (n for n, frame in enumerate(stack) if not frame.filename.startswith(callers))
    del stack[: next(own, 0)]
