"""Lines of JSON as somebody may have written them: read whole, or refused with a reason."""

import bz2
import gzip
import io
import itertools
import json
import lzma

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.values.json_lines import (
    JsonLine,
    LineRefused,
    json_lines,
    plain_file,
    printable_json,
    raise_refused,
    text_lines,
)

BOM = b"\xef\xbb\xbf"
TWO = b'{"a":1}\n{"a":2}\n'


def packed(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


def read(content: bytes, line_bytes_max: int = 100, **options) -> list:
    return list(json_lines(io.BytesIO(content), line_bytes_max, **options))


def values(content: bytes) -> list:
    return [line.value for line in raise_refused(json_lines(io.BytesIO(content), 1_000))]


class Drops(io.RawIOBase):
    """A pipe that gives a byte at a time."""

    def __init__(self, content: bytes) -> None:
        self._rest = content

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        buffer[:1], self._rest = self._rest[:1], self._rest[1:]
        return 1 if self._rest or buffer[:1] else 0

    def read(self, size: int = -1) -> bytes:
        assert size
        drop, self._rest = self._rest[:1], self._rest[1:]
        return drop


@pytest.mark.parametrize(
    "content",
    [
        TWO,
        TWO[:-1],
        TWO.replace(b"\n", b"\r\n"),
        b"\n  \n" + TWO.replace(b"\n", b"\n\t\r\n\n"),
        BOM + TWO,
        packed(TWO),
        packed(BOM + TWO),
        packed(TWO[:8]) + packed(TWO[8:]),
    ],
    ids=itertools.count(),
)
def test_a_file_of_lines_is_read_however_it_was_written(content: bytes):
    assert values(content) == [{"a": 1}, {"a": 2}]
    assert [line.value for line in json_lines(Drops(content), 100)] == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0c", "\x1c"])
def test_only_a_line_feed_ends_a_line(separator: str):
    text = f"before{separator}after"
    written = json.dumps({"text": text}, ensure_ascii=False)
    content = written.encode() if separator >= "\x85" else json.dumps({"text": text}).encode()
    assert values(content + b"\n" + content) == [{"text": text}] * 2


def test_lines_are_counted_with_the_empty_ones_and_a_bad_one_leaves_the_others():
    first, bad, last = read(BOM + b'\n{"a":1}\r\n\n{"b":\n{"c":3}')
    assert (first.number, first.content, first.value) == (2, b'{"a":1}', {"a": 1})
    assert (bad.code, bad.line, bad.is_of_file) == ("json_line_not_json", 4, False)
    assert (last.number, last.value) == (5, {"c": 3})


@pytest.mark.parametrize(
    ("line", "code", "problem"),
    [
        (b'{"a":1,"\\u0061":2}', "json_key_repeated", "'a' twice"),
        (b"nonsense", "json_line_not_json", "line 1 column 1"),
        (b'{"a":1},', "json_line_not_json", "after document"),
        (b'{"a":"\xff"}', "json_line_not_json", "UTF-8"),
        (b'{"a":"\\ud800"}', "json_line_not_json", "surrogate"),
        (b"[" * 1_100 + b"]" * 1_100, "json_line_not_json", ""),
        (b"[1, 2]", "json_line_not_object", "[1, 2]"),
        (b"null", "json_line_not_object", "null"),
        (b'"\\u202e\\u001b[0m"', "json_line_not_object", '"\\u202e\\u001b[0m"'),
    ],
)
def test_a_line_that_is_no_object_says_what_was_found(line: bytes, code: str, problem: str):
    for content in (line + b"\n" + TWO, TWO + line):
        refused = [item for item in read(content, 5_000) if isinstance(item, LineRefused)]
        (refusal,) = refused
        assert (refusal.code, refusal.is_of_file) == (code, False)
        assert problem in refusal.problem
        assert refusal.allowed in str(refusal)
        assert len(read(content, 5_000)) == 3


def test_a_line_has_a_bound_and_no_more_of_it_is_held():
    class Endless(io.RawIOBase):
        pieces = 200

        def read(self, size: int = -1) -> bytes:
            self.pieces -= 1
            return b"x" * min(size, 65_536) if self.pieces > 0 else b""

    (refusal,) = json_lines(Endless(), 1_000)
    assert (refusal.code, refusal.line) == ("json_line_too_large", 1)
    assert "1000 bytes" in refusal.allowed
    long = b'{"a":"' + b"x" * 92 + b'"}\n'
    assert [type(item) for item in read(long + b" " + long + TWO)] == [
        JsonLine,
        LineRefused,
        JsonLine,
        JsonLine,
    ]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (json.dumps([{"a": 1}]).encode(), "JSON array"),
        (json.dumps([{"a": 1}, {"b": [2]}], indent=1).encode(), "JSON array"),
        (b"[" + TWO.replace(b"}\n", b"},\n", 1) + b"]", "JSON array"),
        (b"[\n" + TWO.replace(b"}\n", b"},\n", 1) + b"]", "JSON array"),
        (b"[]", "JSON array"),
        (json.dumps({"a": {"b": 1}}, indent=2).encode(), "over several lines"),
        (json.dumps({"a": 1}, indent=0).encode() * 2, "over several lines"),
        (b"{\r\n}", "over several lines"),
        (TWO.replace(b"\n", b"\r"), "CR alone"),
        (TWO.decode().encode("utf-16"), "UTF-16"),
        (TWO.decode().encode("utf-16-be"), "UTF-16"),
        (packed(packed(TWO)), "gzip in gzip"),
        (bz2.compress(TWO), "bzip2"),
        (lzma.compress(TWO), "xz"),
        (b"PK\x03\x04rest", "zip"),
        (b"SQLite format 3\0", "SQLite"),
        (packed(TWO)[:-5], "damaged gzip"),
        (packed(TWO)[:20] + b"xxxxxxxxxxxxxxx", "damaged gzip"),
    ],
)
def test_what_is_no_file_of_lines_is_refused_once_as_what_it_is(content: bytes, problem: str):
    *before, refusal = read(content)
    assert all(isinstance(line, JsonLine) for line in before)
    assert isinstance(refusal, LineRefused)
    assert (refusal.code, refusal.is_of_file) == ("json_lines_unreadable", True)
    assert problem in refusal.problem
    assert refusal.allowed
    with pytest.raises(LineRefused, match=problem):
        values(content)


