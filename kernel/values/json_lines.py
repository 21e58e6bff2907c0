"""Reads lines of JSON that somebody else made (JSON Lines, NDJSON), plain or in gzip.

A line ends with LF or CRLF and with nothing else: U+2028 and its like stand in texts. A byte order
mark at the begin is passed over; empty lines are counted and passed over. A line has a bound, and
no more than that is held of it. A line that is not taken is a `LineRefused`, which says where, what
was read and what is allowed:

* of one line: reading goes on with the next;
* of the file (`is_of_file`): it is no file of lines, and nothing after it is read. A JSON array, an
  object that is written over several lines, UTF-16, an archive or a table are named as what they
  are, once (decision workers/0390).
"""

import gzip
import io
import json
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO, Final, Literal, cast

import orjson

from kernel.values.errors import KernelError
from kernel.values.json_text import RepeatedKey, check_unique_keys, is_longer_than

LineCode = Literal[
    "json_line_too_large",
    "json_line_not_json",
    "json_line_not_object",
    "json_key_repeated",
    "json_lines_too_many",
    "json_lines_unreadable",
]

PIECE_BYTES: Final = 64 * 1024
HEAD_BYTES: Final = 8
SHOWN_CHARS_MAX: Final = 100
SHOWN_FROM_CHARS: Final = 4_000
ONE_A_LINE: Final = "one JSON object a line"

_BOM = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"
_OTHER_FORMS: Final = (
    (b"\xff\xfe", "text in UTF-16", "UTF-8"),
    (b"\xfe\xff", "text in UTF-16", "UTF-8"),
    (b"{\0", "text in UTF-16", "UTF-8"),
    (b"\0{", "text in UTF-16", "UTF-8"),
    (_GZIP, "gzip in gzip", "plain text, or gzip once"),
    (b"\x28\xb5\x2f\xfd", "Zstandard", "plain text or gzip"),
    (b"\xfd7zXZ\0", "xz", "plain text or gzip"),
    (b"BZh", "bzip2", "plain text or gzip"),
    (b"PK\3\4", "a zip archive", "plain text or gzip"),
    (b"SQLite f", "an SQLite database", f"text with {ONE_A_LINE}"),
    (b"PAR1", "a Parquet file", f"text with {ONE_A_LINE}"),
    (b"%PDF-", "a PDF", f"text with {ONE_A_LINE}"),
)
"""First bytes that no line of JSON has: what they begin, and what is read instead."""


