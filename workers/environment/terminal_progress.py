"""Shows progress on a terminal as one line that changes, elsewhere as a line now and then."""

import sys
import time
from types import TracebackType
from typing import Self, TextIO

from workers.environment.output import printable_line, say, write_raw

BAR_CHARS = 24
REPAINT_EVERY_S = 0.1
LINE_EVERY_S = 5.0


class Progress:
    """One step of a longer job; use as a context manager and `show` what is going on."""

    def __init__(self, title: str, stream: TextIO | None = None) -> None:
        self._title = title
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._started_s = time.monotonic()
        self._shown_s = self._started_s
        self._text = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._terminal:
            write_raw("\r\x1b[K", self._stream)
        if kind is None and self._text:
            say(f"  {self._title}: {self._text} ({self.elapsed_s:.1f} s)", stream=self._stream)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the step began."""
        return time.monotonic() - self._started_s

    def count(self, done: int, total: int, unit: str = "rows") -> None:
        """Say how many of how many are done, and how long the others take at this rate."""
        left_s = self.elapsed_s / done * (total - done) if done else 0.0
        left = f", {left_s:.0f} s left" if 0 < done < total else ""
        self.show(f"{bar(done, total)} {unit}{left}")

    def show(self, text: str) -> None:
        """Say how far it is; may be called as often as one likes."""
        self._text = text
        now_s = time.monotonic()
        if now_s - self._shown_s < (REPAINT_EVERY_S if self._terminal else LINE_EVERY_S):
            return
        self._shown_s = now_s
        before, after = ("\r\x1b[K", "") if self._terminal else ("", "\n")
        write_raw(f"{before}  {printable_line(f'{self._title}: {text}')}{after}", self._stream)


def bar(done: int, total: int) -> str:
    """Return how much of a whole is done, as a bar and in numbers."""
    filled = min(BAR_CHARS, BAR_CHARS * done // max(1, total))
    return f"[{'#' * filled}{'.' * (BAR_CHARS - filled)}] {done}/{total}"
