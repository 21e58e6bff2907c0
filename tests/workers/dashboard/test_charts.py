"""Charts on pages: lines with gaps, axes in words, the same numbers as a table, and a form."""

import re
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markupsafe import escape

from kernel.ledger.chart_blocks import MINUTES, SECONDS, ChartBlock, put_blocks
from kernel.ledger.ledger import Ledger
from kernel.work.contents import BINDING_QUEUE
from tests.workers.api.door import Door
from workers.dashboard import chart_picture
from workers.dashboard.chart_picture import (
    BOTTOM,
    LEFT,
    LINES_MAX,
    OF_A_QUEUE,
    OF_ALL,
    RIGHT,
    TOP,
    ChartPicture,
    draw,
)
from workers.dashboard.pages.page import templates
from workers.views.chart_samples import MEASURES, SampleBlock, Series
from workers.views.charts import ChartMark, ChartsDocument

US = 1_000_000
HOSTILE = "<script>alert(1)</script>"
MOVE = re.compile(r"([ml])(-?\d+) (-?\d+)")


def places_of(way: str) -> list[tuple[int, int]]:
    places, at = [], (0, 0)
    for _, right, down in MOVE.findall(way):
        at = (at[0] + int(right), at[1] + int(down))
        places.append(at)
    return places


def document(
    points: dict[Series, list[int | None]], marks: list[ChartMark] | None = None
) -> ChartsDocument:
    count = max(map(len, points.values()), default=1)
    return {
        "since": "2026-03-14T10:00:00+00:00",
        "until": f"2026-03-14T10:{count:02}:00+00:00",
        "step_s": 60,
        "series": [
            {
                "measure": measure,
                "queue": queue or None,
                "comes_to": MEASURES[measure].comes_to,
                "unit": MEASURES[measure].unit,
                "points": values,
            }
            for (measure, queue), values in points.items()
        ],
        "marks": marks or [],
    }


def ready(points: dict[Series, list[int | None]]) -> ChartPicture:
    return draw(document(points), OF_ALL).charts[0]


CHARTS_BYTES_MAX = 14_500
"""What the charts of an overview may have of its first load, when all of their time was counted."""


def drawn(chart: ChartPicture, *, shows_tables: bool = True) -> str:
    shown = templates().from_string(
        "{% from 'pages/charts.html' import charts %}"
        "{{ charts('.', board, 'hour', {'hour': 'An hour'}, about, shows_tables) }}"
    )
    board = draw(document({}), ())._replace(charts=(chart,))
    return shown.render(board=board, about=chart_picture, shows_tables=shows_tables)


def test_a_gap_ends_a_line_and_a_lone_point_is_a_dot():
    chart = ready({("ready", "q"): [0, 10, None, 5, None, 7, 8]})
    [line] = chart.lines
    assert [move for move, *_ in MOVE.findall(line.way)] == ["m", "l", "m", "m", "l"]
    assert line.way.count("h0") == 1
    assert [row[1] for row in chart.table] == ["0", "10", "–", "5", "–", "7", "8"]
    assert chart.summary == "Highest 10 at 10:01 UTC, newest 8. Nobody counted in 2 of 7 steps."


def test_nothing_counted_is_said_and_not_drawn():
    chart = ready({("ready", "q"): [None, None]})
    assert (chart.lines[0].way, chart.summary) == ("", "Nobody counted in this time.")
    assert ready({}).lines == ()


@settings(max_examples=40)
@given(st.lists(st.none() | st.integers(0, 10**12), min_size=1, max_size=30))
def test_every_point_is_inside_the_axes_and_higher_where_it_is_more(points: list[int | None]):
    for subject in OF_ALL:
        measure = subject.measures[0]
        [chart] = draw(document({(measure, "q"): points}), [subject]).charts
        places = places_of(chart.lines[0].way)
        known = [point for point in points if point is not None]
        assert len(places) == len(known)
        assert all(LEFT <= x <= RIGHT and TOP <= y <= BOTTOM for x, y in places)
        assert all(before < after for (before, _), (after, _) in pairwise(places))
        ordered = sorted(zip(known, places, strict=True))
        assert all(low[1][1] >= high[1][1] for low, high in pairwise(ordered))


def test_many_queues_are_a_few_lines_and_the_others_together():
    queues = {("ready", f"q{number}"): [number, None] for number in range(9)}
    chart = ready(queues)
    assert [line.label for line in chart.lines] == ["q8", "q7", "q6", "6 other queues"]
    assert len(chart.lines) == LINES_MAX + 1
    assert chart.table[0][1:] == ("8", "7", "6", str(0 + 1 + 2 + 3 + 4 + 5))
    ages = {("age", f"q{number}"): [number] for number in range(9)}
    assert draw(document(ages), OF_ALL).charts[1].table[0][-1] == "5 ms"