class LineRefused(KernelError):
    """A line, or all of a file, is not taken."""

    code: LineCode

    def __init__(
        self,
        code: LineCode,
        line: int,
        problem: str,
        allowed: str,
        *,
        field: str = "",
        is_of_file: bool = False,
    ) -> None:
        super().__init__(f"{problem}; allowed: {allowed}", code=code)
        self.line = line
        """Counted from 1, empty lines included; 0 where the file itself is meant."""
        self.problem = problem
        self.allowed = allowed
        self.field = field
        self.is_of_file = is_of_file


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a text, without its end."""

    number: int
    """Its place, from 1."""

    size: int
    """Its bytes."""

    content: bytes | None
    """None where it is longer than a line may be."""


@dataclass(frozen=True, slots=True)
class JsonLine:
    """A line that holds JSON."""

    number: int
    """Its place, from 1, empty lines included."""

    content: bytes
    """Its bytes without its end and without a byte order mark."""

    value: Any


class LineSplitter:
    """The lines of one text that comes in pieces; of a line that is too long it keeps the size."""

    def __init__(self, line_bytes_max: int) -> None:
        self._line_bytes_max = line_bytes_max
        self._number = 1
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> Iterator[Line]:
        """Yield the lines that end in the next piece of the text."""
        start = 0
        while (end := piece.find(b"\n", start)) >= 0:
            self._keep(piece[start:end])
            yield self._line()
            start = end + 1
        self._keep(piece[start:])

    def end(self) -> Iterator[Line]:
        """Yield what stands behind the last newline, if anything does."""
        if self._size:
            yield self._line()

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._line_bytes_max:
            self._parts.clear()
        elif part:
            self._parts.append(part)

    def _line(self) -> Line:
        content = b"".join(self._parts) if self._size <= self._line_bytes_max else None
        line = Line(self._number, self._size, content)
        self._number, self._size = self._number + 1, 0
        self._parts.clear()
        return line


def plain_file(file: BinaryIO) -> io.BufferedReader:
    """Return the text of a file as bytes: out of gzip, without a byte order mark.

    Raises:
        LineRefused: `json_lines_unreadable`, it has another form; reading raises the same where
            its gzip is damaged.
    """
    head = _head(file)
    plain = _Rest(head, file)
    if head.startswith(_GZIP):
        unpacked: Any = gzip.GzipFile(fileobj=io.BufferedReader(plain), mode="rb")
        head = _head(unpacked)
        plain = _Rest(head, unpacked)
    for begin, name, allowed in _OTHER_FORMS:
        if head.startswith(begin):
            raise _of_file(0, name, allowed)
    return io.BufferedReader(plain, PIECE_BYTES)


def text_lines(file: BinaryIO, line_bytes_max: int) -> Iterator[Line]:
    """Yield every line of a file, without CR before its end.

    Raises:
        LineRefused: `json_lines_unreadable`, all of the file is refused.
    """
    splitter, number = LineSplitter(line_bytes_max), 0
    try:
        plain = plain_file(file)
        while piece := plain.read1(PIECE_BYTES):
            for line in splitter.feed(piece):
                number = line.number
                yield _without_cr(line)
        for line in splitter.end():
            yield _without_cr(line)
    except LineRefused as refused:
        problem, allowed = refused.problem, refused.allowed
        raise _of_file(number + 1 if number else 0, problem, allowed) from None


def json_lines(
    source: BinaryIO | Iterable[bytes],
    line_bytes_max: int,
    *,
    lines_max: int | None = None,
    are_objects: bool = True,
    may_be_empty: bool = True,
) -> Iterator[JsonLine | LineRefused]:
    """Yield each line that is not empty: its value, or why it has none; nothing is raised.

    `source` is a file of bytes, or lines that somebody else has read and bounded. Where no line
    may be empty, one that is yields its refusal.
    """
    is_file = hasattr(source, "read")
    lines = (
        text_lines(cast("BinaryIO", source), line_bytes_max)
        if is_file
        else _number_lines(source, line_bytes_max)
    )
    if may_be_empty:
        lines = (line for line in lines if line.content is None or line.content.strip())
    try:
        for place, (line, following) in enumerate(_with_following(lines), start=1):
            _check_count(line, place, lines_max)
            read = _read_line(line, line_bytes_max, are_objects=are_objects)
            if place == 1 and is_file and isinstance(read, LineRefused):
                _check_form(line, following(), are_objects=are_objects)
            yield read
    except LineRefused as refused:
        yield refused


def raise_refused(lines: Iterable[JsonLine | LineRefused]) -> Iterator[JsonLine]:
    """Yield the lines up to the first that is refused, which is raised.

    Raises:
        LineRefused: a line was refused, or all of the file.
    """
    for line in lines:
        if isinstance(line, LineRefused):
            raise line
        yield line


def printable_json(value: Any) -> str:
    """Return a value that somebody else wrote as JSON that can be printed, cut where it is long."""
    if is_longer_than(value, SHOWN_FROM_CHARS):
        value = value[:SHOWN_CHARS_MAX] if isinstance(value, str) else type(value).__name__
    text = json.dumps(value, ensure_ascii=False)
    text = "".join(sign if sign.isprintable() else f"\\u{ord(sign):04x}" for sign in text)
    return text if len(text) <= SHOWN_CHARS_MAX else f"{text[:SHOWN_CHARS_MAX]}…"


class _Rest(io.RawIOBase):
    """A file whose begin was read already; a byte order mark is left out."""

    def __init__(self, head: bytes, file: Any) -> None:
        self._head = head.removeprefix(_BOM)
        self._file = file

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer, as much as there is at once."""
        piece = self._head or _read(self._file, len(buffer))
        self._head = piece[len(buffer) :]
        count = min(len(piece), len(buffer))
        buffer[:count] = piece[:count]
        return count


def _head(file: Any) -> bytes:
    """Return the first bytes of a file: so many as tell its form, or those of its first line."""
    head = b""
    while len(head) < HEAD_BYTES and b"\n" not in head:
        piece = _read(file, HEAD_BYTES - len(head))
        if not piece:
            break
        head += piece
    return head


