"""Opens what somebody names to be read: a path, or `-` for standard input."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

STDIN: Final = "-"


@contextmanager
def opened_input(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file of bytes and close it; standard input stays open."""
    if os.fspath(path) == STDIN:
        yield sys.stdin.buffer
        return
    with Path(path).open("rb") as file:
        yield file
