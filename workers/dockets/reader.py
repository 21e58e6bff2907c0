"""Reads docket lines as dockets; what is wrong with them becomes problems, never exceptions.

A line is one JSON object, one docket. Two rules hold for every input:

* A line that cannot be a docket yields one `BadLine` and reading goes on with the next. A file that
  is no file of lines (`kernel/values/json_lines.py`) yields one as its last.
* A docket keeps each of its good entries; each bad one is left out and named in `problems`,
  so that a reader of the docket can see that something is missing.

An entry keeps the position it had in the line. Two entries may be equal in every field (a clerk
files the same notice twice), and then the position alone tells them apart.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, BinaryIO

import orjson

from kernel.values.json_lines import JsonLine, LineRefused, json_lines, printable_json
from workers.dockets.field_map import BY_THEIR_NAMES, FieldMap

LINE_BYTES_MAX = 8 * 1024 * 1024
ENTRIES_MAX = 5_000
DESCRIPTION_BYTES_MAX = 64 * 1024
FIELD_CHARS_MAX = 1_024

LIMITS = (
    ("line", f"{LINE_BYTES_MAX >> 20} MiB"),
    ("entries of a docket", f"{ENTRIES_MAX:,}"),
    ("description", f"{DESCRIPTION_BYTES_MAX >> 10} KiB of UTF-8"),
    ("any other text field", f"{FIELD_CHARS_MAX:,} characters"),
)
"""What is limited, and how far: the table of the README and of the command's help."""

TEXT_FIELDS = ("source_id", "court_id", "court_kind", "case_name", "docket_number")

TEXT = f"text of 1 to {FIELD_CHARS_MAX} characters that is not blank"
DATE = "a date by ISO 8601, such as 2024-01-31"
ENTRIES = f"a list of at most {ENTRIES_MAX:,} entries"
DESCRIPTION = f"text that is not blank, of at most {LIMITS[2][1]}"
NUL = "\0"
WITHOUT_NUL = "text without U+0000"

