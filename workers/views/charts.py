"""Shows what gateways counted: a point for each step of a span of time, and what happened then.

A step is so long that a chart has some hundreds of points however long its span is. Steps begin at
whole multiples of their length, so the same time lies in the same step of the next chart.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from typing_extensions import TypedDict

from kernel.ledger.chart_blocks import (
    MINUTES,
    RESOLUTIONS,
    SECONDS,
    ChartResolution,
    blocks_between,
)
from kernel.records.access.readable_view import ReadableView
from kernel.values.host import iso_time
from kernel.work.pauses import pauses_of
from workers.views.chart_samples import GAP, MEASURES, PackedBlock, Series, combine

Span = Literal["hour", "day", "month"]
SPANS_S: Final[dict[Span, int]] = {"hour": 3600, "day": 86_400, "month": 30 * 86_400}
MeasureName = Literal[
    "ready", "open", "age", "done", "failed", "commits", "commit_median", "commit_p95"
]

POINTS_MAX: Final = 240
MARKS_MAX: Final = 50
_STEPS_S: Final = (
    *(1, 2, 5, 15, 30),
    *(60, 120, 360, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400),
)
_US: Final = 1_000_000


class ChartSeries(TypedDict):
    """A number at each step; null where nobody counted."""

    measure: str
    queue: str | None
    """Null for what is counted of the ledger."""

    comes_to: str
    """What a point is of the samples of its step: their `highest`, `sum` or `mean`."""

    unit: str
    points: list[int | None]


class ChartMark(TypedDict):
    """What happened in the span: the gateway began again, or a pause began that still stands."""

    at: str
    what: str
    queue: str | None


class ChartsDocument(TypedDict):
    """The charts of a span of time; the first point is of the step that begins at `since`."""

    since: str
    until: str
    step_s: int
    series: list[ChartSeries]
    marks: list[ChartMark]


def step_of(span_s: int, points_max: int = POINTS_MAX) -> int:
    """Return the length of a step of a span, in seconds."""
    fitting = (step for step in _STEPS_S if span_s <= step * points_max)
    return next(fitting, _STEPS_S[-1])


def _coarsest(step_s: int) -> ChartResolution:
    """Return the resolution of which a step needs the fewest samples."""
    return max(each for each in RESOLUTIONS.values() if step_s % each.sample_s == 0)


def charts(
    view: ReadableView,
    now_us: int,
    *,
    since_us: int,
    until_us: int,
    queue: str | None = None,
    measure: str | None = None,
    points_max: int = POINTS_MAX,
) -> ChartsDocument:
    """Return what was counted in a span, of which at most the last thirty days are shown."""
    # A step that has not ended, or is not written yet, would look as if less was done in it.
    end_s = min(until_us // _US, now_us // _US - SECONDS.block_s - 1)
    since_s = max(since_us // _US, end_s - SPANS_S["month"])
    step_s = step_of(max(end_s - since_s, 1), points_max)
    if since_s < now_us // _US - SECONDS.kept_s:
        step_s = max(step_s, MINUTES.sample_s)
    resolution = _coarsest(step_s)
    since_s -= since_s % step_s
    count = max((end_s - since_s) // step_s, 1)
    until_s = since_s + count * step_s
    blocks = [
        PackedBlock(resolution, block.began_s, block.samples)
        for block in blocks_between(view, resolution, since_s, until_s)
    ]
    of_series = defaultdict[Series, dict[int, list[int]]](lambda: defaultdict(list))
    for block in blocks:
        for key in block.series:
            if _is_asked(key, queue, measure):
                steps = of_series[key]
                for step, samples in _in_steps(block, key, since_s, step_s):
                    if 0 <= step < count:
                        steps[step].extend(samples)
    return {
        "since": iso_time(since_s * _US),
        "until": iso_time(until_s * _US),
        "step_s": step_s,
        "series": [_series(key, of_series[key], count) for key in sorted(of_series, key=_place_of)],
        "marks": _marks(view, blocks, since_s, until_s, queue)[:MARKS_MAX],
    }


def _is_asked(key: Series, queue: str | None, measure: str | None) -> bool:
    name, of_queue = key
    is_known = name in MEASURES and MEASURES[name].of_queue == bool(of_queue)
    return is_known and queue in (None, of_queue) and measure in (None, name)


def _place_of(key: Series) -> tuple[int, str]:
    return [*MEASURES].index(key[0]), key[1]


def _in_steps(
    block: PackedBlock, key: Series, since_s: int, step_s: int
) -> Iterator[tuple[int, Sequence[int]]]:
    """Yield the samples of a block by the step that each stretch of them lies in."""
    samples, sample_s = block.samples(key), block.resolution.sample_s
    per_step, offset = step_s // sample_s, (block.began_s - since_s) // sample_s
    start = 0
    while start < len(samples):
        step = (offset + start) // per_step
        end = min((step + 1) * per_step - offset, len(samples))
        yield step, samples[start:end]
        start = end


def _series(key: Series, steps: dict[int, list[int]], count: int) -> ChartSeries:
    name, queue = key
    points = [combine(name, steps.get(step, ())) for step in range(count)]
    return {
        "measure": name,
        "queue": queue or None,
        "comes_to": MEASURES[name].comes_to,
        "unit": MEASURES[name].unit,
        "points": [None if point == GAP else point for point in points],
    }


def _marks(
    view: ReadableView, blocks: list[PackedBlock], since_s: int, until_s: int, queue: str | None
) -> list[ChartMark]:
    marks: list[ChartMark] = []
    starts = sorted(
        {(block.running_since_s, block.version) for block in blocks if block.running_since_s}
    )
    for began_s, version in starts:
        if since_s <= began_s < until_s:
            what = f"a gateway of version {version} began"
            marks.append({"at": iso_time(began_s * _US), "what": what, "queue": None})
    for pause in pauses_of(view):
        if queue in (None, pause.queue) and iso_time(since_s * _US) <= pause.paused_at:
            what = f"{pause.priority or 'all'} of {pause.queue} paused"
            marks.append({"at": pause.paused_at, "what": what, "queue": pause.queue})
    return sorted(marks, key=lambda mark: mark["at"])
