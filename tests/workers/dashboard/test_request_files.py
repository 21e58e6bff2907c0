"""Files of requests: bounded, a page at a time, and nothing that a spreadsheet computes."""

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.work.request_lists import RequestPage, RequestSummary
from kernel.work.request_search import RequestSearch
from workers.dashboard.pages import request_files as module
from workers.dashboard.pages.request_files import COLUMNS, csv_cell, request_lines

pytestmark = pytest.mark.anyio

ALL = RequestSearch()
FORMULAS = ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "  =1", "\x00=1", "\u202e=1")


def summary(number: int, reason: str = "", **tags: str) -> RequestSummary:
    times = ("2026-01-31T12:00:00Z", None)
    return RequestSummary(
        f"r-{number}", number, "q", reason, "i", "p", "open", *times, reason, tags
    )


class Listed:
    """Pages of so many requests, the newest first."""

    def __init__(self, count: int, reason: str = "") -> None:
        self.rows = [summary(number, reason) for number in range(count, 0, -1)]
        self.reads = 0

    async def read(self, _: RequestSearch, after: int | None) -> RequestPage:
        self.reads += 1
        rows = [row for row in self.rows if after is None or row.request_sequence < after]
        page = tuple(rows[:4])
        return RequestPage(page, page[-1].request_sequence if len(rows) > 4 else None, True)


async def file_of(form, listed: Listed, after: int | None = None) -> str:
    return b"".join([line async for line in request_lines(form, listed.read, ALL, after)]).decode()


async def test_every_request_has_a_line_in_either_form():
    text = await file_of("jsonl", Listed(11))
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["request_id"] for line in lines] == [f"r-{n}" for n in range(11, 0, -1)]
    head, *rows = csv.reader(io.StringIO(await file_of("csv", Listed(11))))
    assert tuple(head) == COLUMNS
    assert [row[0] for row in rows] == [str(n) for n in range(11, 0, -1)]
    assert len((await file_of("jsonl", Listed(11), after=3)).splitlines()) == 2
    assert await file_of("jsonl", Listed(0)) == ""


@pytest.mark.parametrize("most", [1, 4, 6, 10])
async def test_a_file_is_bounded_and_says_where_the_rest_begins(monkeypatch, most):
    monkeypatch.setattr(module, "ROWS_MAX", most)
    *lines, last = (await file_of("jsonl", Listed(11))).splitlines()
    assert len(lines) == most
    end = json.loads(last)
    assert end == {"rows": most, "next_after": str(12 - most)}
    rest = await file_of("jsonl", Listed(11), after=int(end["next_after"]))
    assert json.loads(rest.splitlines()[0])["request_id"] == f"r-{11 - most}"
    assert f"more: after={12 - most}" in (await file_of("csv", Listed(11)))
    listed = Listed(most)
    assert "next_after" not in await file_of("jsonl", listed)


async def test_pages_without_a_row_that_fits_are_bounded_too(monkeypatch):
    monkeypatch.setattr(module, "PAGES_MAX", 3)

    async def read(_: RequestSearch, after: int | None) -> RequestPage:
        return RequestPage((), (after or 100) - 1, False)

    lines = [line async for line in request_lines("jsonl", read, ALL, None)]
    assert json.loads(b"".join(lines)) == {"rows": 0, "next_after": "97"}


@pytest.mark.parametrize("text", FORMULAS)
async def test_no_cell_is_a_formula(text):
    listed = Listed(1)
    listed.rows = [summary(1, text, **{text: text})]
    _, row = csv.reader(io.StringIO(await file_of("csv", listed)))
    assert not any(cell.lstrip(" \ufffd").startswith(("=", "+", "-", "@")) for cell in row)
    [line] = (await file_of("jsonl", listed)).splitlines()
    assert "\u202e" not in line
    assert "\\u0000" not in line


@given(st.text(max_size=20))
def test_whatever_a_cell_says_it_stays_what_it_is(text):
    cell = csv_cell(text)
    assert cell in (text, f"'{text}")
    assert not cell.lstrip(" ").startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