_LINE_CODES = {
    "json_line_too_large": "docket_line_too_large",
    "json_line_not_json": "docket_line_not_json",
    "json_line_not_object": "docket_line_not_object",
    "json_key_repeated": "docket_line_key_repeated",
    "json_lines_unreadable": "docket_file_unreadable",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a docket or with one of its entries."""

    code: str
    problem: str
    """What was read, in a form that can be printed."""
    allowed: str
    field: str | None = None
    position: int | None = None
    """The position of the entry in its line, from 0; None when the docket itself is meant."""

    def document(self) -> dict[str, Any]:
        """Return it as a log has it, without what it does not name."""
        stated = {"entry": self.position, "field": self.field}
        named = {name: value for name, value in stated.items() if value is not None}
        return {"code": self.code, **named, "problem": self.problem, "allowed": self.allowed}


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that gives no docket, and why."""

    line_number: int
    """Counted from 1, empty lines included."""
    problem: Problem
    is_of_file: bool = False
    """Whether all that follows in the file is left out with it."""


@dataclass(frozen=True, slots=True)
class DocketEntry:
    """One line of a docket sheet."""

    position: int
    """The place among the entries of the line, from 0, before they were ordered."""
    date_filed: date
    date_entered: datetime | None
    """Without a zone, as the court's clock showed it; midnight when only the day is known."""
    document_number: str | None
    pacer_seq_no: str | None
    description: str
    digest: str
    """SHA-256 in hex of the raw entry, keys sorted: changes when anything in the entry does."""


@dataclass(frozen=True, slots=True)
class Docket:
    """One case with its entries in order of filing."""

    source_id: str
    court_id: str
    court_kind: str
    case_name: str
    docket_number: str
    date_filed: date
    entries: tuple[DocketEntry, ...]
    problems: tuple[Problem, ...]
    line_number: int


def read_dockets(
    source: BinaryIO | Iterable[bytes], fields: FieldMap = BY_THEIR_NAMES
) -> Iterator[Docket | BadLine]:
    """Yield a docket or a problem for each line that is not blank, in the order of the lines.

    `source` is a file, or lines that somebody else has read. Nothing is remembered between lines,
    so a `source_id` that occurs twice is not noticed here.
    """
    for line in json_lines(source, LINE_BYTES_MAX):
        if isinstance(line, LineRefused):
            problem = Problem(_LINE_CODES[line.code], line.problem, line.allowed)
            yield BadLine(line.line, problem, line.is_of_file)
        else:
            yield _read_line(line, fields)


def storable(docket: Docket) -> Docket | BadLine:
    """Return a docket without the entries whose texts no record can hold, or why it has no place.

    No ledger holds U+0000 in a text.
    """
    for name in TEXT_FIELDS:
        if NUL in (text := getattr(docket, name)):
            problem = Problem("docket_field_unstorable", printable_json(text), WITHOUT_NUL, name)
            return BadLine(docket.line_number, problem)
    held_back = tuple(
        Problem("docket_entry_unstorable", printable_json(text), WITHOUT_NUL, name, entry.position)
        for entry in docket.entries
        for name in ("description", "document_number", "pacer_seq_no")
        if NUL in (text := getattr(entry, name) or "")
    )
    if not held_back:
        return docket
    positions = {problem.position for problem in held_back}
    entries = tuple(entry for entry in docket.entries if entry.position not in positions)
    return replace(docket, entries=entries, problems=(*docket.problems, *held_back))


def _read_line(line: JsonLine, fields: FieldMap) -> Docket | BadLine:
    raw = fields.docket(line.value)
    problem = _first_field_problem(raw)
    if problem is not None:
        return BadLine(line.number, problem)
    filed = _moment(raw["date_filed"])
    if filed is None:
        problem = Problem(
            "docket_field_missing", printable_json(raw["date_filed"]), DATE, "date_filed"
        )
        return BadLine(line.number, problem)
    entries, problems = _read_entries(raw["docket_entries"])
    return Docket(
        **{name: raw[name] for name in TEXT_FIELDS},
        date_filed=filed.date(),
        entries=entries,
        problems=problems,
        line_number=line.number,
    )


def _first_field_problem(raw: dict[str, Any]) -> Problem | None:
    for name in (*TEXT_FIELDS, "date_filed"):
        problem = _text_problem(raw, name, DATE if name == "date_filed" else TEXT)
        if problem is not None:
            return problem
    entries = raw.get("docket_entries")
    if not isinstance(entries, list):
        code, stated = "docket_field_missing", _read(raw, "docket_entries")
    elif len(entries) > ENTRIES_MAX:
        code, stated = "docket_too_many_entries", f"{len(entries)} entries"
    else:
        return None
    return Problem(code, stated, ENTRIES, "docket_entries")


def _text_problem(raw: dict[str, Any], name: str, allowed: str) -> Problem | None:
    value = raw.get(name)
    if not isinstance(value, str) or not value.strip():
        return Problem("docket_field_missing", _read(raw, name), allowed, name)
    if len(value) > FIELD_CHARS_MAX:
        return Problem("docket_field_too_large", f"{len(value)} characters", allowed, name)
    return None


def _read(raw: dict[str, Any], name: str) -> str:
    return printable_json(raw[name]) if name in raw else "no such field"


def _read_entries(raw: list[Any]) -> tuple[tuple[DocketEntry, ...], tuple[Problem, ...]]:
    read = [_read_entry(item, position) for position, item in enumerate(raw)]
    entries = sorted((item for item in read if isinstance(item, DocketEntry)), key=_order_of_filing)
    return tuple(entries), tuple(item for item in read if isinstance(item, Problem))


def _order_of_filing(entry: DocketEntry) -> tuple[date, datetime, int]:
    entered = entry.date_entered or datetime.combine(entry.date_filed, time.min)
    return entry.date_filed, entered, entry.position


def _read_entry(raw: Any, position: int) -> DocketEntry | Problem:
    if not isinstance(raw, dict):
        return Problem(
            "docket_entry_not_object", printable_json(raw), "an object", position=position
        )
    problem = _entry_problem(raw, position)
    if problem is not None:
        return problem
    filed, entered = _moment(raw["date_filed"]), _moment(raw.get("date_entered"))
    digest = _digest(raw)
    if filed is None or digest is None:
        stated, allowed = "nested too deeply to digest", "fewer objects and lists in each other"
        return Problem("docket_entry_too_deep", stated, allowed, position=position)
    return DocketEntry(
        position=position,
        date_filed=filed.date(),
        date_entered=entered,
        document_number=_number(raw.get("document_number")),
        pacer_seq_no=_number(raw.get("pacer_seq_no")),
        description=raw["description"],
        digest=digest,
    )


def _entry_problem(raw: dict[str, Any], position: int) -> Problem | None:
    return (
        _description_problem(raw, position)
        or _date_problem(raw, position)
        or _number_problem(raw, position)
    )


def _description_problem(raw: dict[str, Any], position: int) -> Problem | None:
    description = raw.get("description")
    if not isinstance(description, str) or not description.strip():
        code, problem = "docket_entry_without_description", _read(raw, "description")
    elif len(description.encode()) > DESCRIPTION_BYTES_MAX:
        code = "docket_entry_description_too_large"
        problem = f"{len(description.encode())} bytes"
    else:
        return None
    return Problem(code, problem, DESCRIPTION, "description", position)


def _date_problem(raw: dict[str, Any], position: int) -> Problem | None:
    """The day of filing must be there; the day of entry may be missing or null."""
    for name, is_needed in (("date_filed", True), ("date_entered", False)):
        value = raw.get(name)
        if _moment(value) is None and (is_needed or value is not None):
            return Problem("docket_entry_bad_date", _read(raw, name), DATE, name, position)
    return None


def _number_problem(raw: dict[str, Any], position: int) -> Problem | None:
    """A number that is no text and no integer says nothing usable and is left out."""
    for name in ("document_number", "pacer_seq_no"):
        value = raw.get(name)
        if isinstance(value, str) and len(value) > FIELD_CHARS_MAX:
            stated, allowed = f"{len(value)} characters", f"at most {FIELD_CHARS_MAX:,}"
            return Problem("docket_entry_field_too_large", stated, allowed, name, position)
    return None


def _digest(raw: dict[str, Any]) -> str | None:
    try:
        stable = orjson.dumps(raw, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:  # nested deeper than the encoder goes
        return None
    return hashlib.sha256(stable).hexdigest()


def _moment(value: Any) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
        # Moments with and without a zone cannot be ordered together.
        return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    except (ValueError, OverflowError):
        return None


def _number(value: Any) -> str | None:
    """Numbers come as text or as integers; anything else says nothing usable."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return str(value).strip() or None


def sample_path() -> Traversable:
    """Return the bundled sample, one docket a line as `read_dockets` takes it."""
    return files(__package__) / "sample.jsonl"
