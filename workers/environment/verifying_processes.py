"""Walks stretches of a log in processes while the process that verifies it folds it.

Each opens the ledger by itself, to read, takes one stretch, answers once and ends. It ends as well
when its parent does: a signal from the terminal is the parent's to answer, a parent that was killed
is noticed on the way, and a parent that gives up ends it. Decision workers/0103 says why they are
not copies of the parent.
"""

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from kernel.ledger.ledger import LedgerView
from kernel.values.errors import KernelError, LedgerUnavailable, VerificationProcessDied
from kernel.verify.stretches import LogStretch, Walked, walk

OpenRecord = Callable[[], AbstractContextManager[LedgerView]]
"""Opens a snapshot of the ledger; goes to another process."""

_END_S = 5.0
_PARENT_EVERY_ROWS = 256


class VerifyingProcesses:
    """The processes of one verification; `close` ends those that are still there."""

    def __init__(self, open_record: OpenRecord, processes: int | None, rows_min: int) -> None:
        """Begin with no process; `processes` counts this one too."""
        self.count = max(0, (processes or len(os.sched_getaffinity(0))) - 1)
        self.rows_min = rows_min
        self._open_record = open_record
        self._begun: list[tuple[BaseProcess, Connection]] = []

    @property
    def pids(self) -> list[int | None]:
        """The ids of the processes."""
        return [process.pid for process, _ in self._begun]

    def begin(self, stretches: Sequence[LogStretch]) -> None:
        """Start a process for each stretch."""
        context = get_context("spawn")
        for stretch in stretches:
            ours, theirs = context.Pipe(duplex=False)
            arguments = (theirs, self._open_record, stretch, os.getpid())
            process = context.Process(target=_answer, args=arguments, daemon=True)
            process.start()
            # The other end is the process's alone, so that reading ends when the process does.
            theirs.close()
            self._begun.append((process, ours))

    def finish(self) -> list[Walked | None]:
        """Wait for all of them."""
        return [_result(process, connection) for process, connection in self._begun]

    def close(self) -> None:
        """End what is left."""
        for process, connection in self._begun:
            connection.close()
            process.terminate()
        for process, _ in self._begun:
            process.join(_END_S)
            if process.is_alive():
                process.kill()
                process.join()
        self._begun.clear()


def _result(process: BaseProcess, connection: Connection) -> Walked | None:
    try:
        result: Walked | KernelError | None = connection.recv()
    except (EOFError, OSError) as error:
        process.join(_END_S)
        raise VerificationProcessDied(
            f"process {process.pid} of the verification ended with {process.exitcode} before it"
            " answered: verify again, with fewer processes where memory is short"
        ) from error
    if isinstance(result, KernelError):
        raise result
    return result


def _answer(
    connection: Connection, open_record: OpenRecord, stretch: LogStretch, parent: int
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    rows = 0

    def look_for_parent() -> None:
        nonlocal rows
        rows += 1
        if rows % _PARENT_EVERY_ROWS == 0 and os.getppid() != parent:
            os._exit(1)

    result: Walked | KernelError | None = None
    try:
        with open_record() as view:
            result = walk(view, stretch, look_for_parent)
    except LedgerUnavailable as error:
        result = LedgerUnavailable(str(error))
    except KernelError:
        # What cannot be opened here is for the parent to name.
        result = None
    with suppress(BrokenPipeError):
        connection.send(result)