def test_any_value_is_taken_where_it_is_asked_for():
    content = b'[1]\n"text"\nnull\n{}'
    assert [line.value for line in read(content, are_objects=False)] == [[1], "text", None, {}]
    assert [line.value for line in read(b"[1]", are_objects=False)] == [[1]]


def test_there_may_be_a_bound_for_the_lines():
    *_, refusal = read(b"\n" + TWO, lines_max=1)
    assert (refusal.code, refusal.line) == ("json_lines_too_many", 3)


def test_lines_that_were_read_already_are_taken_one_by_one():
    assert [item.number for item in json_lines([b"", b'{"a":1}\r\n', b"{}"], 100)] == [2, 3]


def test_other_tables_are_read_from_the_same_bytes():
    assert plain_file(io.BytesIO(packed(BOM + b"a,b\n"))).read() == b"a,b\n"
    lines = text_lines(io.BytesIO(BOM + b"one\r\n\ntwo"), 100)
    assert [line.content for line in lines] == [b"one", b"", b"two"]
    with pytest.raises(LineRefused):
        list(text_lines(io.BytesIO(b"\xff\xfea\0"), 100))


def test_what_is_shown_is_short_and_can_be_printed():
    assert printable_json("x" * 10_000) == f'"{"x" * 99}…'
    assert printable_json({"a": ["x" * 10_000]}) == '"dict"'
    assert printable_json("\u00e9\x1b\u202e\0") == '"\u00e9\\u001b\\u202e\\u0000"'


@given(st.binary(max_size=300))
def test_no_bytes_make_reading_raise_and_each_line_is_read_or_refused(content: bytes):
    lines = read(content)
    numbers = [item.number if isinstance(item, JsonLine) else item.line for item in lines]
    assert numbers == sorted(numbers)
    if not any(isinstance(item, LineRefused) and item.is_of_file for item in lines):
        text = content.removeprefix(BOM)
        assert len(lines) == sum(1 for line in text.split(b"\n") if line.strip())
