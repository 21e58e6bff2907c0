"""Declares the time and the randomness that the process hands to the kernel."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache

_US_PER_S = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_WITHOUT_ZONE = datetime(1970, 1, 1)  # noqa: DTZ001 - written out with its Z


_US = timedelta(microseconds=1)
_FIRST_US = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _US
_LAST_US = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _US


@dataclass(frozen=True, slots=True)
class Host:
    """A clock and a source of random bytes."""

    now_us: Callable[[], int]
    """Microseconds since 1970-01-01 UTC."""

    random_bytes: Callable[[int], bytes]
    """Cryptographically strong where ids must not be guessed."""

    def new_id(self) -> str:
        """Return a fresh UUID version 7, which sorts by time."""
        return uuid7(self.now_us(), self.random_bytes(10))


def uuid7(time_us: int, random: bytes) -> str:
    """Build a UUID version 7 from a time and ten random bytes (RFC 9562)."""
    time, text = f"{time_us // 1000:012x}", bytes.hex(random)
    variant = random[2] & 0x3F | 0x80
    return f"{time[:8]}-{time[8:]}-7{text[1:4]}-{variant:02x}{text[6:8]}-{text[8:]}"


@lru_cache(maxsize=64)
def iso_time(time_us: int) -> str:
    """Return ISO 8601 in UTC with microseconds, the precision that is stored.

    One operation writes its times down again and again, so the newest are kept.
    """
    second, rest_us = divmod(time_us, _US_PER_S)
    return f"{_iso_second(second)}.{rest_us:06d}Z"


@lru_cache(maxsize=16)
def _iso_second(second: int) -> str:
    return (_EPOCH_WITHOUT_ZONE + timedelta(seconds=second)).isoformat(timespec="seconds")


def parse_time_us(text: str) -> int:
    """Return the microseconds of an ISO 8601 time that names its offset.

    Raises:
        ValueError: when the text is not such a time, or one that has no year from 1 to 9999 in UTC.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"time without an offset: {text}")
    time_us = (moment - _EPOCH) // _US
    if not _FIRST_US <= time_us <= _LAST_US:
        raise ValueError(f"time beyond the calendar in UTC: {text}")
    return time_us
