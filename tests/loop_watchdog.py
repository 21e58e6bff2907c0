"""Watches an event loop, and tells what held it longest and where that was.

Two measures, neither of which a busy machine can lengthen by itself:

    callback   CPU time that the loop's thread spent in one callback (one step of a task)
    starved    time that a timer came late, or the CPU time that the process used meanwhile,
               whichever is less: another thread held the interpreter

In a test's own loop: `with watched() as watch: ...; assert watch.longest.seconds < 0.05`.

For a process of its own: `python -m tests.loop_watchdog REPORT gateway ...` runs `rotulus gateway`
with a watchdog and keeps the longest stalls in the file REPORT; `read_report` reads it.
"""

import asyncio
import gc
import json
import runpy
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

STALL_S = 0.05
"""Longer than this nothing that a legal request causes may hold the loop, and no collection."""

_PROBE_S = 0.005
_SAMPLE_S = 0.005
_KEPT_MAX = 20
_FRAMES_MAX = 12


@dataclass(frozen=True, slots=True)
class Stall:
    """How long a loop was held at one time, and the stack that was seen meanwhile."""

    measure: str
    """`callback` or `starved`."""

    seconds: float
    callback: str
    """The callback that ran; of a starved loop, the threads beside it."""

    stack: str
    collecting_s: float = 0.0
    """How much of it went into a collection of garbage, which any callback may meet."""

    ended_s: float = 0.0
    """When it ended, on the monotonic clock, which the processes of a machine share."""

    def longer_than(self, limit_s: float) -> bool:
        """Tell whether what ran, or the collection that it met by chance, took longer."""
        return max(self.seconds - self.collecting_s, self.collecting_s) > limit_s

    def __str__(self) -> str:
        collecting = f", {self.collecting_s * 1000:.1f} ms of it collecting garbage"
        return (
            f"{self.seconds * 1000:.1f} ms{collecting if self.collecting_s else ''}"
            f" ({self.measure}) {self.callback}\n{self.stack}"
        )


NOTHING = Stall("callback", 0.0, "", "")


