"""Reading docket lines: what is kept, what is a problem, and in which order."""

import hashlib
from datetime import date, datetime

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workers.dockets.dockets_for_tests import raw_docket, raw_entry, read_one
from workers.dockets import reader
from workers.dockets.reader import BadLine, Docket, read_dockets


def read_line(line: bytes) -> Docket | BadLine:
    (read,) = read_dockets([line])
    return read


def test_a_docket_is_read_with_every_field():
    entry = raw_entry("Order", date_entered="2020-01-03T10:11:12", document_number=7)
    docket = read_one(raw_docket([entry | {"pacer_seq_no": "12"}]))
    assert (docket.source_id, docket.court_id, docket.court_kind) == (
        "test/one",
        "tstb",
        "bankruptcy",
    )
    assert docket.date_filed == date(2020, 1, 2)
    assert docket.line_number == 1
    (read,) = docket.entries
    assert read.date_filed == date(2020, 1, 2)
    assert read.date_entered == datetime(2020, 1, 3, 10, 11, 12)  # noqa: DTZ001 - the court's clock
    assert (read.document_number, read.pacer_seq_no) == ("7", "12")


def test_blank_lines_are_skipped_but_counted():
    good = orjson.dumps(raw_docket())
    read = list(read_dockets([b"\n", good + b"\n", b"  ", b"{", good]))
    assert [item.line_number for item in read] == [2, 4, 5]
    assert [type(item) for item in read] == [Docket, BadLine, Docket]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", "docket_line_not_json"),
        (b'{"a":1,"\\u0061":2}', "docket_line_key_repeated"),
        (b"\xff\xfe", "docket_line_not_json"),
        (b'{"a": NaN}', "docket_line_not_json"),
        (b"[" * 5_000, "docket_line_not_json"),
        (b'{"a":1,"b":' + b"[" * 1_000 + b"]" * 1_000 + b"}", "docket_line_not_json"),
        (b"[]", "docket_line_not_object"),
        (b"null", "docket_line_not_object"),
    ],
)
def test_a_line_that_is_no_docket_says_why(line, code):
    read = read_line(line)
    assert isinstance(read, BadLine)
    assert read.problem.code == code


def test_a_line_beyond_the_limit_is_not_parsed(monkeypatch):
    line = orjson.dumps(raw_docket())
    monkeypatch.setattr(reader, "LINE_BYTES_MAX", len(line))
    assert isinstance(read_line(line), Docket)
    monkeypatch.setattr(reader, "LINE_BYTES_MAX", len(line) - 1)
    bad = read_line(line)
    assert isinstance(bad, BadLine)
    assert bad.problem.code == "docket_line_too_large"


@pytest.mark.parametrize("name", [*reader.TEXT_FIELDS, "date_filed", "docket_entries"])
@pytest.mark.parametrize("value", [None, "", "  ", 3, {}])
def test_a_missing_field_is_named(name, value):
    for raw in (raw_docket() | {name: value}, {k: v for k, v in raw_docket().items() if k != name}):
        bad = read_line(orjson.dumps(raw))
        assert isinstance(bad, BadLine)
        assert (bad.problem.code, bad.problem.field) == ("docket_field_missing", name)


def test_a_date_of_filing_that_is_no_date_counts_as_missing():
    bad = read_line(orjson.dumps(raw_docket(date_filed="yesterday")))
    assert isinstance(bad, BadLine)
    assert (bad.problem.code, bad.problem.field) == ("docket_field_missing", "date_filed")


def test_a_field_without_end_is_refused():
    bad = read_line(orjson.dumps(raw_docket(case_name="x" * (reader.FIELD_CHARS_MAX + 1))))
    assert isinstance(bad, BadLine)
    assert (bad.problem.code, bad.problem.field) == ("docket_field_too_large", "case_name")


