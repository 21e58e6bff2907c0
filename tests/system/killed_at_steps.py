"""The ledgers that processes leave which are killed, one at each step of what they do.

Each goes on from a copy of the same ledger, and its clock and its randomness repeat. Ids that one
process draws are drawn by no other.
"""

import os
import shutil
import signal
import traceback
from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path

from kernel.host import Host
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite import SqliteStore
from tests.kernel.build import FakeHost
from tests.system.faulty_store import CountedSteps, FaultyStore, step_in_ledger

AT_ONCE = 8
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
    """Yield each step with the ledger that a kill there leaves, and how many steps there are."""
    counted = _copy(begun, "counted")
    assert os.waitpid(_killed(counted, None, do), 0)[1] == 0
    total = int(counted.with_suffix(".steps").read_text())
    steps = iter(range(1, total + 1))
    while some := list(islice(steps, AT_ONCE)):
        copies = [_copy(begun, str(step)) for step in some]
        children = [_killed(path, step, do) for step, path in zip(some, copies, strict=True)]
        for step, path, child in zip(some, copies, children, strict=True):
            assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL, step
            yield step, path, total
            path.unlink()


def _copy(begun: Path, name: str) -> Path:
    return Path(shutil.copy(begun, begun.with_name(f"{name}.db")))


def _killed(path: Path, kill_at: int | None, do: Callable[[Ledger], object]) -> int:
    """Do it in a process of its own, killed at a step; return its id."""
    pid = os.fork()
    if pid == 0:
        try:
            steps = CountedSteps(kill_at)
            ledger = Ledger(FaultyStore(SqliteStore(path), steps), host_of(1))
            step_in_ledger(steps)
            do(ledger)
            path.with_suffix(".steps").write_text(str(steps.count))
            os._exit(0)
        except BaseException:  # noqa: BLE001 - a forked test process must not go on as pytest
            traceback.print_exc()
        finally:
            os._exit(1)
    return pid
