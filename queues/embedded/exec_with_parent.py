"""Becomes another program that gets SIGTERM when the process that started it is gone.

Run by its file name with a bare interpreter (`python -I -S exec_with_parent.py PARENT_PID PROGRAM
ARGUMENT...`), never imported: asking the kernel between fork and exec from within a process that
has threads can deadlock, a small program of its own cannot. On Linux the wish survives exec; on
other systems the program is simply started.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Replace this process; does not return."""
    parent_pid, program, *options = arguments
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        # The parent may have died before the kernel knew.
        if os.getppid() != int(parent_pid):
            sys.exit(1)
    os.execv(program, [program, *options])  # noqa: S606  # no shell is the point


if __name__ == "__main__":
    main(sys.argv[1:])