class LoopWatchdog:
    """Keeps the longest stalls of the loops of this process; see `watched`."""

    def __init__(self, *, notice: Callable[[], None] = lambda: None) -> None:
        self._notice = notice
        """Called where a new stall is among the longest; it must be quick."""

        self._stalls: list[Stall] = []
        self._running: tuple[int, float, object] | None = None
        """Thread, begin and handle of the callback that runs."""

        self._seen: tuple[object, str] = (None, "")
        """The handle at which the sampler has looked last, and its stack."""

        self._collecting_s = 0.0
        self._collection_began_s = 0.0
        self._beside = ""
        self._stopped = threading.Event()
        self._original: Any = asyncio.Handle._run  # noqa: SLF001 - a loop has no other hook
        self._sampler = threading.Thread(target=self._sample, name="loop-watchdog", daemon=True)

    @property
    def stalls(self) -> list[Stall]:
        """The longest stalls, longest first."""
        return list(self._stalls)

    @property
    def longest(self) -> Stall:
        """The longest stall; one of 0 s where there was none."""
        return self._stalls[0] if self._stalls else NOTHING

    def forget(self) -> None:
        """Begin anew, after a start for instance."""
        self._stalls.clear()

    def start(self) -> None:
        """Measure every callback of every loop of this process from now on."""
        original = self._original

        def run(handle: Any) -> None:
            self._running = (threading.get_ident(), time.perf_counter(), handle)
            began_s, self._collecting_s = time.thread_time(), 0.0
            try:
                original(handle)
            finally:
                seconds = time.thread_time() - began_s
                self._running = None
                if seconds > self._least():
                    self._ran(handle, seconds)

        asyncio.Handle._run = run  # type: ignore[method-assign, assignment]  # noqa: SLF001 - likewise
        gc.callbacks.append(self._collect)
        self._sampler.start()

    def stop(self) -> None:
        """Leave the loops as they were."""
        asyncio.Handle._run = self._original  # type: ignore[method-assign, assignment]  # noqa: SLF001 - likewise
        gc.callbacks.remove(self._collect)
        self._stopped.set()
        self._sampler.join()

    async def probe(self) -> None:
        """Measure how late a timer of this loop comes, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due_s, used_s = loop.time() + _PROBE_S, time.process_time()
            await asyncio.sleep(_PROBE_S)
            late_s = min(loop.time() - due_s, time.process_time() - used_s)
            if late_s > self._least():
                self._keep("starved", late_s, "threads beside the loop", self._beside)

    def _least(self) -> float:
        return self._stalls[-1].seconds if len(self._stalls) >= _KEPT_MAX else 0.005

    def _ran(self, handle: object, seconds: float) -> None:
        handle_seen, stack = self._seen
        stack = stack if handle_seen is handle else ""
        self._keep("callback", seconds, repr(handle), stack, self._collecting_s)

    def _collect(self, phase: str, _: dict[str, int]) -> None:
        if self._running is None or self._running[0] != threading.get_ident():
            return
        if phase == "start":
            self._collection_began_s = time.thread_time()
        else:
            self._collecting_s += time.thread_time() - self._collection_began_s

    def _keep(
        self, measure: str, seconds: float, callback: str, stack: str, collecting_s: float = 0.0
    ) -> None:
        stall = Stall(measure, seconds, callback, stack, collecting_s, time.monotonic())
        self._stalls = sorted([*self._stalls, stall], key=lambda kept: -kept.seconds)[:_KEPT_MAX]
        self._notice()

    def _sample(self) -> None:
        used_s = 0.0
        while not self._stopped.wait(_SAMPLE_S):
            before_s, used_s = used_s, time.process_time()
            if used_s - before_s < _SAMPLE_S / 2:
                # Nothing of this process holds anything.
                continue
            running, frames = self._running, sys._current_frames()  # noqa: SLF001 - its public name
            if running is not None and time.perf_counter() - running[1] > 2 * _SAMPLE_S:
                frame = frames.get(running[0])
                # A callback that has just returned is not what the loop stood in.
                if frame is not None and frame.f_code.co_name not in ("_run", "run"):
                    self._seen = (running[2], _stack(frame))
            loops = {None if running is None else running[0], threading.get_ident()}
            busy = [frame for thread, frame in frames.items() if thread not in loops]
            self._beside = "\n".join(_stack(frame) for frame in busy if not _waits(frame))


_WAITING = frozenset(
    {
        ("threading.py", "wait"),
        ("queue.py", "get"),
        ("_asyncio.py", "run"),
        ("selectors.py", "select"),
        ("loop_watchdog.py", "write"),
    }
)
"""Where a thread stands that does nothing: the file, and the function."""


def _waits(frame: Any) -> bool:
    code = frame.f_code
    return (code.co_filename.rpartition("/")[2], code.co_name) in _WAITING


def _stack(frame: Any) -> str:
    """Return where a thread stands, innermost last.

    Not by `traceback`, which looks at every file: sampling would be a tenth of a busy gateway.
    """
    places: list[str] = []
    while frame is not None and len(places) < _FRAMES_MAX:
        code = frame.f_code
        places.append(f'  File "{code.co_filename}", line {frame.f_lineno}, in {code.co_name}\n')
        frame = frame.f_back
    return "".join(reversed(places))


@contextmanager
def watched() -> Iterator[LoopWatchdog]:
    """Watch every loop of this process for the time of the block.

    To see other threads hold the loop up as well, run `probe` in a task beside the test.
    """
    watchdog = LoopWatchdog()
    watchdog.start()
    try:
        yield watchdog
    finally:
        watchdog.stop()


def read_report(path: Path) -> list[Stall]:
    """Return the longest stalls of a process that was started with a report, longest first."""
    if not path.exists():
        return []
    return [Stall(**load) for load in json.loads(path.read_text())]


def _run_watched(report: Path, arguments: list[str]) -> None:
    """Run `rotulus` with its arguments; its first loop is probed from its begin."""
    due = threading.Event()
    watchdog = LoopWatchdog(notice=due.set)

    def write() -> None:
        while True:
            due.wait()
            due.clear()
            new = report.with_suffix(".new")
            new.write_text(json.dumps([asdict(stall) for stall in watchdog.stalls]))
            new.replace(report)
            time.sleep(0.1)

    threading.Thread(target=write, name="loop-watchdog-report", daemon=True).start()
    made = asyncio.new_event_loop
    probes: list[Any] = []

    def new_event_loop() -> asyncio.AbstractEventLoop:
        loop = made()
        loop.call_soon(lambda: probes.append(loop.create_task(watchdog.probe())))
        return loop

    asyncio.new_event_loop = new_event_loop
    asyncio.events.new_event_loop = new_event_loop
    asyncio.runners.events.new_event_loop = new_event_loop  # type: ignore[attr-defined]
    watchdog.start()
    # The handles of another loop than asyncio's cannot be measured.
    sys.modules["uvloop"] = None  # type: ignore[assignment]
    sys.argv = ["rotulus", *arguments]
    runpy.run_module("workers", run_name="__main__", alter_sys=False)


if __name__ == "__main__":
    _run_watched(Path(sys.argv[1]), sys.argv[2:])
