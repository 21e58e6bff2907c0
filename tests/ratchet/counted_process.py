"""Runs a process of ours on asyncio's own loop, and notes how many timers the loop has had to set.

    python -m tests.ratchet.counted_process FILE COMMAND ...

The file holds the number as eight bytes; a process that ends while it is read loses nothing.
"""

import asyncio
import os
import runpy
import struct
import sys
from typing import Any

NUMBER = struct.Struct("<q")


def main() -> None:
    """Count the timers of every loop of this process from now on, and become the command."""
    _, file, *command = sys.argv
    fd = os.open(file, os.O_WRONLY | os.O_CREAT)
    os.pwrite(fd, NUMBER.pack(0), 0)
    call_at, timers = asyncio.BaseEventLoop.call_at, 0

    def counted_call_at(*arguments: Any, **options: Any) -> Any:
        nonlocal timers
        timers += 1
        os.pwrite(fd, NUMBER.pack(timers), 0)
        return call_at(*arguments, **options)

    asyncio.BaseEventLoop.call_at = counted_call_at  # type: ignore[method-assign, assignment]
    # uvloop tells nobody of its timers.
    sys.modules["uvloop"] = None  # type: ignore[assignment]
    sys.argv = ["rotulus", *command]
    runpy.run_module("workers", run_name="__main__")


if __name__ == "__main__":
    main()
