"""Paces the tries of a worker that cannot reach somebody, and how often it says so."""

from typing import Final

import structlog

SAID_EVERY_S: Final = 60.0

_log = structlog.get_logger(__name__)


class Absence:
    """The tries that failed since one was last reached; times are of one clock of the caller's.

    The pause doubles with each try. However many fail, and however often it comes and goes, a line
    is logged at most once a minute, with the number of tries since the last line.
    """

    def __init__(self, event: str, first_s: float, max_s: float) -> None:
        self.try_at_s = float("-inf")
        """When the next try may be made."""

        self._event, self._first_s, self._max_s = event, first_s, max_s
        self._pause_s = first_s
        self._said_at_s = float("-inf")
        self._tries = 0

    def note_failure(self, now_s: float, error: str, **facts: object) -> None:
        """Note a try that failed."""
        self.pause(now_s)
        self._tries += 1
        if now_s - self._said_at_s >= SAID_EVERY_S:
            _log.warning(self._event, error=error, tries=self._tries, **facts)
            self._said_at_s, self._tries = now_s, 0

    def pause(self, now_s: float) -> None:
        """Put the next try off, without a word."""
        self.try_at_s = now_s + self._pause_s
        self._pause_s = min(self._max_s, 2 * self._pause_s)

    def note_end(self) -> None:
        """Note that it was reached."""
        self._pause_s = self._first_s
        self.try_at_s = float("-inf")