def _read(file: Any, size: int) -> bytes:
    read: Callable[[int], bytes] = file.read1 if hasattr(file, "read1") else file.read
    try:
        return read(size)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise _of_file(0, f"damaged gzip: {error}", "a whole gzip file") from None


def _of_file(line: int, problem: str, allowed: str) -> LineRefused:
    return LineRefused("json_lines_unreadable", line, problem, allowed, is_of_file=True)


def _without_cr(line: Line) -> Line:
    if line.content is None or not line.content.endswith(b"\r"):
        return line
    return Line(line.number, line.size, line.content[:-1])


def _number_lines(source: Iterable[bytes], line_bytes_max: int) -> Iterator[Line]:
    for number, line in enumerate(source, start=1):
        size = len(line)
        yield Line(number, size, line.rstrip(b"\r\n") if size <= line_bytes_max else None)


def _with_following(
    lines: Iterable[Line],
) -> Iterator[tuple[Line, Callable[[], Line | None]]]:
    """Yield each line with what reads the line after it, which a pipe may not have yet."""
    remaining, ahead = iter(lines), deque[Line]()

    def following() -> Line | None:
        if not ahead:
            ahead.extend(islice(remaining, 1))
        return ahead[0] if ahead else None

    while (line := following()) is not None:
        ahead.popleft()
        yield line, following


def _check_count(line: Line, count: int, lines_max: int | None) -> None:
    if lines_max is not None and count > lines_max:
        problem, allowed = f"more than {lines_max} lines", f"at most {lines_max}"
        raise LineRefused("json_lines_too_many", line.number, problem, allowed, is_of_file=True)


def _read_line(line: Line, line_bytes_max: int, *, are_objects: bool) -> JsonLine | LineRefused:
    content, number = line.content, line.number
    if content is None:
        problem, allowed = f"longer than {line_bytes_max} bytes", f"{line_bytes_max} bytes a line"
        return LineRefused("json_line_too_large", number, f"{problem} ({line.size})", allowed)
    if not content.strip():
        return LineRefused("json_line_not_json", number, "an empty line", ONE_A_LINE)
    try:
        value = orjson.loads(content)
        check_unique_keys(content)
    except RepeatedKey as error:
        return LineRefused("json_key_repeated", number, str(error), "each key once in an object")
    except orjson.JSONDecodeError as error:
        return LineRefused("json_line_not_json", number, f"not JSON: {error}", ONE_A_LINE)
    if are_objects and not isinstance(value, dict):
        problem = f"not an object: {printable_json(value)}"
        return LineRefused("json_line_not_object", number, problem, ONE_A_LINE)
    return JsonLine(number, content, value)


def _check_form(first: Line, following: Line | None, *, are_objects: bool) -> None:
    """Refuse a file that is no lines, by a first line that is none.

    The line then begins a value that goes on in the next one, or is all of the file.

    Raises:
        LineRefused: naming what the file is.
    """
    content = first.content or b""
    second = b"" if following is None else following.content or b""
    is_alone = following is None and are_objects
    if content.lstrip().startswith(b"[") and (is_alone or _is_unfinished(content)):
        allowed = f"{ONE_A_LINE} (`jq -c '.[]'` makes lines of an array)"
        raise _of_file(first.number, "a JSON array", allowed)
    # A line break stands in no text, so what was cut off in one is not taken for going on.
    whole = b"%b\n%b" % (content, second)
    if second and _is_unfinished(content) and (_is_unfinished(whole) or _is_json(whole)):
        problem = "a JSON value that is written over several lines"
        raise _of_file(first.number, problem, f"{ONE_A_LINE} (`jq -c .` writes each in one)")
    if b"\r" in content and _is_json(content.partition(b"\r")[0]):
        problem = "lines that end with CR alone"
        raise _of_file(first.number, problem, "lines that end with LF or CRLF")


def _is_unfinished(content: bytes) -> bool:
    """Tell whether JSON ends before its value does."""
    try:
        orjson.loads(content)
    except orjson.JSONDecodeError as error:
        return error.msg.startswith("unexpected end of data")
    return False


def _is_json(content: bytes) -> bool:
    try:
        orjson.loads(content)
    except orjson.JSONDecodeError:
        return False
    return True
