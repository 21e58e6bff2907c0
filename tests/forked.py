"""Processes of the tests that start as a copy of one that has loaded the code already.

A process that begins with nothing spends a second of a processor on imports. What a test itself
starts is therefore forked from one process, which has loaded what they need and holds nothing else.
The processes of a tree are forked likewise (`forked_tree.py`), but for the trees of tests of how an
operator has them: of their start, their environments and their end.
"""

import multiprocessing
import os
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Self

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "pytest",
        "psycopg",
        "tests.contract.elimination_stores",
        "tests.forked_tree",
        "tests.warm_processes",
        "workers.cli.demo",
        "workers.cli.gateway",
        "workers.cli.up",
        "workers.cli.worker",
        "workers.gateway.process",
        "workers.worker.handlers.docket_particulars",
        "workers.worker.process",
    ]
)


@contextmanager
def forked(
    target: Callable[..., None], *arguments: Any
) -> Iterator[tuple[BaseProcess, Connection]]:
    """Run a function in a process that is killed at the end of the block if it still runs.

    Its first argument is its end of the connection that the block is given.
    """
    ours, theirs = _CONTEXT.Pipe()
    process = _CONTEXT.Process(target=target, args=(theirs, *arguments), daemon=True)
    process.start()
    theirs.close()
    try:
        yield process, ours
    finally:
        process.kill()
        process.join()
        ours.close()


@contextmanager
def forked_together(
    target: Callable[..., None], *calls: tuple[Any, ...]
) -> Iterator[list[tuple[BaseProcess, Connection]]]:
    """Run a function in several processes, each of which has said `ready` when the block begins."""
    with ExitStack() as stack:
        running = [stack.enter_context(forked(target, *arguments)) for arguments in calls]
        assert [connection.recv() for _, connection in running] == ["ready"] * len(calls)
        yield running


def sent(connection: Connection) -> Iterator[Any]:
    """Everything that is sent through a connection until the process at its end has ended."""
    with suppress(EOFError):
        while True:
            yield connection.recv()


class ForkedProcess:
    """A function in a process of its own, killed at a block's end."""

    def __init__(self, target: Callable[..., None], *arguments: Any) -> None:
        self._process = _CONTEXT.Process(target=target, args=arguments)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.wait()

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0.0)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()


class ForkedProgram(ForkedProcess):
    """`python -m MODULE ARGUMENTS` with its own environment and log."""

    def __init__(
        self, module: str, arguments: Sequence[str], environment: dict[str, str], log: Path
    ) -> None:
        super().__init__(_run_module, module, arguments, environment, log)


def _run_module(
    module: str, arguments: Sequence[str], environment: dict[str, str], log: Path
) -> None:
    os.environ.clear()
    os.environ.update(environment)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.close(output)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
