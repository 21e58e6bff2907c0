"""Ends a process whose event loop stands still (decision workers/0450).

A callback that never returns keeps its loop for ever: heartbeats, leases and answers of the process
stop, and Python offers nothing to interrupt it. A thread asks the loop each second for a sign, and
ends the process where none comes for a while, with the place at which the loop stands. Whoever runs
the process starts it again; what it had in hand is claimed by others, and an item that ends its
workers again and again is set aside (decision queues/0041).

The thread counts the seconds in which it ran itself, so a process that was stopped, or a machine
that slept, is not one that stands still. Code that keeps the interpreter's lock keeps that thread
as well. A timer of the interpreter that needs no lock ends the process then, with the stacks of all
threads on standard error.
"""

import faulthandler
import sys
import threading
import traceback
from asyncio import AbstractEventLoop, get_running_loop
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import structlog

from workers.environment.foreign_calls import running_call
from workers.environment.foreign_threads import FRAMES_SHOWN
from workers.environment.system_host import end_process

EVERY_S: Final = 1.0
LOCK_GRACE_S: Final = 10.0
"""How much longer the interpreter's lock may be kept."""

STDERR_FILENO: Final = 2

_log = structlog.get_logger(__name__)


@contextmanager
def watch_loop(limit_s: float) -> Iterator[None]:
    """End this process where the loop that runs here stands still for the limit."""
    over = threading.Event()
    arguments = (get_running_loop(), threading.get_ident(), limit_s, over)
    thread = threading.Thread(target=_watch, args=arguments, name="loop watch", daemon=True)
    _end_where_the_lock_is_kept(limit_s)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _watch(loop: AbstractEventLoop, thread: int, limit_s: float, over: threading.Event) -> None:
    turned, silent_s = threading.Event(), 0.0
    turned.set()
    with suppress(RuntimeError):  # the loop is closed
        while not over.wait(EVERY_S):
            _end_where_the_lock_is_kept(limit_s)
            silent_s = 0.0 if turned.is_set() else silent_s + EVERY_S
            if turned.is_set():
                turned.clear()
                loop.call_soon_threadsafe(turned.set)
            elif silent_s >= limit_s:
                _end(thread, silent_s)
    faulthandler.cancel_dump_traceback_later()


def _end_where_the_lock_is_kept(limit_s: float) -> None:
    """Have the interpreter end the process after a while, unless this is called again."""
    # Not what standard error is at the moment, which may be no file.
    faulthandler.dump_traceback_later(limit_s + LOCK_GRACE_S, exit=True, file=STDERR_FILENO)


def _end(thread: int, silent_s: float) -> None:
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - the one way
    _log.critical(
        "process_ends",
        reason="loop_blocked",
        seconds=silent_s,
        foreign_call=running_call() or None,
        place="".join(traceback.format_stack(frame)[-FRAMES_SHOWN:]),
    )
    end_process(1)
