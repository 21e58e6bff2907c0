"""Runs the processes of one tree from one parent: starts, watches, restarts and stops them.

Theory of operation:

    waiting ──start──► starting ──ready──► running ──died──► backing off ──► starting …
                          │ not ready                             │ died too often
                          ▼                                       ▼
                    the start fails                         the tree fails

- Children start in order, each after the one before is ready, and stop in reverse order.
- A child that fails before the tree stands fails the tree at once: that is a mistake in its
  set-up, which a restart would hide. Later deaths are answered with a restart, after a pause that
  doubles, until the deaths within a window are too many. While something outside of the tree is in
  the way of any restart, such as a full disk, a child that died waits and no death is counted.
- Two task groups, one in the other. The inner one holds the watchers and the body; whatever ends
  it (end of the body, cancellation, a signal, a failure) ends every watcher *before* the first
  child is stopped, so nothing is restarted during the stop. The outer one holds the signal
  receiver, which lives until the last child is gone, so a second Ctrl-C does not break the stop.
- Each child is in a session of its own: a terminal's Ctrl-C reaches the supervisor alone.
"""

import signal
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import ClassVar, Self

import anyio
from anyio.abc import TaskStatus

from workers.environment.log_setup import get_logger
from workers.environment.output import forward
from workers.process_tree.child_process import (
    REAP_S,
    ChildProcess,
    ChildService,
    ChildSpec,
    ServiceSpec,
)

STOP_TOTAL_S = 2.0
READY_TIMEOUT_S = 60.0
"""How long a child may take to start; on a machine that has much to do it takes long."""

ALIKE_SAID = 3
"""Deaths of a child in the same way, one after the other, after which the log says so."""

HINDERED_POLL_S = 1.0
"""Pause between looks whether what hinders a restart is gone."""

_READY_POLL_S = 0.05
_READY_PROBE_S = 1.0

log = get_logger(__name__)


class SupervisorError(Exception):
    """The base of the errors of a process tree; the message names the child."""

    code: ClassVar[str] = "supervisor_error"

    def __init__(self, child: str, reason: str, last_lines: Sequence[str] = ()) -> None:
        self.child = child
        self.reason = reason
        self.last_lines = list(last_lines)
        """The last lines of the child, oldest first."""
        tail = "".join(f"\n  | {line}" for line in last_lines)
        super().__init__(f"{self.code}: {child}: {reason}{tail}")


class ChildNotReadyError(SupervisorError):
    """Says that a child could not be started, or was not ready in time."""

    code = "child_not_ready"


class StartInterruptedError(SupervisorError):
    """Says that a signal came before the tree stood; everything is stopped again."""

    code = "start_interrupted"


class ChildDiedTooOftenError(SupervisorError):
    """Says that restarting a child does not help."""

    code = "child_died_too_often"


async def _nothing() -> str:
    return ""


@dataclass(frozen=True)
class RestartPolicy:
    """Says how long to pause before a restart and when to give up."""

    first_s: float = 0.1
    pause_max_s: float = 5.0
    deaths_max: int = 10
    window_s: float = 60.0

    def pause_s(self, deaths: Sequence[float], now_s: float) -> float | None:
        """Returns the pause after the latest of `deaths`, or None when they are too many."""
        recent = sum(1 for at_s in deaths if now_s - at_s <= self.window_s)
        if recent > self.deaths_max:
            return None
        return min(self.pause_max_s, self.first_s * 2.0 ** min(recent - 1, 30))


@dataclass(frozen=True)
class AlikeDeaths:
    """Says that a child has died in the same way again and again, so that a restart is no help."""

    name: str
    times: int
    reason: str
    last_line: str
    """What it wrote last."""


@dataclass
class _Member:
    name: str
    grace_s: float
    runner: ChildProcess | ChildService
    ready: Callable[[], Awaitable[bool]] | None
    deaths: deque[float]


