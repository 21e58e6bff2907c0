"""Dates in three fields: the instant, the zone, and the day there (INV-V16-TIMEZONE-1).

The day must be one that the instant can have somewhere on earth, from twelve hours behind UTC to
fourteen ahead. The rules of the zones themselves change from year to year and from machine to
machine, so the record does not depend on them (decision kernel/0025).
"""

import re
from datetime import UTC, date, datetime, timedelta
from typing import Annotated

from pydantic import AfterValidator, Field

_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|\+00:00)")
_ZONE = re.compile(r"[A-Za-z_]+(/[A-Za-z0-9_+-]+){0,2}")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


def _instant(text: str) -> str:
    if not _INSTANT.fullmatch(text):
        raise ValueError("an instant in UTC, such as 2026-02-09T17:00:00Z")
    datetime.fromisoformat(text)
    return text


def _zone(text: str) -> str:
    if not _ZONE.fullmatch(text):
        raise ValueError("the name of a time zone, such as America/New_York")
    return text


def _day(text: str) -> str:
    if not _DAY.fullmatch(text):
        raise ValueError("a calendar date, such as 2026-02-09")
    date.fromisoformat(text)
    return text


UNKNOWN_ZONE = "Etc/Unknown"
"""The zone of a docket that states days and no zone."""

Instant = Annotated[str, AfterValidator(_instant)]
Zone = Annotated[str, AfterValidator(_zone)]
Day = Annotated[str, Field(json_schema_extra={"format": "date"}), AfterValidator(_day)]


def check_same_day(instant: str, day: str) -> None:
    """Refuse a day that the instant has at no offset.

    Raises:
        ValueError: when no offset gives that day.
    """
    moment = datetime.fromisoformat(instant).astimezone(UTC)
    try:
        earliest = (moment - timedelta(hours=12)).date()
        latest = (moment + timedelta(hours=14)).date()
    except OverflowError as error:
        raise ValueError("a date beyond the calendar") from error
    if not earliest <= date.fromisoformat(day) <= latest:
        raise ValueError(f"{instant} is not on {day} anywhere")


def day_fields(name: str, day: str) -> dict[str, str]:
    """Return the three fields of a date of which only the day is known."""
    return {
        f"{name}_utc": f"{day}T12:00:00Z",
        f"{name}_originating_tz": UNKNOWN_ZONE,
        f"{name}_originating_calendar_date": day,
    }
