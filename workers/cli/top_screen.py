"""Lays out the screen of `rotulus top`: the dashboard's snapshot as lines of a terminal.

Rules:

1. What needs somebody comes first, then a row for each queue, those in trouble first, whose counts
   add up, then the workers. Nothing is said by a colour alone.
2. No line is wider and no screen is higher than the terminal: columns of less weight, then rows are
   left out, and what is left out is counted.
3. Whatever answers may say anything, so a picture is held against its form, and each text of it is
   shown as `printable_line` shows it.
"""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Generic, TypeVar

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from workers.client.errors import GatewayError
from workers.environment.output import printable_line
from workers.environment.terminal import ScreenLine, Size
from workers.views.attention_items import AttentionItem

T = TypeVar("T")

COLUMNS_MAX: Final = 10_000
ATTENTION_SHARE: Final = 3
"""What needs somebody takes at most one line in so many while there is more to show."""

NAME_WIDTH_MIN: Final = 8
_ROWS_MAX: Final = 1_000
_Count = Annotated[int, Field(ge=0, le=10**15)]
_Text = Annotated[str, Field(max_length=10_000)]
_Rate = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]


class _Priority(TypedDict):
    name: _Text
    target_ms: _Count | None
    ready: _Count
    oldest_ms: _Count | None


class _Queue(TypedDict):
    name: _Text
    priorities: Annotated[list[_Priority], Field(max_length=_ROWS_MAX)]
    suspended: _Count
    delayed: _Count
    in_flight: _Count
    dead: _Count
    open: _Count | None
    held: _Count | None
    pauses: Annotated[list[_Text], Field(max_length=_ROWS_MAX)]
    completed_per_s: _Rate


class _Worker(TypedDict):
    worker_id: _Text
    slots: _Count
    completed: _Count
    failed: _Count
    in_flight: _Count
    seen_ms: int
    state: _Text


class _Workers(TypedDict):
    workers: Annotated[list[_Worker], Field(max_length=_ROWS_MAX)]
    total: _Count


class _Ledger(TypedDict):
    sequence: _Text
    rows_per_s: _Rate


class _Part(TypedDict, Generic[T]):
    value: T | None
    error: _Text | None


class TopPicture(TypedDict):
    """What is read of a snapshot."""

    time: datetime
    attention: _Part[Annotated[list[AttentionItem], Field(max_length=_ROWS_MAX)]]
    queues: _Part[Annotated[list[_Queue], Field(max_length=_ROWS_MAX)]]
    workers: _Part[_Workers]
    ledger: _Part[_Ledger]


_FORM: Final = TypeAdapter(TopPicture)

_HEAD: Final = ("queue", "open", "ready", "held", "delayed", "suspended", "in flight", "dead")
_WEIGHTLESS: Final = ("oldest", "done/s", "suspended", "delayed", "held", "state", "in flight")
"""Columns that are left out where there is no room for them, the first ones first."""


def picture_of(answer: Any) -> TopPicture:
    """Return what is shown of an answer.

    Raises:
        GatewayError: it is no snapshot.
    """
    try:
        return _FORM.validate_python(answer)
    except ValidationError as error:
        place = ".".join(map(str, error.errors(include_input=False)[0]["loc"]))[:200]
        message = f"the answer is no snapshot: {place or 'no object'}"
        raise GatewayError("gateway_failed", message) from None


