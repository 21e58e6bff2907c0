"""Puts charts on the pages that have them: of everything on the overview, of a queue on its own."""

from collections.abc import Mapping
from typing import Any, Final

from kernel.values.errors import LedgerUnavailable
from workers.dashboard import chart_picture
from workers.dashboard.chart_picture import OF_A_QUEUE, OF_ALL, Board, draw
from workers.dashboard.pages.source import PageSource
from workers.views.charts import SPANS_S, Span

SPANS: Final[Mapping[Span, str]] = {"hour": "An hour", "day": "A day", "month": "Thirty days"}
POINTS: Final = 60
"""Points of a chart, at most: so many rows has its table."""

POINTS_OF_ALL: Final = 30
"""Points of a chart on the overview, whose first load is bounded."""


def span_of(query: Mapping[str, str]) -> Span:
    """Return the span that a query string states, an hour where it states none."""
    return next((span for span in SPANS_S if span == query.get("span")), "hour")


async def charts_context(
    source: PageSource, query: Mapping[str, str], queue: str | None = None
) -> dict[str, Any]:
    """Return what `pages/charts.html` shows; a ledger that does not answer takes charts alone."""
    span = span_of(query)
    board: Board | None = None
    try:
        points = POINTS_OF_ALL if queue is None else POINTS
        document = await source.charts(queue, span, points)
        board = draw(document, OF_ALL if queue is None else OF_A_QUEUE)
    except LedgerUnavailable:
        board = None
    # The first load of the overview is bounded: its tables are a link away.
    shows_tables = queue is not None or query.get("tables") == "shown"
    context = {"board": board, "span": span, "spans": SPANS, "picture_of": chart_picture}
    return context | {"shows_tables": shows_tables}
