"""Reads times that a reader states, as the record has them."""

from datetime import datetime
from typing import TypeVar

from kernel.values.host import parse_time_us

T = TypeVar("T", bound=datetime | None)


def us_of(moment: datetime | None) -> int | None:
    """Return a time that names its offset in microseconds since the epoch.

    Raises:
        ValueError: its offset puts it beyond the calendar in UTC.
    """
    return None if moment is None else parse_time_us(moment.isoformat())


def in_utc(moment: T) -> T:
    """Return a time that UTC has as well; it validates a field.

    Raises:
        ValueError: as `us_of`.
    """
    us_of(moment)
    return moment
