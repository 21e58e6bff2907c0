"""Turns numbers into the words of the page, so that server and script never format twice."""

from datetime import UTC, datetime

NONE = "–"
_NARROW = "\u202f"
_DATED_S = 90 * 86_400
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def number(value: int) -> str:
    """Return the number with its thousands set apart."""
    return f"{value:,}".replace(",", _NARROW)


def rate(per_s: float) -> str:
    """Return a rate with one decimal below ten, none above."""
    return f"{per_s:.1f}" if per_s < 10 else number(round(per_s))


def duration(span_ms: int | None) -> str:
    """Return a span in its two largest fitting units; a negative one counts as nothing left."""
    if span_ms is None:
        return NONE
    if span_ms < 1_000:
        return f"{max(span_ms, 0)} ms"
    seconds = span_ms // 1_000
    if seconds < 60:
        return f"{span_ms / 1_000:.1f} s" if seconds < 10 else f"{seconds} s"
    if seconds < 3_600:
        return _two(seconds, 60, "min", "s")
    if seconds < 86_400:
        return _two(seconds // 60, 60, "h", "min")
    return _two(seconds // 3_600, 24, "d", "h")


def iso(moment: datetime) -> str:
    """Return the moment in UTC, to the millisecond, as ISO 8601 with Z."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def exact_time(moment: datetime) -> str:
    """Return the moment in UTC, to the second, as pages show it beside its age."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def clock_time(moment: datetime, today: datetime) -> str:
    """Return the time of day in UTC, with the date when it is not today's."""
    utc = moment.astimezone(UTC)
    same_day = utc.date() == today.astimezone(UTC).date()
    return utc.strftime("%H:%M:%S" if same_day else "%Y-%m-%d %H:%M:%S")


def ago(then: datetime, now: datetime) -> str:
    """Return how long ago a time was, in one unit; its date where that is long ago."""
    then = then if then.tzinfo else then.replace(tzinfo=UTC)
    seconds = int((now - then).total_seconds())
    if abs(seconds) >= _DATED_S:
        return then.astimezone(UTC).date().isoformat()
    unit_s, unit = next((row for row in _UNITS if abs(seconds) >= row[0]), _UNITS[-1])
    span = f"{abs(seconds) // unit_s} {unit}"
    if abs(seconds) < _UNITS[-1][0]:
        return "now"
    return f"in {span}" if seconds < 0 else f"{span} ago"


def _two(small: int, per_large: int, large_unit: str, small_unit: str) -> str:
    large, remainder = divmod(small, per_large)
    return (
        f"{large} {large_unit} {remainder} {small_unit}" if remainder else f"{large} {large_unit}"
    )
