"""Computes the times that a cron expression names, in UTC."""

from datetime import UTC, datetime, timedelta
from typing import Final

from cronsim import CronSim, CronSimError

_FIELDS: Final = 5
_ANY_TIME: Final = datetime(2000, 1, 1, tzinfo=UTC)


class CronExpression:
    """Five fields: minute, hour, day of the month, month, day of the week; in UTC."""

    def __init__(self, text: str) -> None:
        """Read an expression.

        Raises:
            ValueError: it is none, or names a time that never comes.
        """
        if len(text.split()) != _FIELDS:
            raise ValueError(f"a cron expression has {_FIELDS} fields, not {text!r}")
        try:
            next(CronSim(text, _ANY_TIME))
        except CronSimError as error:
            raise ValueError(f"{text!r} is no cron expression: {error}") from None
        except StopIteration:
            raise ValueError(f"the time of the cron expression {text!r} never comes") from None
        self._text = text
        self._newest_s, self._next_s = 0, 0

    def newest(self, now_s: float) -> int:
        """Return the newest time that is not after another, in seconds since 1970."""
        if not self._newest_s <= now_s < self._next_s:
            now = datetime.fromtimestamp(int(now_s), UTC)
            newest = next(CronSim(self._text, now + timedelta(seconds=1), reverse=True))
            self._newest_s = int(newest.timestamp())
            self._next_s = int(next(CronSim(self._text, newest)).timestamp())
        return self._newest_s

    def following(self, now_s: float) -> int:
        """Return the first time that is after another, in seconds since 1970."""
        self.newest(now_s)
        return self._next_s
