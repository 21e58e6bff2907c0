"""The ledgers that a process leaves which is killed at a step of what it does, for each step.

A process that is killed leaves its files as they are at that moment. So one process goes through
the work, and its files are copied while it stands still at a step; at every eighth step a process
of its own is killed instead (decision tests/0030). Each begins with a copy of the same ledger, and
its clock and its randomness repeat. Ids that one process draws are drawn by no other.

Most steps write nothing to a file: what stands in the files as at an earlier step is yielded once.
"""

import hashlib
import os
import shutil
import signal
import socket
import traceback
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.values.host import Host
from tests.kernel.build import FakeHost
from tests.system.faulty_store import CountedSteps, FaultyStore, step_in_ledger

KILLED_EACH = 8
IDS_EACH = 1_000_000


def host_of(process: int) -> Host:
    """Return the host of one of the processes that come one after the other."""
    fake = FakeHost()
    fake.counter = count(1 + process * IDS_EACH)
    return fake.host


def opened(path: Path, process: int = 0) -> Ledger:
    """Open a ledger, founding it where it is new."""
    return Ledger.create(SqliteStore(path), host_of(process))


def killed_at_each_step(
    begun: Path, do: Callable[[Ledger], object]
) -> Iterator[tuple[int, Path, int]]:
    """Yield each step with the ledger that a kill there leaves, and how many steps there are.

    A step that leaves the files of an earlier one is left out, but for those that are killed.
    """
    counted = _copy(begun, "counted")
    assert os.waitpid(_run(counted, CountedSteps(), do), 0)[1] == 0
    total = int(counted.with_suffix(".steps").read_text())
    walked = _copy(begun, "walked")
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            walking = _run(walked, StandingSteps(theirs, ours), do)
        left = set[bytes]()
        try:
            for step in range(1, total + 1):
                assert ours.recv(1), step
                path = _copy(begun if step % KILLED_EACH == 0 else walked, str(step))
                if step % KILLED_EACH == 0:
                    killed = os.waitpid(_run(path, CountedSteps(step), do), 0)[1]
                    assert os.WTERMSIG(killed) == signal.SIGKILL, step
                    yield step, path, total
                elif (digest := _digest(path)) not in left:
                    left.add(digest)
                    yield step, path, total
                path.unlink()
                ours.send(b".")
            assert ours.recv(1) == b""
        finally:
            os.kill(walking, signal.SIGKILL)
            os.waitpid(walking, 0)


class StandingSteps(CountedSteps):
    """Stands still at each step until who copies its files lets it go on, and ends with them."""

    def __init__(self, own: socket.socket, other: socket.socket) -> None:
        super().__init__()
        self._own, self._other = own, other

    def step(self) -> None:
        super().step()
        self._other.close()
        self._own.send(b".")
        assert self._own.recv(1), "who copies is gone"


def _copy(begun: Path, name: str) -> Path:
    """Copy a ledger's file, and its write-ahead log where a process is at work on it."""
    copy = begun.with_name(f"{name}.db")
    log = begun.with_name(f"{begun.name}-wal")
    if log.exists():
        shutil.copy(log, copy.with_name(f"{copy.name}-wal"))
    return Path(shutil.copy(begun, copy))


def _digest(copy: Path) -> bytes:
    """Return a digest of a ledger's file and of its write-ahead log."""
    log = copy.with_name(f"{copy.name}-wal")
    content = copy.read_bytes() + b"\0" + (log.read_bytes() if log.exists() else b"")
    return hashlib.sha256(content).digest()


def _run(path: Path, steps: CountedSteps, do: Callable[[Ledger], object]) -> int:
    """Do it in a process of its own; return its id."""

    def run() -> None:
        ledger = Ledger(FaultyStore(SqliteStore(path), steps), host_of(1))
        step_in_ledger(steps)
        do(ledger)
        path.with_suffix(".steps").write_text(str(steps.count))

    return in_a_process(run)


def in_a_process(do: Callable[[], object]) -> int:
    """Begin something in a process of its own, which ends with 1 where it raises; return its id."""
    pid = os.fork()
    if pid == 0:
        try:
            do()
            os._exit(0)
        except BaseException:  # noqa: BLE001 - a forked test process must not go on as pytest
            traceback.print_exc()
        finally:
            os._exit(1)
    return pid


def how_it_ended(pid: int) -> int:
    """Return the exit code of a process once it has ended, that of a signal as a negative one."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
