"""Takes the real clock and the real randomness, which are handed in everywhere else.

Random bytes are drawn in advance, each thread for itself: asking the system releases the
interpreter's lock, and a thread that wants ten bytes would wait for whatever another one computes.
A forked child draws anew.
"""

import os
import pwd
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import NoReturn

from kernel.values.host import Host

SWITCH_S = 0.001
"""How long a thread that computes keeps the interpreter, once another one waits for it."""

_DRAWN_BYTES = 4096


class _Randomness(threading.local):
    """Random bytes of the operating system, drawn in advance by each thread for itself.

    Asking the system gives up the interpreter's lock, so that a thread that wants ten bytes waits
    for whatever another one computes.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Draw anew the next time."""
        self._drawn = b""
        self._used = 0

    def take(self, count: int) -> bytes:
        """Return bytes that nobody has been given before."""
        begin, self._used = self._used, self._used + count
        if self._used > len(self._drawn):
            self._drawn = os.urandom(max(_DRAWN_BYTES, count))
            begin, self._used = 0, count
        return self._drawn[begin : self._used]


_randomness = _Randomness()
# A child of this process has what was drawn in memory, too; it has the thread that forked alone.
os.register_at_fork(after_in_child=_randomness.forget)


def system_host(now_us: Callable[[], int] | None = None) -> Host:
    """Return the host of this process, with the machine's clock where no other is handed in."""
    return Host(now_us or (lambda: time.time_ns() // 1000), _randomness.take)


def utc_now() -> datetime:
    """Return the time by the clock of this machine."""
    return datetime.now(UTC)


def now_ms() -> int:
    """Return the milliseconds since 1970 by the clock of this machine."""
    return int(utc_now().timestamp() * 1000)


def share_interpreter() -> None:
    """Let threads that compute give way sooner than after Python's five milliseconds.

    An event loop lets go of the interpreter whenever it reads or writes, several times for each
    request, and waits for it anew each time. What computes is told to stop a thousand times a
    second at most, which costs it next to nothing.
    """
    sys.setswitchinterval(SWITCH_S)


def account_name() -> str:
    """Return the name of the account that runs this process, its number where it has no name."""
    number = os.geteuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def end_process(exit_code: int = 0) -> NoReturn:
    """End this process at once; nobody waits for its threads and tasks.

    An interpreter that ends by itself waits for each thread, and for each task that it cancels.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(exit_code)
