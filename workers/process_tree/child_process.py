"""Starts child processes, from both sides: what a child promises, and how its parent runs it.

A child of ours never outlives its parent. The kernel sends it SIGTERM, not SIGKILL, when the parent
is gone: it finishes what it holds as in any other stop. Nobody is left to insist, so the child
insists itself: a thread kills the process when it has not ended some seconds after that. If the
kernel offers nothing (it is not Linux), the same thread also sends the SIGTERM.

A trap for parents: on Linux "the parent" is the *thread* that started the child. A thread that
starts children must live as long as they shall. So a `ChildProcess` is started from the event
loop's thread, and a `ChildService` from one thread that is kept until it is closed.

A child's standard output and standard error are one pipe, so that its lines keep their order.
"""

import asyncio
import ctypes
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import IO, Protocol, TypeVar

import anyio

from workers.environment.log_setup import get_logger

PARENT_POLL_S = 0.5
ORPHAN_GRACE_S = 5.0

_PR_SET_PDEATHSIG = 1
_SERVICE_POLL_S = 0.2
_EXIT_POLL_S = 0.05
PUMP_END_S = 0.5
"""How long the pipe of a child that has ended may hold nothing and stay open."""

_TAIL_LINES = 20
_LINE_BYTES_MAX = 65_536

REAP_S = 0.1
"""How long a stop may take beyond its grace, for the death of a killed process to be seen."""

log = get_logger(__name__)
T = TypeVar("T")


def die_with_parent(parent_pid: int | None = None, *, grace_s: float = ORPHAN_GRACE_S) -> None:
    """Makes this process receive SIGTERM when its parent ends, and SIGKILL `grace_s` later.

    Call it first thing in a child. A parent that ended before the call is noticed when
    `parent_pid` names it; the SIGTERM then comes at once. Without `parent_pid` the parent is
    whoever it is at the time of the call.
    """
    expected = os.getppid() if parent_pid is None else parent_pid
    by_kernel = _ask_the_kernel()
    # The order matters: after the request no death is missed, before it one may have been.
    parent_ended = os.getppid() != expected
    threading.Thread(
        target=_watch,
        args=(expected, grace_s, not by_kernel and not parent_ended),
        name="die-with-parent",
        daemon=True,
    ).start()
    if parent_ended:
        signal.raise_signal(signal.SIGTERM)


def _ask_the_kernel() -> bool:
    if sys.platform != "linux":
        return False
    try:
        prctl = ctypes.CDLL(None, use_errno=True).prctl
    except (OSError, AttributeError):
        return False
    return int(prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)) == 0


def _watch(expected_pid: int, grace_s: float, sends_sigterm: bool) -> None:  # noqa: FBT001 - thread argument
    while os.getppid() == expected_pid:
        time.sleep(PARENT_POLL_S)
    if sends_sigterm:
        os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(grace_s)
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class ChildSpec:
    """Describes a child process; `argv` and `env` may be functions, called at each start."""

    name: str
    argv: Sequence[str] | Callable[[], Sequence[str]]
    env: Mapping[str, str] | Callable[[], Mapping[str, str]] | None = None
    """The child's whole environment; None: that of this process."""
    ready: Callable[[], Awaitable[bool]] | None = None
    """Asked until it answers True; an exception counts as False. None: ready once started."""
    listening: socket.socket | None = None
    """The socket that the child inherits; the parent keeps it open to start the child again."""
    stop_signal: signal.Signals = signal.SIGTERM
    grace_s: float = 1.0
    waits: bool = False
    """Whether the child waits, with all that is ours imported, until its parent lets it begin; it
    does so where its environment says so (`child_environment`)."""


class Service(Protocol):
    """A member of the tree that is not started from an argument list. All calls may block."""

    @property
    def pid(self) -> int | None:
        """The process to kill when `stop` does not return."""

    def start(self) -> object:
        """Returns when the service is ready; is called again after it died."""

    def alive(self) -> bool:
        """Tells whether it runs."""

    def stop(self, timeout_s: float) -> object:
        """Ends it within `timeout_s`, by force at the end."""


@dataclass(frozen=True)
class ServiceSpec:
    """Describes a service that is to run as a member of the tree."""

    name: str
    service: Service
    grace_s: float = 1.0