def test_a_queue_has_its_measures_as_lines():
    series: dict[Series, list[int | None]] = {
        (measure, "q"): [1, 2] for measure in ("ready", "open", "age", "done", "failed")
    }
    depth, age, ended = draw(document(series), OF_A_QUEUE).charts
    assert [line.label for line in depth.lines] == ["Ready to be claimed", "Open requests"]
    assert len(age.lines) == 1
    assert ended.per_point == "the sum of each 1 min"


def test_a_picture_has_a_name_a_summary_and_its_numbers_and_shows_markup_as_text():
    marks: list[ChartMark] = [
        {"at": "2026-03-14T10:01:00+00:00", "what": HOSTILE, "queue": None},
        {"at": "2026-03-14T09:00:00+00:00", "what": "before", "queue": None},
    ]
    points: dict[Series, list[int | None]] = {("ready", HOSTILE): [1, 2], ("ready", "b"): [0, 1]}
    chart = draw(document(points, marks), OF_ALL).charts[0]
    assert len(chart.marks) == 1
    html = drawn(chart)
    assert "<script" not in html
    assert html.count("&lt;") >= 3
    assert "style=" not in html
    [picture, *_] = re.findall(r"<svg viewBox.*?</svg>", html, re.DOTALL)
    svg = ET.fromstring(picture)  # noqa: S314 - our own
    assert (svg.get("role"), svg.get("aria-labelledby")) == ("img", "t-ready d-ready")
    assert svg[0].text == chart.title
    assert f'id="d-ready">{escape(chart.summary)}</p>' in html
    table = re.findall(r'<th scope="row">([^<]+)<td>([^<]+)<td>([^<]+)', html)
    assert [tuple(cell.strip() for cell in row) for row in table] == [*chart.table]
    assert '<caption class="hush">' in html
    assert 'name="since"' in html
    assert 'name="until"' in html


def test_the_charts_of_many_queues_leave_room_in_a_first_load():
    points: dict[Series, list[int | None]] = {
        (measure, f"a-queue-of-a-plug-in-{number}"): [1_000_000 + number] * 30
        for measure in ("ready", "age", "done", "failed")
        for number in range(64)
    }
    points |= {(measure, ""): [1_234_567] * 30 for measure in ("commit_median", "commit_p95")}
    board = draw(document(points), OF_ALL)
    html = "".join(drawn(chart, shows_tables=False) for chart in board.charts)
    assert len(html.encode()) < CHARTS_BYTES_MAX


def count_a_minute(ledger: Ledger) -> None:
    """Have the ledger say that some was counted in the last minutes, as a gateway writes it."""
    began_s = SECONDS.start_of(ledger.host.now_us() // US - 120)
    seconds = SampleBlock(SECONDS, began_s)
    minutes = SampleBlock(MINUTES, MINUTES.start_of(began_s))
    of_queue = [("ready", BINDING_QUEUE), ("done", BINDING_QUEUE)]
    of_ledger = {("commits", ""): 1, ("commit_p95", ""): 2500}
    for second in range(SECONDS.samples):
        seconds.put(began_s + second, dict.fromkeys(of_queue, second) | of_ledger)
    minutes.put(began_s, {("ready", BINDING_QUEUE): 14, ("done", BINDING_QUEUE): 105} | of_ledger)
    with ledger.transaction() as transaction:
        put_blocks(
            transaction,
            [
                ChartBlock(each.resolution.sample_s, 0, each.began_s, each.to_bytes())
                for each in (seconds, minutes)
            ],
        )


@pytest.mark.anyio
async def test_pages_show_what_was_counted_and_other_spans_by_links(door: Door):
    count_a_minute(door.ledger)
    overview = (await door.http.get("/")).text
    assert overview.count("<figure") == len(OF_ALL)
    assert "Highest 14 at" in overview
    assert "Highest 2.5 ms at" in overview
    assert '<div class="numbers"' not in overview
    assert '"?span=hour&amp;tables=shown#charts"' in overview
    with_tables = (await door.http.get("/?tables=shown")).text
    assert with_tables.count('<div class="numbers"') == len(OF_ALL)
    page = (await door.http.get(f"/queues/{BINDING_QUEUE}?span=day")).text
    assert page.count("<figure") == len(OF_A_QUEUE)
    assert 'href="?span=hour#charts"' in page
    assert '<strong aria-current="true">A day</strong>' in page
    other = (await door.http.get("/queues/extraction-transition?span=nonsense")).text
    assert other.count("Nobody counted in this time.") == len(OF_A_QUEUE)
    answer = (await door.http.get("/v1/charts", params={"queue": BINDING_QUEUE})).json()
    assert {series["measure"] for series in answer["series"]} == {"ready", "done"}
    assert sum(filter(None, answer["series"][1]["points"])) == sum(range(15))
