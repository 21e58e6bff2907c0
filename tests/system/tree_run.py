"""One run of the command `rotulus` as its user starts it, and the processes that belong to it.

Processes are found by the system's own list and not by what the tree says of itself: by the data
folder in their environment, by a working directory inside of it (the embedded server is given no
environment of ours), or by the label that processes of a forked tree hold open (`forked_tree.py`).
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from tests.forked import ForkedProcess
from tests.forked_tree import LABEL, run_tree
from tests.process_environment import process_environment
from tests.system.essence import rows_of
from tests.workers.cli.command import rotulus

COMMAND = Path(sys.executable).with_name("rotulus")
MARK = "TREE_UNDER_TEST"
FINISH_S = 200.0
STAND_S = 200.0
POLL_S = 0.01

_PROC = Path("/proc")
_numbers = count(1)
T = TypeVar("T")


def command_on(data_dir: Path, *arguments: str) -> tuple[int, str]:
    """Run a command beside a tree, in this process; return its exit code and all that it said."""
    environment = process_environment()
    without = {name: None for name in os.environ if name not in environment}
    result = rotulus(*arguments, "--data-dir", str(data_dir), **environment, **without)
    return result.exit_code, result.output


def wait_for(
    subject: str, ask: Callable[[], T | None], timeout_s: float, each_s: float = POLL_S
) -> T:
    """Ask again and again until the answer is true, and return it.

    Asking takes a tenth of a processor at most, since what is waited for needs the rest.
    """
    deadline_s = time.monotonic() + timeout_s
    while True:
        began_s = time.thread_time()
        answer = ask()
        if answer:
            return answer
        assert time.monotonic() < deadline_s, f"{subject}: not within {timeout_s:g} s"
        time.sleep(max(each_s, 9 * (time.thread_time() - began_s)))


class TreeRun:
    """A started command; `stop_for_good` leaves nothing of it behind."""

    def __init__(
        self,
        data_dir: Path,
        *arguments: str,
        env: dict[str, str] | None = None,
        as_operator: bool = False,
    ) -> None:
        """Start it: as an operator does, or forked where nothing of the test hangs on the start."""
        self.data_dir = data_dir
        self.ledger_path = data_dir / "ledger.db"
        self._marks = {f"{name}={data_dir}".encode() for name in (MARK, "ROTULUS_DATA_DIR")}
        data_dir.parent.mkdir(parents=True, exist_ok=True)
        number = next(_numbers)
        self._out = data_dir.with_name(f"{data_dir.name}.{number}.out")
        self._err = data_dir.with_name(f"{data_dir.name}.{number}.err")
        self._label = data_dir.with_name(data_dir.name + LABEL)
        environment = {**process_environment(), **(env or {}), MARK: str(data_dir)}
        words = (*arguments, "--data-dir", str(data_dir))
        self.process: ForkedProcess | subprocess.Popen[bytes]
        if not as_operator:
            for path in (self._out, self._err, self._label):
                path.touch()
            self.process = ForkedProcess(
                run_tree, words, environment, self._label, self._out, self._err
            )
            return
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [str(COMMAND), *words],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=data_dir.parent,
                env=environment,
                start_new_session=True,
            )

    @property
    def stdout(self) -> str:
        return self._out.read_text()

    @property
    def stderr(self) -> str:
        return self._err.read_text()

    def report(self) -> dict[str, Any]:
        """Return what the command printed as JSON."""
        document: dict[str, Any] = json.loads(self.stdout)
        return document

    def finish(self, timeout_s: float = FINISH_S) -> int:
        """Wait for the end of the command and return its exit code."""
        return self.process.wait(timeout_s)

    def wait_for_rows(self, rows: int) -> None:
        """Wait until the log has so many rows."""
        wait_for(
            f"{rows} rows",
            lambda: rows_of(self.ledger_path) >= rows or self.process.poll() is not None,
            STAND_S,
        )
        assert self.process.poll() is None, f"it ended early:\n{self.stderr}"

    def wait_until_up(self) -> dict[str, Any]:
        """Wait until the tree stands and return its run-time facts."""
        path = self.data_dir / "runtime.json"
        wait_for("the tree", lambda: path.exists() or self.process.poll() is not None, STAND_S)
        assert self.process.poll() is None, f"it ended early:\n{self.stderr}"
        facts: dict[str, Any] = json.loads(path.read_bytes())
        return facts

    def members(self) -> dict[int, str]:
        """Return pid and role of every living process of the tree, the root among them."""
        pids = (int(path.name) for path in _PROC.iterdir() if path.name.isdigit())
        roles = ((pid, self._role(pid)) for pid in pids)
        return {pid: role for pid, role in roles if role is not None}

    def _role(self, pid: int) -> str | None:
        folder = _PROC / str(pid)
        try:
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            name = (folder / "comm").read_text().strip()
            words = (folder / "cmdline").read_bytes().split(b"\0")
            environment = (folder / "environ").read_bytes().split(b"\0")
            inside = (folder / "cwd").readlink().is_relative_to(self.data_dir)
            is_labelled = self._label in (each.readlink() for each in (folder / "fd").iterdir())
        except (OSError, IndexError):  # it ended meanwhile, or it is not ours to read
            return None
        if state in "ZX" or not (inside or is_labelled or self._marks & set(environment)):
            return None
        if pid == self.process.pid:
            return "root"
        named = {"gateway", "worker"} & {name, *(word.decode() for word in words)}
        return next(iter(named), "redis")

    def pids_of(self, *roles: str) -> dict[str, int]:
        """Return the pids that these roles have now."""
        return {role: pid for pid, role in self.members().items() if role in roles}

    def pid_of(self, role: str) -> int:
        """Wait for a process with this role and return its pid."""

        def look() -> int | None:
            return next(
                (pid for pid, role_of_pid in self.members().items() if role_of_pid == role), None
            )

        pid = wait_for(role, look, STAND_S)
        assert pid is not None
        return pid

    def kill(self, role: str) -> None:
        """Kill the process with this role as nothing can prevent."""
        os.kill(self.pid_of(role), signal.SIGKILL)

    def stop_for_good(self) -> None:
        """Kill whatever is left on the data folder."""
        for pid in [self.process.pid, *self.members()]:
            if pid != self.process.pid or self.process.poll() is None:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.process.wait(10)


@contextmanager
def running(
    data_dir: Path,
    *arguments: str,
    env: dict[str, str] | None = None,
    as_operator: bool = False,
) -> Iterator[TreeRun]:
    """Start a command for the time of a block and leave nothing of it behind."""
    run = TreeRun(data_dir, *arguments, env=env, as_operator=as_operator)
    try:
        yield run
    finally:
        run.stop_for_good()


def demo(data_dir: Path, file: Path) -> Any:
    """Run the main job on a file and let it end by itself."""
    return running(data_dir, "demo", str(file), "--exit", "--json")
