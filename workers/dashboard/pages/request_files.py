"""Writes requests into files: CSV for spreadsheets, JSON lines for programs.

A text is bounded and cleaned as on a page. A spreadsheet would compute what begins like a formula,
so such a cell begins with an apostrophe, which shows it as text.
"""

import csv
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final, Literal

from kernel.work.request_lists import RequestPage, RequestSummary
from kernel.work.request_search import RequestSearch
from workers.dashboard.sanitize import bound_text

ROWS_MAX: Final = 10_000
"""Requests of one file."""

PAGES_MAX: Final = 100
"""Pages that are read for one file, of which many may have no request that fits."""

CELL_CHARS_MAX: Final = 512

FileForm = Literal["csv", "jsonl"]
MEDIA_TYPES: Final[Mapping[FileForm, str]] = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
}
COLUMNS: Final = (
    "request_sequence",
    "request_id",
    "queue",
    "request_key",
    "item_key",
    "priority",
    "state",
    "enqueued_at",
    "closed_at",
    "reason",
    "tags",
)
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\ufffd")
"""What a spreadsheet takes for the begin of a formula, and what hides such a begin."""

ReadPage = Callable[[RequestSearch, int | None], Awaitable[RequestPage]]


async def request_lines(
    form: FileForm, read: ReadPage, search: RequestSearch, after: int | None
) -> AsyncIterator[bytes]:
    """Yield the lines of a file of the requests that fit, newest first, a page at a time.

    Where there are more than a file has, its last line says behind which number they go on.
    """
    if form == "csv":
        yield _csv_line(COLUMNS)
    rows = 0
    for _ in range(PAGES_MAX):
        page = await read(search, after)
        shown = page.requests[: ROWS_MAX - rows]
        yield b"".join(_LINES[form](cells_of(request)) for request in shown)
        rows += len(shown)
        after = page.next_after if len(shown) == len(page.requests) else shown[-1].request_sequence
        if after is None:
            return
        if rows >= ROWS_MAX:
            break
    rest = {"rows": rows, "next_after": str(after)}
    yield _json_line(rest) if form == "jsonl" else _csv_line([f"more: after={after}"])


def cells_of(request: RequestSummary) -> dict[str, Any]:
    """Return what a file says of a request, with its texts bounded and harmless."""
    tags = {_cell(key): _cell(value) for key, value in request.tags.items()}
    cells = {name: getattr(request, name) for name in COLUMNS}
    return {name: _cell(v) if isinstance(v, str) else v for name, v in cells.items()} | {
        "request_sequence": str(request.request_sequence),
        "tags": tags,
    }


def csv_cell(text: str) -> str:
    """Return a cell that a spreadsheet shows as the text that it is."""
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) else text


def _cell(text: str) -> str:
    return bound_text(text, CELL_CHARS_MAX)


def _of_cells(cells: Mapping[str, Any]) -> bytes:
    tags = " ".join(f"{key}={value}" for key, value in cells["tags"].items())
    return _csv_line([cells[name] or "" for name in COLUMNS[:-1]] + [tags])


def _csv_line(cells: Any) -> bytes:
    line = io.StringIO()
    csv.writer(line, quoting=csv.QUOTE_ALL).writerow([csv_cell(cell) for cell in cells])
    return line.getvalue().encode()


def _json_line(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode() + b"\n"


_LINES: Final[Mapping[FileForm, Callable[[Mapping[str, Any]], bytes]]] = {
    "csv": _of_cells,
    "jsonl": _json_line,
}
