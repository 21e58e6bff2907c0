"""Docket lines become dockets; what is wrong with them becomes problems, never exceptions.

A line is one JSON object, one docket. Two rules hold for every input:

* A line that cannot be a docket yields one `BadLine` and reading goes on with the next.
* A docket keeps each of its good entries; each bad one is left out and named in `problems`,
  so that a reader of the docket can see that something is missing.

An entry keeps the position it had in the line. Two entries may be equal in every field (a clerk
files the same notice twice), and then the position alone tells them apart.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any

import orjson

from kernel.json_text import RepeatedKey, check_unique_keys

LINE_BYTES_MAX = 8 * 1024 * 1024
ENTRIES_MAX = 5_000
DESCRIPTION_BYTES_MAX = 64 * 1024
FIELD_CHARS_MAX = 1_024

TEXT_FIELDS = ("source_id", "court_id", "court_kind", "case_name", "docket_number")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a docket or with one of its entries."""

    code: str
    detail: str
    field: str | None = None
    position: int | None = None
    """The position of the entry in its line, from 0; None when the docket itself is meant."""


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that gives no docket, and why."""

    line_number: int
    """Counted from 1, empty lines included."""
    problem: Problem


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


def read_dockets(lines: Iterable[bytes]) -> Iterator[Docket | BadLine]:
    """Yield a docket or a problem for each line that is not blank, in the order of the lines.

    The 8 MiB limit is checked on a line that is already in memory; whoever splits a stream into
    lines bounds what is read. Nothing is remembered between lines, so a `source_id` that occurs
    twice is not noticed here.
    """
    for line_number, line in enumerate(lines, start=1):
        if line.strip():
            yield _read_line(line, line_number)


def _read_line(line: bytes, line_number: int) -> Docket | BadLine:
    if len(line) > LINE_BYTES_MAX:
        detail = f"{len(line)} bytes; at most {LINE_BYTES_MAX} are read"
        return BadLine(line_number, Problem("docket_line_too_large", detail))
    try:
        raw = orjson.loads(line)
        check_unique_keys(line)
    except RepeatedKey as error:
        return BadLine(line_number, Problem("docket_line_key_repeated", str(error)))
    except orjson.JSONDecodeError as error:
        return BadLine(line_number, Problem("docket_line_not_json", str(error)))
    if not isinstance(raw, dict):
        detail = f"a JSON {type(raw).__name__}, not an object"
        return BadLine(line_number, Problem("docket_line_not_object", detail))
    problem = _first_field_problem(raw)
    if problem is not None:
        return BadLine(line_number, problem)
    filed = _moment(raw["date_filed"])
    if filed is None:
        detail = "the date of filing is not an ISO 8601 date"
        return BadLine(line_number, Problem("docket_field_missing", detail, "date_filed"))
    entries, problems = _read_entries(raw["docket_entries"])
    return Docket(
        **{name: raw[name] for name in TEXT_FIELDS},
        date_filed=filed.date(),
        entries=entries,
        problems=problems,
        line_number=line_number,
    )


def _first_field_problem(raw: dict[str, Any]) -> Problem | None:
    for name in (*TEXT_FIELDS, "date_filed"):
        value = raw.get(name)
        if not isinstance(value, str) or not value.strip():
            return Problem("docket_field_missing", f"{name} is missing, blank or not text", name)
        if len(value) > FIELD_CHARS_MAX:
            detail = f"{name} is longer than {FIELD_CHARS_MAX} characters"
            return Problem("docket_field_too_large", detail, name)
    entries = raw.get("docket_entries")
    if not isinstance(entries, list):
        detail = "docket_entries is missing or not a list"
        return Problem("docket_field_missing", detail, "docket_entries")
    if len(entries) > ENTRIES_MAX:
        detail = f"{len(entries)} entries; at most {ENTRIES_MAX} are read"
        return Problem("docket_too_many_entries", detail, "docket_entries")
    return None


def _read_entries(raw: list[Any]) -> tuple[tuple[DocketEntry, ...], tuple[Problem, ...]]:
    read = [_read_entry(item, position) for position, item in enumerate(raw)]
    entries = sorted((item for item in read if isinstance(item, DocketEntry)), key=_order_of_filing)
    return tuple(entries), tuple(item for item in read if isinstance(item, Problem))


def _order_of_filing(entry: DocketEntry) -> tuple[date, datetime, int]:
    entered = entry.date_entered or datetime.combine(entry.date_filed, time.min)
    return entry.date_filed, entered, entry.position


def _read_entry(raw: Any, position: int) -> DocketEntry | Problem:
    if not isinstance(raw, dict):
        return Problem("docket_entry_not_object", "not an object", position=position)
    problem = _description_problem(raw, position) or _date_problem(raw, position)
    if problem is not None:
        return problem
    filed, entered = _moment(raw["date_filed"]), _moment(raw.get("date_entered"))
    digest = _digest(raw)
    if filed is None or digest is None:
        return Problem("docket_entry_too_deep", "nested too deeply to digest", position=position)
    return DocketEntry(
        position=position,
        date_filed=filed.date(),
        date_entered=entered,
        document_number=_number(raw.get("document_number")),
        pacer_seq_no=_number(raw.get("pacer_seq_no")),
        description=raw["description"],
        digest=digest,
    )


def _description_problem(raw: dict[str, Any], position: int) -> Problem | None:
    description = raw.get("description")
    if not isinstance(description, str) or not description.strip():
        detail = "the description is missing, null or blank"
        return Problem("docket_entry_without_description", detail, "description", position)
    if len(description.encode()) > DESCRIPTION_BYTES_MAX:
        detail = f"the description is longer than {DESCRIPTION_BYTES_MAX} bytes"
        return Problem("docket_entry_description_too_large", detail, "description", position)
    return None


def _date_problem(raw: dict[str, Any], position: int) -> Problem | None:
    """The day of filing must be there; the day of entry may be missing or null."""
    for name, is_needed in (("date_filed", True), ("date_entered", False)):
        value = raw.get(name)
        if _moment(value) is None and (is_needed or value is not None):
            detail = f"{name} is missing or not an ISO 8601 date"
            return Problem("docket_entry_bad_date", detail, name, position)
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
    return str(value)[:FIELD_CHARS_MAX].strip() or None
