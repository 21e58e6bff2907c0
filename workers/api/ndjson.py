"""Cuts a body of newline-delimited JSON into its lines, and keeps no more of it than one line."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a body, without its end."""

    number: int
    """Its place, from 1."""

    size: int
    """Its bytes."""

    content: bytes | None
    """None where it is longer than a line may be."""


class LineSplitter:
    """The lines of one body; of a line that is too long it keeps the size alone."""

    def __init__(self, line_bytes_max: int) -> None:
        self._line_bytes_max = line_bytes_max
        self._number = 1
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> Iterator[Line]:
        """Yield the lines that end in the next piece of the body."""
        start = 0
        while (end := piece.find(b"\n", start)) >= 0:
            self._keep(piece[start:end])
            yield self._line()
            start = end + 1
        self._keep(piece[start:])

    def end(self) -> Iterator[Line]:
        """Yield what stands behind the last newline, if anything does."""
        if self._size:
            yield self._line()

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._line_bytes_max:
            self._parts.clear()
        elif part:
            self._parts.append(part)

    def _line(self) -> Line:
        content = b"".join(self._parts) if self._size <= self._line_bytes_max else None
        line = Line(self._number, self._size, content)
        self._number, self._size = self._number + 1, 0
        self._parts.clear()
        return line