def screen(picture: TopPicture, size: Size, about: str, foot: str = "") -> list[ScreenLine]:
    """Return the lines of a screen.

    Args:
        picture: what is shown.
        size: no line is wider, and there are no more lines.
        about: where it comes from and how fresh it is, for the first line.
        foot: the last line; without one there is none.
    """
    last = [ScreenLine(foot, "dim")] if foot else []
    room = size.lines - len(last)
    queues, workers = [*_queue_lines(picture, size)], [*_worker_lines(picture, size)]
    behind = len(queues) + len(workers)
    first = _head_lines(picture, about)
    share = max(room - behind - len(first), room // ATTENTION_SHARE, 2)
    lines = [*first, *_attention_lines(picture, share), *queues, *workers]
    if len(lines) > room:
        hidden = len(lines) - room + 1
        lines = [*lines[: max(room - 1, 0)], ScreenLine(f"({hidden} more lines)", "dim")]
    return [ScreenLine(cut(line.text, size.columns), line.mark) for line in (*lines[:room], *last)]


def cut(text: str, columns: int) -> str:
    """Return a line of text that is no wider than so many columns."""
    text = printable_line(text).replace("\t", " ")
    if text.isascii() and len(text) <= columns:
        return text
    width = 0
    for place, each in enumerate(text):
        width += _width(each)
        if width > columns:
            return _cut_at(text[:place], columns)
    return text


def _cut_at(text: str, columns: int) -> str:
    """Take from the end of a text until an ellipsis has room behind it."""
    while text and sum(map(_width, text)) > columns - 1:
        text = text[:-1]
    return f"{text}…" if columns else ""


def _width(each: str) -> int:
    if unicodedata.combining(each):
        return 0
    return 2 if unicodedata.east_asian_width(each) in ("W", "F") else 1


def _head_lines(picture: TopPicture, about: str) -> list[ScreenLine]:
    ledger, workers = picture["ledger"]["value"], picture["workers"]["value"]
    said = [f"{picture['time']:%H:%M:%S} UTC"]
    if ledger is not None:
        said += [f"row {ledger['sequence']}", f"{ledger['rows_per_s']:.1f} rows/s"]
    if workers is not None:
        late = sum(worker["state"] != "alive" for worker in workers["workers"])
        said.append(f"{workers['total'] - late} of {workers['total']} workers alive")
    away = [
        f"{name} not read: {part['error']}"
        for name in ("ledger", "queues", "workers")
        if (part := _part(picture, name))["error"] is not None
    ]
    return [
        ScreenLine(f"rotulus  {about}", "head"),
        ScreenLine(", ".join([*said, *away])),
        ScreenLine(""),
    ]


def _part(picture: TopPicture, name: str) -> Mapping[str, Any]:
    part: Mapping[str, Any] = picture[name]  # type: ignore[literal-required]
    return part


def _attention_lines(picture: TopPicture, lines_max: int) -> Iterator[ScreenLine]:
    items = picture["attention"]["value"] or []
    if not items:
        yield ScreenLine("Nothing needs attention.")
    shown = items if len(items) < lines_max else items[: max(lines_max - 2, 1)]
    for item in shown:
        since = "" if item.since is None else f", for {_age(item.since, picture['time'])}"
        action = "" if item.action is None else f": {item.action.command}"
        yield ScreenLine(f"{item.severity:8}  {item.sentence}{since}{action}", item.severity)
    if len(shown) < len(items):
        yield ScreenLine(f"          and {len(items) - len(shown)} more: rotulus status", "dim")
    yield ScreenLine("")


def _age(since: str, now: datetime) -> str:
    try:
        seconds = max(0.0, (now - datetime.fromisoformat(since)).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return "an unknown time"
    for length, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def _queue_lines(picture: TopPicture, size: Size) -> Iterator[ScreenLine]:
    queues = picture["queues"]["value"]
    if queues is None:
        return
    urgent = [item.subject.name.split(" ")[0] for item in picture["attention"]["value"] or []]
    place = {name: at for at, name in reversed([*enumerate(urgent)])}
    ordered = sorted(
        queues,
        key=lambda queue: (place.get(queue["name"], len(urgent)), -(queue["open"] or 0)),
    )
    rows = [_queue_row(queue) for queue in ordered]
    yield from _table([*_HEAD, "done/s", "oldest", "state"], rows, size.columns)
    yield ScreenLine("")


def _queue_row(queue: _Queue) -> dict[str, str]:
    ready = sum(priority["ready"] for priority in queue["priorities"])
    ages = [each["oldest_ms"] for each in queue["priorities"] if each["oldest_ms"] is not None]
    is_late = any(
        each["target_ms"] is not None and (each["oldest_ms"] or 0) > each["target_ms"]
        for each in queue["priorities"]
    )
    states = (("paused", bool(queue["pauses"])), ("late", is_late), ("dead", queue["dead"] > 0))
    return {
        "queue": queue["name"],
        "open": _number(queue["open"]),
        "ready": _number(ready),
        "held": _number(queue["held"]),
        "delayed": _number(queue["delayed"]),
        "suspended": _number(queue["suspended"]),
        "in flight": _number(queue["in_flight"]),
        "dead": _number(queue["dead"]),
        "done/s": f"{queue['completed_per_s']:.1f}",
        "oldest": f"{max(ages) / 1000:.1f} s" if ages else "-",
        "state": " ".join(name for name, holds in states if holds) or "well",
    }


def _worker_lines(picture: TopPicture, size: Size) -> Iterator[ScreenLine]:
    fleet = picture["workers"]["value"]
    if fleet is None:
        return
    rows = [
        {
            "worker": worker["worker_id"],
            "state": worker["state"],
            "in hand": _number(worker["in_flight"]),
            "slots": _number(worker["slots"]),
            "done": _number(worker["completed"]),
            "failed": _number(worker["failed"]),
            "seen": f"{max(worker['seen_ms'], 0) / 1000:.1f} s ago",
        }
        for worker in sorted(fleet["workers"], key=lambda worker: worker["state"] == "alive")
    ]
    names = ("worker", "state", "in hand", "slots", "done", "failed", "seen")
    yield from _table(names, rows, size.columns)


def _number(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"


def _table(
    names: Sequence[str], rows: Sequence[dict[str, str]], columns: int
) -> Iterator[ScreenLine]:
    """Yield rows under the names of their columns, as many columns as there is room for."""
    if not rows:
        return
    kept = list(names)
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in names}
    wide = kept[0]
    droppable = [name for name in (*_WEIGHTLESS, *reversed(names[2:])) if name in kept]
    for name in droppable:
        taken = sum(widths[each] + 2 for each in kept if each != wide)
        if taken + min(widths[wide], NAME_WIDTH_MIN * 3) <= columns:
            break
        if name in kept:
            kept.remove(name)
    taken = sum(widths[each] + 2 for each in kept if each != wide)
    widths[wide] = max(min(widths[wide], columns - taken), NAME_WIDTH_MIN)
    yield ScreenLine(
        _row_line(dict.fromkeys(names, "") | {name: name for name in names}, kept, widths), "head"
    )
    for row in rows:
        is_well = row["state"] in ("well", "alive")
        yield ScreenLine(_row_line(row, kept, widths), "" if is_well else "warning")


def _row_line(row: Mapping[str, str], kept: Sequence[str], widths: Mapping[str, int]) -> str:
    cells = []
    for name in kept:
        text = cut(row[name], widths[name])
        room = " " * (widths[name] - sum(map(_width, text)))
        is_text = name in ("queue", "worker", "state")
        cells.append(f"{text}{room}" if is_text else f"{room}{text}")
    return "  ".join(cells).rstrip()
