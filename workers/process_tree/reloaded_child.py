"""Runs a child that holds a user's own code, and begins it anew whenever that code is changed.

    standby ──begin──► starting ──ready──► running ──changed──► stopped, and the next one begins
                          │ died: its code does not load           │ died: begun again after a pause
                          ▼                                        ▼
                    waits for a change                         starting

- A process imports what is ours before it begins (`ChildSpec.waits`), so a change costs the import
  of the user's own modules alone. The next one waits from the time on at which this one is ready.
- The old process is told to stop and gives its claims back before the new one begins, so that no
  job is begun with code that was changed meanwhile.
- A file that is no Python ends nothing: the jobs of before go on until it is mended.

Decision workers/0480 says why.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import anyio

from workers.process_tree.child_process import ChildProcess, ChildSpec
from workers.process_tree.source_watch import SourceWatch, syntax_problem

LOOK_EVERY_S: Final = 0.15
SETTLE_S: Final = 0.05
"""Pause after a change, in which an editor writes the rest."""

AGAIN_S: Final = 1.0
"""Pause before a process is begun again that ended by itself."""

GRACE_S: Final = 1.5
READY_POLL_S: Final = 0.03

Happened = Literal["started", "reloaded", "restarted", "not_loaded", "not_python", "ended"]


@dataclass(frozen=True, slots=True)
class Reload:
    """What became of the child, for whoever shows it."""

    happened: Happened
    took_s: float = 0.0
    problem: str = ""
    files: Sequence[Path] = ()
    pid: int = 0


class ReloadedChild:
    """A child that is begun anew at each change below a folder; run `run` in a task."""

    def __init__(
        self,
        spec: ChildSpec,
        sink: Callable[[bytes], None],
        folder: Path,
        is_ready: Callable[[int], Awaitable[bool]],
        tell: Callable[[Reload], Awaitable[None]],
    ) -> None:
        """Take the child; `is_ready` tells of a pid whether its process works."""
        self._spec = spec
        self._sink = sink
        self._watch = SourceWatch(folder)
        self._is_ready = is_ready
        self._tell = tell
        self._standby: ChildProcess | None = None
        self._child: ChildProcess | None = None

    async def run(self) -> None:
        """Run the child until cancelled; leaving stops it."""
        try:
            happened: Happened = "started"
            files: Sequence[Path] = ()
            while True:
                files = await self._run_once(happened, files)
                happened = "reloaded" if files else "restarted"
        finally:
            with anyio.CancelScope(shield=True):
                async with anyio.create_task_group() as tasks:
                    for child in (self._child, self._standby):
                        if child is not None:
                            tasks.start_soon(child.stop, GRACE_S)

    async def _run_once(self, happened: Happened, files: Sequence[Path]) -> Sequence[Path]:
        """Run one process until files are changed, and return these."""
        began_s = anyio.current_time()
        if self._child is not None:
            await self._child.stop(GRACE_S)
        self._child = child = self._standby or await self._new_child()
        self._standby = None
        pid = child.pid or 0
        child.begin()
        if not await self._wait_ready(child, pid):
            ended = await child.wait_dead()
            said = [line for line in child.last_lines() if line.strip()]
            problem = said[-1] if said else ended
            await self._tell(Reload("not_loaded", problem=problem, files=files))
            self._standby = await self._new_child()
            return await self._changed_files()
        took_s = anyio.current_time() - began_s
        await self._tell(Reload(happened, took_s, files=files, pid=pid))
        self._standby = await self._new_child()
        changed: list[Sequence[Path]] = []
        async with anyio.create_task_group() as tasks:

            async def wait_for_change() -> None:
                changed.append(await self._changed_files())
                tasks.cancel_scope.cancel()

            async def wait_dead() -> None:
                ended = await child.wait_dead()
                await self._tell(Reload("ended", problem=ended, pid=pid))
                await anyio.sleep(AGAIN_S)
                tasks.cancel_scope.cancel()

            tasks.start_soon(wait_for_change)
            tasks.start_soon(wait_dead)
        return changed[0] if changed else ()

    async def _new_child(self) -> ChildProcess:
        child = ChildProcess(self._spec, self._sink)
        await child.start()
        return child

    async def _wait_ready(self, child: ChildProcess, pid: int) -> bool:
        while not await child.has_died():
            if await self._is_ready(pid):
                return True
            await anyio.sleep(READY_POLL_S)
        return False

    async def _changed_files(self) -> Sequence[Path]:
        """Return what was changed once all of it is Python; say what is not."""
        changed: set[Path] = set()
        said: list[str] = []
        while True:
            looked = await anyio.to_thread.run_sync(self._watch.changed_files)
            changed.update(looked)
            if not looked:
                if changed and not said:
                    return sorted(changed)
                await anyio.sleep(LOOK_EVERY_S)
                continue
            problems = [problem for path in sorted(changed) if (problem := syntax_problem(path))]
            if problems and problems != said:
                await self._tell(Reload("not_python", problem=problems[0], files=tuple(looked)))
            said = problems
            await anyio.sleep(SETTLE_S)
