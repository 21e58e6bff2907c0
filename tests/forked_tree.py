"""A tree whose processes are copies of one that has loaded the code, and otherwise like any other.

The root is forked as whatever a test starts (`forked.py`). Before it begins it forks a nursery,
which holds nothing but the code. What the root would start as `python -m rotulus KIND` the nursery
forks, twice, so that the system gives the child to the root: it is the root's to wait for, and ends
with it, as one that was started. It has the environment, the descriptors and the session that it
would have had; the system's list shows the command line and the environment of the process that it
is a copy of, so that `LABEL` and its short name tell what it is.
"""

import ctypes
import gc
import os
import pickle
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, NoReturn

from workers.process_tree import child_process

LABEL = ".label"
"""Ends the name of the file that every process of a tree holds open, beside its data folder."""

_SET_CHILD_SUBREAPER = 36
_MESSAGE_BYTES_MAX = 1 << 20
_STREAMS = 3
_ABOVE = 512
"""Where descriptors are kept while those below are closed and given their places."""


def run_tree(
    arguments: Sequence[str], environment: dict[str, str], label: Path, out: Path, err: Path
) -> None:
    """Be the root of a tree: `rotulus ARGUMENTS` in a session of its own, beside its label."""
    os.setsid()
    os.chdir(label.parent)
    _set_environment(environment)
    for place, path in enumerate((Path(os.devnull), out, err)):
        opened = os.open(path, os.O_RDWR)
        os.dup2(opened, place)
        os.close(opened)
    _open_streams()
    nursery = _nursery(label)
    _hold(label)
    # It is the parent of whatever the nursery leaves behind.
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def child(argv: Sequence[str], **options: Any) -> _Child:
        return _Child(nursery, argv, **options)

    vars(child_process)["subprocess"] = SimpleNamespace(**{**vars(subprocess), "Popen": child})
    sys.argv = ["rotulus", *arguments]
    runpy.run_module("rotulus", run_name="__main__")


class _Child:
    """What `subprocess.Popen` offers of a child that the nursery forked."""

    def __init__(
        self,
        nursery: socket.socket,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        stdin: int,
        stdout: int,
        stderr: int,
        start_new_session: bool,
        pass_fds: Sequence[int],
    ) -> None:
        assert list(argv[:3]) == [sys.executable, "-m", "rotulus"]
        assert (stdout, stderr, start_new_session) == (subprocess.PIPE, subprocess.STDOUT, True)
        self.returncode: int | None = None
        self.stdin: IO[bytes] | None = None
        read, write = os.pipe()
        if stdin == subprocess.PIPE:
            source, kept = os.pipe()
            self.stdin = os.fdopen(kept, "wb")
        else:
            source = os.open(os.devnull, os.O_RDONLY)
        self.stdout = os.fdopen(read, "rb")
        message = pickle.dumps((list(argv[3:]), dict(env), list(pass_fds)))
        socket.send_fds(nursery, [message], [source, write, write, *pass_fds])
        os.close(source)
        os.close(write)
        self.pid = int(nursery.recv(_MESSAGE_BYTES_MAX))

    def poll(self) -> int | None:
        if self.returncode is None and (status := os.waitpid(self.pid, os.WNOHANG))[0]:
            self.returncode = os.waitstatus_to_exitcode(status[1])
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _nursery(label: Path) -> socket.socket:
    """Fork the process that forks the others, and return the way to it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork():
        theirs.close()
        return ours
    ours.close()
    gc.freeze()
    while True:
        message, descriptors, _, _ = socket.recv_fds(theirs, _MESSAGE_BYTES_MAX, _STREAMS + 1)
        if not message:
            os._exit(0)  # the root is gone
        if not (between := os.fork()):
            wanted = pickle.loads(message)  # noqa: S301 - of the root
            function = partial(_be, theirs, os.getpid(), descriptors, label, *wanted)
            if not os.fork():
                _run(function)
            os._exit(0)
        # Once it is gone its child is the root's.
        os.waitpid(between, 0)
        for descriptor in descriptors:
            os.close(descriptor)


def _be(
    nursery: socket.socket,
    between: int,
    descriptors: Sequence[int],
    label: Path,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    places: Sequence[int],
) -> None:
    while os.getppid() == between:
        time.sleep(0.001)
    nursery.send(b"%d" % os.getpid())
    os.setsid()
    above = [_ABOVE + number for number in range(len(descriptors))]
    for descriptor, place in zip(descriptors, above, strict=True):
        os.dup2(descriptor, place)
    os.closerange(0, _ABOVE)
    for descriptor, place in zip(above, (*range(_STREAMS), *places), strict=True):
        os.dup2(descriptor, place)
        os.close(descriptor)
    _open_streams()
    _hold(label)
    Path("/proc/self/comm").write_text(arguments[0])
    _set_environment(environment)
    sys.path.insert(0, str(Path.cwd()))
    sys.argv = ["rotulus", *arguments]
    runpy.run_module("rotulus", run_name="__main__")


def _run(function: Callable[[], None]) -> NoReturn:
    """Run a function as an interpreter would, and end the process."""
    code: Any = 1
    try:
        function()
        code = 0
    except SystemExit as ended:
        code = ended.code
    except BaseException:  # noqa: BLE001 - what an interpreter does with it
        traceback.print_exc()
    vars(threading)["_shutdown"]()  # as at the end of an interpreter
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code if isinstance(code, int) else code is not None)


def _open_streams() -> None:
    """Have streams of what the descriptors are now, as a new interpreter has."""
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)


def _hold(label: Path) -> None:
    os.open(label, os.O_RDONLY | os.O_CREAT, 0o600)


def _set_environment(environment: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    # Their parent's path is older.
    sys.path[:0] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
