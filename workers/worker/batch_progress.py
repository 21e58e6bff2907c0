"""Lets go of what is held for a batch of which nothing was done for a while.

A batch may take long, because its items are worked on one after the other. Whatever works on one
says so by `note_progress`, from any task or thread that the batch has started. A step has a limit
of its own (an extraction 60 s, a gateway's answer 60 s), so a batch that says nothing for
`PROGRESS_S_MAX` hangs where nothing limits it (decision workers/0131).
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

PROGRESS_S_MAX: Final = 90.0


class BatchProgress:
    """When something of a batch was last done."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        """`clock_s` never goes back."""
        self._clock_s = clock_s
        self._moved_s = clock_s()

    @property
    def stalled_s(self) -> float:
        """For how long nothing was done."""
        return self._clock_s() - self._moved_s

    def note(self) -> None:
        """Note that something was done now."""
        self._moved_s = self._clock_s()

    @contextmanager
    def follow(self) -> Iterator[None]:
        """Have `note_progress` note what is done of this batch, in this task and what it starts."""
        token = _FOLLOWED.set(self)
        try:
            yield
        finally:
            _FOLLOWED.reset(token)


_FOLLOWED: ContextVar[BatchProgress | None] = ContextVar("_FOLLOWED", default=None)


def note_progress() -> None:
    """Note that something was done of the batch that this is a part of, if it is of any."""
    followed = _FOLLOWED.get()
    if followed is not None:
        followed.note()
