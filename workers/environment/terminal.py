"""Draws screens on a terminal, reads its keys, and gives it back as it was."""

import os
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, NamedTuple, TextIO


class ScreenLine(NamedTuple):
    """A line, and how it is marked where there are colours."""

    text: str
    """Printable, and no wider than the terminal."""

    mark: str = ""
    """`head`, `critical`, `warning`, `dim`, or nothing."""


class Size(NamedTuple):
    """How much a terminal shows."""

    columns: int
    lines: int


SIZE_DEFAULT: Final = Size(80, 24)
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l\x1b[?7l", "\x1b[?7h\x1b[?25h\x1b[?1049l"
_MARKS: Final = {
    "head": "\x1b[1m",
    "critical": "\x1b[1;31m",
    "warning": "\x1b[33m",
    "dim": "\x1b[2m",
}


def is_terminal(stream: TextIO) -> bool:
    """Tell whether a stream leads to a terminal that can be drawn on."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


@dataclass(frozen=True, slots=True)
class Terminal:
    """A terminal by the numbers of its files."""

    stdin: int
    stdout: int
    has_colours: bool = True

    @contextmanager
    def screen(self) -> Iterator[None]:
        """Show another screen, and read keys at once, until the block ends."""
        reads_keys = os.isatty(self.stdin)
        before = termios.tcgetattr(self.stdin) if reads_keys else []
        try:
            if reads_keys:
                tty.setcbreak(self.stdin)
            self.write(_ENTER)
            yield
        finally:
            with suppress(OSError):
                self.write(_LEAVE)
            if reads_keys:
                with suppress(termios.error):
                    termios.tcsetattr(self.stdin, termios.TCSADRAIN, before)

    def size(self) -> Size:
        """Return how much it shows now."""
        try:
            size = Size(*os.get_terminal_size(self.stdout))
        except OSError:
            return SIZE_DEFAULT
        return size if min(size) > 0 else SIZE_DEFAULT

    def draw(self, lines: Sequence[ScreenLine]) -> None:
        """Put lines in place of those that it shows."""
        texts = [f"{self._with_mark(line)}\x1b[K" for line in lines]
        self.write("\x1b[H" + "\r\n".join(texts) + "\x1b[J")

    def write(self, text: str) -> None:
        """Write a text as a whole."""
        left = text.encode("utf-8", "backslashreplace")
        while left:
            left = left[os.write(self.stdout, left) :]

    def _with_mark(self, line: ScreenLine) -> str:
        mark = _MARKS.get(line.mark, "") if self.has_colours else ""
        return f"{mark}{line.text}\x1b[0m" if mark else line.text