class Supervisor(AbstractAsyncContextManager["Supervisor"]):
    """Holds a tree of children for the time of an ``async with`` block.

    Entering returns when every child is ready. The block is cancelled when the tree fails, and
    when SIGINT or SIGTERM comes; after a signal the ``async with`` ends without an exception and
    `stopped_by` names the signal. Leaving stops every child within `STOP_TOTAL_S`, cancelled or
    not.

    Raises:
        ChildNotReadyError: on entering, a child could not be started.
        StartInterruptedError: on entering, SIGINT or SIGTERM came.
        ChildDiedTooOftenError: on leaving, a child died more often than the policy allows.
    """

    def __init__(
        self,
        specs: Sequence[ChildSpec | ServiceSpec],
        *,
        policy: RestartPolicy | None = None,
        ready_timeout_s: float = READY_TIMEOUT_S,
        handle_signals: bool = True,
        sink: Callable[[bytes], None] = forward,
        died_alike: Callable[[AlikeDeaths], None] = lambda _: None,
        hindrance: Callable[[], Awaitable[str]] = _nothing,
    ) -> None:
        """Takes the children in the order of their start; signals need the main thread.

        `died_alike` is told at the third death of a child in the same way, and at each after it.
        `hindrance` says what keeps any child from starting now, "" where nothing does.
        """
        names = [spec.name for spec in specs]
        if len(set(names)) != len(names):
            raise ValueError(f"child_name_twice: {names}")
        self._policy = RestartPolicy() if policy is None else policy
        self._members = [self._member(spec, sink) for spec in specs]
        self._ready_timeout_s = ready_timeout_s
        self._handle_signals = handle_signals
        self._died_alike = died_alike
        self._hindrance = hindrance
        self._failure: SupervisorError | None = None
        self._scope: anyio.CancelScope | None = None
        self._run = self._running()
        self.stopped_by: signal.Signals | None = None

    async def __aenter__(self) -> Self:
        await self._run.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._run.__aexit__(kind, error, traceback)

    def pids(self) -> dict[str, int]:
        """Returns the pids of the children that run now, in the order of their start."""
        pids = {member.name: member.runner.pid for member in self._members}
        return {name: pid for name, pid in pids.items() if pid is not None}

    def _member(self, spec: ChildSpec | ServiceSpec, sink: Callable[[bytes], None]) -> _Member:
        # One more than allowed is all that the policy has to see.
        deaths: deque[float] = deque(maxlen=self._policy.deaths_max + 1)
        if isinstance(spec, ChildSpec):
            process = ChildProcess(spec, sink)
            return _Member(spec.name, spec.grace_s, process, spec.ready, deaths)
        return _Member(spec.name, spec.grace_s, ChildService(spec), None, deaths)

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        stood = False
        error: BaseException | None = None
        try:
            async with anyio.create_task_group() as outer:
                if self._handle_signals:
                    await outer.start(self._receive_signals)
                try:
                    async with anyio.create_task_group() as inner:
                        self._scope = inner.cancel_scope
                        for member in self._members:
                            await self._start(member)
                            inner.start_soon(self._watch, member)
                        stood = True
                        yield
                        inner.cancel_scope.cancel()
                finally:
                    with anyio.CancelScope(shield=True):
                        await self._stop_all()
                    outer.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            error = _sole(group)
        # Outside the handler, so that the group does not become the context of its own member.
        if self._failure is not None:
            raise self._failure from error
        if error is not None:
            raise error
        if not stood:
            name = "" if self.stopped_by is None else self.stopped_by.name
            raise StartInterruptedError("tree", f"{name} came before every child was ready")

    async def _receive_signals(self, *, task_status: TaskStatus[None]) -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as received:
            task_status.started()
            async for number in received:
                log.info("tree_stopping", signal=number.name)
                self.stopped_by = self.stopped_by or number
                if self._scope is not None:
                    self._scope.cancel()

    async def _start(self, member: _Member) -> None:
        runner = member.runner
        with anyio.move_on_after(self._ready_timeout_s) as scope:
            try:
                await runner.start()
            except Exception as error:
                raise ChildNotReadyError(
                    member.name, f"cannot be started: {_describe(error)}"
                ) from error
            log.info("child_started", name=member.name, pid=runner.pid)
            await self._wait_ready(member)
        if scope.cancelled_caught:
            reason = f"not ready within {self._ready_timeout_s:g} s"
            raise ChildNotReadyError(member.name, reason, runner.last_lines())

    async def _wait_ready(self, member: _Member) -> None:
        if member.ready is None:
            return
        while True:
            # First, because what answers may be a stranger at the dead child's address.
            if await member.runner.has_died():
                reason = f"died before it was ready: {await member.runner.wait_dead()}"
                raise ChildNotReadyError(member.name, reason, member.runner.last_lines())
            if await _is_ready(member.ready):
                return
            await anyio.sleep(_READY_POLL_S)

    async def _watch(self, member: _Member) -> None:
        before, alike, began_s = "", 0, anyio.current_time()
        reason = await member.runner.wait_dead()
        while True:
            if not await wait_until_unhindered(self._hindrance, member.name):
                reason = await self._restart(member)
                began_s = anyio.current_time()
                continue
            now_s = anyio.current_time()
            # What lived for long was helped by its restart, whatever ended it then.
            is_alike = reason == before and now_s - began_s <= self._policy.window_s
            alike, before = (alike + 1 if is_alike else 1), reason
            if alike >= ALIKE_SAID:
                # A restart does not help; what it takes from a mailbox is set aside by its takers.
                last = next(iter(member.runner.last_lines()[-1:]), "")
                log.error(
                    "child_dies_alike", name=member.name, times=alike, reason=reason, said=last
                )
                self._tell(AlikeDeaths(member.name, alike, reason, last))
            member.deaths.append(now_s)
            pause_s = self._policy.pause_s(member.deaths, now_s)
            log.warning("child_died", name=member.name, reason=reason, restart_in_s=pause_s)
            if pause_s is None:
                self._fail(member, reason)
                return
            await anyio.sleep(pause_s)
            began_s = anyio.current_time()
            reason = await self._restart(member)

    async def _restart(self, member: _Member) -> str:
        """Start a child again, and return why it is dead when it is."""
        try:
            await self._start(member)
        except ChildNotReadyError as error:
            await member.runner.stop(member.grace_s)
            return error.reason
        log.warning("child_restarted", name=member.name, pid=member.runner.pid)
        return await member.runner.wait_dead()

    def _tell(self, deaths: AlikeDeaths) -> None:
        try:
            self._died_alike(deaths)
        except Exception:  # a disk that is full or a terminal that is gone must not end the tree
            log.exception("deaths_not_told", name=deaths.name)

    def _fail(self, member: _Member, reason: str) -> None:
        policy = self._policy
        text = f"died more than {policy.deaths_max} times in {policy.window_s:g} s, last: {reason}"
        self._failure = ChildDiedTooOftenError(member.name, text, member.runner.last_lines())
        if self._scope is not None:
            self._scope.cancel()

    async def _stop_all(self) -> None:
        deadline_s = anyio.current_time() + STOP_TOTAL_S
        for index in reversed(range(len(self._members))):
            member = self._members[index]
            # An equal share of what is left, so that a slow child does not use up its elders' time.
            share_s = (deadline_s - anyio.current_time()) / (index + 1) - REAP_S
            try:
                await member.runner.stop(max(0.0, min(member.grace_s, share_s)))
            except Exception:  # one child's failure must not spare the others
                log.exception("child_stop_failed", name=member.name)
            member.runner.close()


async def wait_until_unhindered(hindrance: Callable[[], Awaitable[str]], name: str) -> bool:
    """Wait until nothing keeps a process from starting, and say so; False where something did."""
    said = ""
    while reason := await hindrance():
        if reason != said:
            log.error("start_waits", name=name, reason=reason)
        said = reason
        await anyio.sleep(HINDERED_POLL_S)
    if said:
        log.warning("start_goes_on", name=name)
    return not said


async def _is_ready(ready: Callable[[], Awaitable[bool]]) -> bool:
    with anyio.move_on_after(_READY_PROBE_S):
        try:
            return await ready()
        except Exception:  # noqa: BLE001 - refused, reset, timed out: not ready, whatever the kind
            return False
    return False


def _describe(error: Exception) -> str:
    """An error with a code speaks for itself."""
    code = getattr(error, "code", None)
    return f"{code}: {error}" if isinstance(code, str) else repr(error)


def _sole(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
