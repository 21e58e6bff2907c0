"""Draws charts of a span of time: its measures as lines, axes in plain words, and a table.

A gap is no part of a line. The picture is a value; the template puts it into SVG, and says by an
element's class what is coloured how.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from typing import Final, NamedTuple

from workers.dashboard.formatting import NONE, duration, number
from workers.views.chart_samples import MEASURES
from workers.views.charts import ChartsDocument, ChartSeries

WIDTH: Final = 360
HEIGHT: Final = 170
LEFT: Final = 52
RIGHT: Final = WIDTH - 10
TOP: Final = 12
BOTTOM: Final = HEIGHT - 24

LINES_MAX: Final = 3
"""Queues that have a line of their own; the others have one together."""

_X_TICKS: Final = 4
_DAY_S: Final = 86_400
_MS: Final = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(1000 * seconds for seconds in (1, 2, 4, 10, 20, 30, 60, 120, 240, 600, 1200, 1800)),
    *(3_600_000 * hours for hours in (1, 2, 4, 8, 12, 24, 48, 96, 240, 480, 960)),
)


class ChartSubject(NamedTuple):
    """A chart: its title, and which measures are its lines."""

    key: str
    title: str
    measures: tuple[str, ...]


OF_ALL: Final = (
    ChartSubject("ready", "Waiting for a worker", ("ready",)),
    ChartSubject("age", "Age of what is served next", ("age",)),
    ChartSubject("done", "Done", ("done",)),
    ChartSubject("failed", "Failed for good", ("failed",)),
    ChartSubject("commit", "Time of a commit", ("commit_median", "commit_p95")),
)
OF_A_QUEUE: Final = (
    ChartSubject("depth", "Waiting and open", ("ready", "open")),
    ChartSubject("age", "Age of what is served next", ("age",)),
    ChartSubject("ended", "Done and failed", ("done", "failed")),
)


class ChartLine(NamedTuple):
    """A line with its name, its way through the picture, and its values in words."""

    label: str
    way: str
    highest: str
    newest: str


class Tick(NamedTuple):
    """A place on an axis, and what it says."""

    at: int
    text: str


class ChartPicture(NamedTuple):
    """Everything that is shown of a chart."""

    key: str
    title: str
    per_point: str
    summary: str
    lines: tuple[ChartLine, ...]
    columns: tuple[Tick, ...]
    rows: tuple[Tick, ...]
    marks: tuple[Tick, ...]
    table: tuple[tuple[str, ...], ...]
    """A row for each step: when it began, and the value of each line."""


@dataclass(frozen=True, slots=True)
class _Values:
    label: str
    points: Sequence[int | None]

    @property
    def known(self) -> list[int]:
        return [point for point in self.points if point is not None]


class Board(NamedTuple):
    """The charts of a page, all of the same span."""

    since: str
    """As a field for a time of a form has it, in UTC."""

    until: str
    charts: tuple[ChartPicture, ...]


def draw(document: ChartsDocument, subjects: Sequence[ChartSubject]) -> Board:
    """Return the charts of these subjects."""
    since, until = map(datetime.fromisoformat, (document["since"], document["until"]))
    return Board(
        _field(since),
        _field(until),
        tuple(_picture(document, subject, since, until) for subject in subjects),
    )


def _field(time: datetime) -> str:
    return time.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds")


def _picture(
    document: ChartsDocument, subject: ChartSubject, since: datetime, until: datetime
) -> ChartPicture:
    measure, step_s = MEASURES[subject.measures[0]], document["step_s"]
    values = _values(document["series"], subject.measures)
    steps = max((len(line.points) for line in values), default=0)
    top = _top(max((max(line.known, default=0) for line in values), default=0), measure.unit)
    span_s = (until - since).total_seconds()
    lines = tuple(
        ChartLine(
            line.label,
            _way(line.points, top),
            _text(max(line.known, default=None), measure.unit),
            _text(next(reversed(line.known), None), measure.unit),
        )
        for line in values
    )
    times = [since + timedelta(seconds=step_s * step) for step in range(steps)]
    marks = [
        Tick(_x((datetime.fromisoformat(mark["at"]) - since).total_seconds() / span_s), words)
        for mark in document["marks"]
        for words in [f"{_when(datetime.fromisoformat(mark['at']), span_s)}: {mark['what']}"]
    ]
    rows = zip_longest(*(line.points for line in values))
    return ChartPicture(
        subject.key,
        subject.title,
        f"{'the sum' if measure.comes_to == 'sum' else 'the highest'} of each {_step(step_s)}",
        _summary(values, times, measure.unit, span_s),
        lines,
        _columns(since, span_s),
        tuple(Tick(_y(value, top), _text(value, measure.unit)) for value in (0, top // 2, top)),
        tuple(mark for mark in marks if LEFT <= mark.at <= RIGHT),
        tuple(
            (_when(time, span_s), *(_text(value, measure.unit) for value in row))
            for time, row in zip(times, rows, strict=True)
        ),
    )


def _values(series: Sequence[ChartSeries], measures: Sequence[str]) -> list[_Values]:
    if len(measures) > 1:
        return [
            _Values(MEASURES[measure].title, each["points"])
            for measure in measures
            for each in series
            if each["measure"] == measure
        ]
    of_queues = [
        _Values(each["queue"] or "", each["points"])
        for each in series
        if each["measure"] == measures[0]
    ]
    if len(of_queues) <= LINES_MAX + 1:
        return of_queues
    of_queues.sort(key=lambda line: -max(line.known, default=0))
    others = of_queues[LINES_MAX:]
    merge = sum if MEASURES[measures[0]].unit == "count" else max
    together = [
        merge(known) if (known := [point for point in step if point is not None]) else None
        for step in zip(*(line.points for line in others), strict=True)
    ]
    return [*of_queues[:LINES_MAX], _Values(f"{len(others)} other queues", together)]


def _x(share: float) -> int:
    return round(LEFT + share * (RIGHT - LEFT))


def _y(value: float, top: int) -> int:
    return round(BOTTOM - value / top * (BOTTOM - TOP))


def _way(points: Sequence[int | None], top: int) -> str:
    """Return the path through the points: a new part behind each gap, a dot for a lone point.

    Each place is told from the one before, as that is shorter.
    """
    way, before, at = [], False, (0, 0)
    for place, point in enumerate(points):
        if point is None:
            before = False
            continue
        to = (_x((place + 0.5) / len(points)), _y(point, top))
        way.append(f"{'l' if before else 'm'}{to[0] - at[0]} {to[1] - at[1]}")
        if not before and (place + 1 == len(points) or points[place + 1] is None):
            way.append("h0")
        before, at = True, to
    return "".join(way)


def _top(highest: int, unit: str) -> int:
    """Return the least even number at or above the highest value, for the end of an axis."""
    if unit == "ms":
        return next((top for top in _MS if top >= max(highest, 2)), highest)
    power: int = 10 ** int(math.log10(max(highest, 1)))
    return next(
        top for top in (2 * power, 4 * power, 6 * power, 8 * power, 10 * power) if top >= highest
    )


def _text(value: int | None, unit: str) -> str:
    if value is None:
        return NONE
    if unit == "count":
        return number(value)
    if unit == "us":
        if value < 1000:
            return f"{value} µs" if value else "0"
        if value < 1_000_000:
            return f"{value / 1000:.1f}".removesuffix(".0") + " ms"
        return duration(value // 1000)
    return duration(value) if value else "0"


def _step(step_s: int) -> str:
    return "second" if step_s == 1 else duration(step_s * 1000).removesuffix(".0 s")


def _columns(since: datetime, span_s: float) -> tuple[Tick, ...]:
    shares = [tick / _X_TICKS for tick in range(_X_TICKS + 1)]
    return tuple(
        Tick(_x(share), _tick(since + timedelta(seconds=span_s * share), span_s))
        for share in shares
    )


def _tick(time: datetime, span_s: float) -> str:
    return time.astimezone(UTC).strftime("%d %b" if span_s > 2 * _DAY_S else "%H:%M")


def _when(time: datetime, span_s: float) -> str:
    minutes = "%H:%M" if time.second == 0 else "%H:%M:%S"
    return time.astimezone(UTC).strftime(minutes if span_s <= _DAY_S else f"%d %b {minutes}")


def _summary(values: Sequence[_Values], times: Sequence[datetime], unit: str, span_s: float) -> str:
    """Return in a sentence what a reader who sees no picture has to know."""
    known = [line for line in values if line.known]
    if not known:
        return "Nobody counted in this time."
    line = max(known, key=lambda each: max(each.known))
    highest = max(line.known)
    when = _when(times[line.points.index(highest)], span_s)
    name = f" ({line.label})" if len(values) > 1 and line.label else ""
    newest = max(each.known[-1] for each in known)
    gaps = sum(all(line.points[step] is None for line in values) for step in range(len(times)))
    sentence = f"Highest {_text(highest, unit)} at {when} UTC{name}, newest {_text(newest, unit)}."
    return f"{sentence} Nobody counted in {gaps} of {len(times)} steps." if gaps else sentence