def test_more_entries_than_the_limit_are_refused_whole():
    entry = raw_entry()
    assert len(read_one(raw_docket([entry] * reader.ENTRIES_MAX)).entries) == reader.ENTRIES_MAX
    bad = read_line(orjson.dumps(raw_docket([entry] * (reader.ENTRIES_MAX + 1))))
    assert isinstance(bad, BadLine)
    assert bad.problem.code == "docket_too_many_entries"


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        ({"date_filed": "2020-01-02"}, "docket_entry_without_description"),
        (raw_entry(None), "docket_entry_without_description"),
        (raw_entry(" \n"), "docket_entry_without_description"),
        (raw_entry(5), "docket_entry_without_description"),
        (raw_entry("\u00e9" * 40_000), "docket_entry_description_too_large"),
        (raw_entry(date_filed=None), "docket_entry_bad_date"),
        (raw_entry(date_filed="2020-13-01"), "docket_entry_bad_date"),
        (raw_entry(date_entered="soon"), "docket_entry_bad_date"),
        (raw_entry(date_entered=7), "docket_entry_bad_date"),
        ("an entry", "docket_entry_not_object"),
    ],
)
def test_a_bad_entry_is_a_problem_and_the_good_ones_stay(bad, code):
    docket = read_one(raw_docket([raw_entry("first"), bad, raw_entry("third")]))
    assert [(entry.position, entry.description) for entry in docket.entries] == [
        (0, "first"),
        (2, "third"),
    ]
    (problem,) = docket.problems
    assert (problem.code, problem.position) == (code, 1)


def test_an_entry_nested_beyond_the_encoder_is_a_problem():
    deep = orjson.dumps(raw_docket([raw_entry(extra="HERE")]))
    nested = deep.replace(b'"HERE"', b"[" * 500 + b"]" * 500)
    read = read_line(nested)
    assert isinstance(read, Docket)
    assert [problem.code for problem in read.problems] == ["docket_entry_too_deep"]


def test_entries_stand_in_order_of_filing_then_of_entry_then_of_the_line():
    filed = [
        raw_entry("e", date_filed="2020-02-01"),
        raw_entry("c", date_filed="2020-01-05", date_entered="2020-01-06"),
        raw_entry("a", date_filed="2020-01-05"),
        raw_entry("d", date_filed="2020-01-05", date_entered="2020-01-06T09:00:00"),
        raw_entry("b", date_filed="2020-01-05", date_entered="2020-01-05"),
    ]
    docket = read_one(raw_docket(filed))
    assert "".join(entry.description for entry in docket.entries) == "abcde"
    assert [entry.position for entry in docket.entries] == [2, 4, 1, 3, 0]


def test_moments_with_and_without_a_zone_are_ordered_together():
    filed = [
        raw_entry("late", date_entered="2020-01-02T12:00:00+02:00"),
        raw_entry("early", date_entered="2020-01-02T09:30:00"),
    ]
    assert [entry.description for entry in read_one(raw_docket(filed)).entries] == ["early", "late"]


def test_equal_entries_have_equal_digests_and_different_positions():
    first, second = read_one(raw_docket([raw_entry(), raw_entry()])).entries
    assert first.digest == second.digest
    assert (first.position, second.position) == (0, 1)


def test_the_digest_ignores_the_order_of_keys_and_covers_fields_that_are_not_read():
    raw = raw_entry("Order", extra=1)
    (entry,) = read_one(raw_docket([dict(reversed(raw.items()))])).entries
    stable = orjson.dumps(raw, option=orjson.OPT_SORT_KEYS)
    assert entry.digest == hashlib.sha256(stable).hexdigest()
    (other,) = read_one(raw_docket([raw | {"extra": 2}])).entries
    assert other.digest != entry.digest


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4)
    ),
    max_leaves=8,
)
ENTRY = st.dictionaries(
    st.sampled_from(["date_filed", "date_entered", "description", "document_number", "x"]),
    st.sampled_from(["2020-01-02", "0001-01-01T00:00:00+14:00", "9999-12-31", "ORDER", " "]) | JSON,
)


@given(st.lists(st.binary(max_size=200), max_size=6))
def test_no_bytes_make_reading_raise(lines):
    read = list(read_dockets(lines))
    assert len(read) == sum(1 for line in lines if line.strip())


@given(st.lists(ENTRY | JSON, max_size=8))
def test_every_entry_is_either_kept_or_a_problem_and_the_kept_are_in_order(entries):
    docket = read_one(raw_docket(entries))
    kept = {entry.position for entry in docket.entries}
    left_out = {problem.position for problem in docket.problems}
    assert kept | left_out == set(range(len(entries)))
    assert not kept & left_out
    filed = [entry.date_filed for entry in docket.entries]
    assert filed == sorted(filed)
