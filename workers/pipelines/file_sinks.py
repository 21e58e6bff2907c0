"""Writes files as sinks: each write replaces what stands behind its position, under a lock.

A run replaces what a file held before it. Rows that a killed process wrote and did not confirm are
cut off and written again, so a file has each row once, in the order of the record. A file that has
become shorter than the record says is not written.
"""

import base64
import csv
import fcntl
import hashlib
import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

from kernel.landscape.canonical_types import typed_data
from workers.pipelines.engine.sinks import SinkItem, SinkWritten

_OPEN = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK


class SinkFileError(Exception):
    """A file is not as the record says, or another process writes it."""


def _as_base64(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__qualname__} has no form in JSON")


def _plain_json(value: Any) -> str:
    """Return JSON as any reader expects it: numbers are numbers, bytes are base64."""
    return json.dumps(
        value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_as_base64
    )


JsonForm = Literal["plain", "canonical"]

_FORMS: Mapping[str, Callable[[Any], bytes]] = {
    "plain": lambda row: _plain_json(row).encode(),
    "canonical": typed_data,
}


class JsonLinesSink:
    """A file of rows as JSON, a line each.

    In the form `plain`, numbers of any size are numbers and bytes are base64. The form `canonical`
    is that of the record: keys are sorted, and `{"__bytes__": …}`, `{"__float__": …}` and
    `{"__integer__": …}` keep what plain JSON would give back as another type.
    """

    version = "2"

    def __init__(self, path: str | os.PathLike[str], form: JsonForm = "plain") -> None:
        self._path = Path(path)
        self._form = form
        self._line = _FORMS[form]

    @property
    def config(self) -> Mapping[str, Any]:
        """What a run records of it."""
        return {"path": str(self._path), "form": self._form}

    def write(self, items: Sequence[SinkItem], position: int) -> SinkWritten:
        """Write a line for each item behind a position of the file, durably."""
        content = b"".join(self._line(item.row) + b"\n" for item in items)
        return _write_part(self._path, content, position)


class CsvSink:
    """A file of comma-separated values: the named columns of each row, under their names.

    A text is written as it is, null as nothing, bytes as base64, and everything else as JSON.
    """

    version = "2"

    def __init__(self, path: str | os.PathLike[str], columns: Sequence[str]) -> None:
        self._path = Path(path)
        self._columns = tuple(columns)

    @property
    def config(self) -> Mapping[str, Any]:
        """What a run records of it."""
        return {"path": str(self._path), "columns": list(self._columns)}

    def write(self, items: Sequence[SinkItem], position: int) -> SinkWritten:
        """Write a line for each item behind a position of the file, durably."""
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        if position == 0:
            writer.writerow(self._columns)
        writer.writerows([_cell(item.row.get(name)) for name in self._columns] for item in items)
        return _write_part(self._path, text.getvalue().encode(), position)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return _as_base64(value) if isinstance(value, bytes) else _plain_json(value)


def _write_part(path: Path, content: bytes, position: int) -> SinkWritten:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(_Opened(path)) as file:
        file.replace(content, position)
    digest = hashlib.sha256(content).hexdigest()
    return SinkWritten(position + len(content), str(path), digest, len(content))


class _Opened:
    """A file that is open under its lock."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = os.open(path, _OPEN, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise SinkFileError(f"{path}: another process is writing it") from None

    def replace(self, content: bytes, position: int) -> None:
        """Write content in place of everything behind a position."""
        size = os.fstat(self._fd).st_size
        if size < position:
            message = f"{self._path} has {size} bytes, and the record says {position}"
            raise SinkFileError(message)
        os.ftruncate(self._fd, position)
        rest = memoryview(content)
        while rest:
            count = os.pwrite(self._fd, rest, position)
            rest, position = rest[count:], position + count
        os.fsync(self._fd)
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def close(self) -> None:
        """Give the lock back."""
        os.close(self._fd)