class ChildProcess:
    """Runs a `ChildSpec`; owned by one task at a time."""

    def __init__(self, spec: ChildSpec, sink: Callable[[bytes], None]) -> None:
        self._spec = spec
        self._sink = sink
        self._popen: subprocess.Popen[bytes] | None = None
        self._pump: threading.Thread | None = None
        self._tail: deque[bytes] = deque(maxlen=_TAIL_LINES)

    @property
    def pid(self) -> int | None:
        """The process that runs now, if one does."""
        popen = self._popen
        return None if popen is None or popen.returncode is not None else popen.pid

    async def start(self) -> None:
        """Starts the process in a session of its own.

        Raises:
            OSError: there is no such program.
        """
        argv = self._spec.argv() if callable(self._spec.argv) else self._spec.argv
        env = self._spec.env() if callable(self._spec.env) else self._spec.env
        listening = self._spec.listening
        # Not in a thread: the thread that starts a child counts as its parent.
        self._popen = subprocess.Popen(  # noqa: ASYNC220
            list(argv),
            env=env,
            stdin=subprocess.PIPE if self._spec.waits else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=() if listening is None else (listening.fileno(),),
        )
        # A new one: the pump of the run before may still hold the old one.
        self._tail = deque(maxlen=_TAIL_LINES)
        self._pump = threading.Thread(
            target=_drain, args=(self._popen.stdout, self._tail, self._sink), daemon=True
        )
        self._pump.start()

    def begin(self) -> None:
        """Lets a child that waits begin."""
        if self._popen is not None and self._popen.stdin is not None:
            with suppress(OSError):  # it has ended, which `has_died` tells
                self._popen.stdin.write(b"\n")
                self._popen.stdin.close()

    async def has_died(self) -> bool:
        """Tells whether the process has ended."""
        return self._popen is None or self._popen.poll() is not None

    async def wait_dead(self) -> str:
        """Returns once the process has ended and is reaped, saying how it ended."""
        if self._popen is None:
            return "not started"
        await _wait_exit(self._popen)
        # The last lines may still be in the pipe; a grandchild may hold it open for ever.
        await anyio.to_thread.run_sync(self._read_to_end, abandon_on_cancel=True)
        code = self._popen.returncode
        return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"

    def _read_to_end(self) -> None:
        popen, pump = self._popen, self._pump
        if popen is None or popen.stdout is None or pump is None:
            return
        pump.join(PUMP_END_S)
        while pump.is_alive() and _is_readable(popen.stdout):
            pump.join(PUMP_END_S)

    async def stop(self, grace_s: float) -> None:
        """Signals the process, kills it when the grace is over, and reaps it."""
        popen = self._popen
        if popen is not None and popen.stdin is not None:
            with suppress(OSError):
                popen.stdin.close()
        if popen is None or popen.poll() is not None:
            return
        popen.send_signal(self._spec.stop_signal)
        with anyio.move_on_after(grace_s):
            await _wait_exit(popen)
        if popen.poll() is None:
            log.warning("child_killed", name=self._spec.name, pid=popen.pid, grace_s=grace_s)
            popen.kill()
            with anyio.move_on_after(REAP_S):
                await _wait_exit(popen)

    def close(self) -> None:
        """Does nothing: a stopped process holds nothing."""

    def last_lines(self) -> list[str]:
        """Returns what the process wrote last, oldest first."""
        return [line.decode(errors="replace").rstrip("\n") for line in list(self._tail)]


class ChildService:
    """Runs a `ServiceSpec`; owned by one task at a time."""

    def __init__(self, spec: ServiceSpec) -> None:
        self._spec = spec
        self._service = spec.service
        self._started = False
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=spec.name)

    @property
    def pid(self) -> int | None:
        """The process of the service, if it runs in one."""
        return self._service.pid

    async def start(self) -> None:
        """Starts the service; a cancelled call goes on in its thread, and `stop` waits for it."""
        self._started = True
        await self._call(self._service.start)

    async def has_died(self) -> bool:
        """Tells whether the service has ended."""
        return not await self._call(self._service.alive)

    async def wait_dead(self) -> str:
        """Returns once the service has ended."""
        while not await self.has_died():
            await _end_of(self.pid, _SERVICE_POLL_S)
        return "not alive"

    async def stop(self, grace_s: float) -> None:
        """Stops the service, and kills its process when that takes longer than the grace."""
        if not self._started:
            return
        # Asked before the stop, which may forget it while it still waits for the process.
        pid = self._service.pid
        with anyio.move_on_after(grace_s + REAP_S) as scope:
            await self._call(partial(self._service.stop, grace_s))
        if scope.cancelled_caught and pid is not None:
            log.warning("child_killed", name=self._spec.name, pid=pid, grace_s=grace_s)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        """Gives the thread up; nothing can be called after this."""
        self._thread.shutdown(wait=False)

    def last_lines(self) -> list[str]:
        """Returns nothing: a service keeps its own log."""
        return []

    async def _call(self, function: Callable[[], T]) -> T:
        return await asyncio.wrap_future(self._thread.submit(function))


def _drain(pipe: IO[bytes], tail: deque[bytes], sink: Callable[[bytes], None]) -> None:
    with pipe:
        # The limit cuts a line that never ends; its pieces are forwarded one after the other.
        for line in iter(partial(pipe.readline, _LINE_BYTES_MAX), b""):
            tail.append(line)
            sink(line)


def _is_readable(pipe: IO[bytes]) -> bool:
    """Tells whether something is in a pipe, or nobody holds its other end."""
    try:
        return bool(select.select([pipe], [], [], 0)[0])
    except ValueError:  # the pump has closed it
        return False


async def _wait_exit(popen: subprocess.Popen[bytes]) -> None:
    """Returns once the process is reaped. Until then its pid is its own: nobody else reaps."""
    while popen.poll() is None:
        await _end_of(popen.pid, _EXIT_POLL_S)


async def _end_of(pid: int | None, poll_s: float) -> None:
    """Returns once a process has ended, or after a while where nothing tells of its end."""
    try:
        fd = -1 if pid is None else os.pidfd_open(pid)
    except (AttributeError, OSError):  # not Linux, or a sandbox without the call
        fd = -1
    if fd < 0:
        await anyio.sleep(poll_s)
        return
    try:
        await anyio.wait_readable(fd)
    finally:
        os.close(fd)
